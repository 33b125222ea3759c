"""Options that select ledger rows, and rows as tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer
from afterturn_client.contract.operators import Job, JobNote
from rich.text import Text

from deploy.cli.existence import find_host_id
from deploy.cli.times import parse_duration
from deploy.components.bootstrap import HOST
from deploy.notices import replace_unprintable
from deploy.tables import ResultTable
from store import identity

HostOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only this tenant (host).")]
BankOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only this bank (of --host, or of the default tenant).")
]
CategoryOption = Annotated[
    str | None, typer.Option(metavar="WORD", help="Filter by error category: timeout, internal, …")
]
OlderOption = Annotated[
    timedelta | None,
    typer.Option(parser=parse_duration, metavar="LENGTH", help="Only turns accepted longer ago than this: 10m, 2h."),
]
LimitOption = Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of rows.")]
YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation before several rows are changed.")
]
TurnArgument = Annotated[
    str, typer.Argument(metavar="TURN", help="A turn's id, or SESSION/TURN: the agent's own ids (with --bank).")
]

#: Name of the target that is this service itself.
SELF = "self"

_COLOURS = {"dead": "red", "unknown": "yellow"}
MINUTE, HOUR, DAY = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class BankFilter:
    """The tenant (name or id) and bank that the options name."""

    host: str | None
    bank: str | None

    @property
    def tenant(self) -> str | None:
        """The named tenant; a bank without one is the default tenant's."""
        return self.host or (None if self.bank is None else HOST)

    @property
    def host_id(self) -> UUID | None:
        """The host's id; a bank without a host is one of the default host."""
        return None if self.tenant is None else find_host_id(self.tenant)

    @property
    def bank_id(self) -> UUID | None:
        """The bank's id."""
        return None if self.bank is None or self.host_id is None else identity.bank_id(self.host_id, self.bank)

    def item(self, name: str) -> UUID:
        """Return the turn's id: the given id, or that of SESSION/TURN. Raises typer.BadParameter."""
        try:
            return UUID(name)
        except ValueError:
            session, slash, turn = name.partition("/")
        if not (session and slash and turn):
            raise typer.BadParameter(f"{replace_unprintable(name)} is neither an id nor SESSION/TURN")
        bank = identity.bank_id(find_host_id(self.host or HOST), self.bank or "default")
        return identity.turn_id(identity.session_id(bank, session), turn)


def build_rows_table(jobs: Sequence[Job]) -> ResultTable:
    """Return rows as a table; a delivery is followed by its target, where that is told."""
    numbers = ("age", "tries")
    shown = ResultTable("stage", "status", "turn", "bank", "tenant", *numbers, "why", numbers=numbers)
    for job in jobs:
        shown.add_values(
            job.stage,
            Text(job.status, style=_COLOURS.get(job.status, "")),
            str(job.turn_id) + (" +" if job.follow_up else ""),
            job.bank or str(job.bank_id),
            job.tenant,
            format_seconds(job.age_s),
            str(job.attempts),
            _describe_status(job),
        )
        if to := job.gateway:
            place = f"to {to.session or '(erased)'} of {to.user_id} at {to.url or SELF}"
            shown.add_values(*[""] * 7, Text(place, style="dim"))
    return shown


def build_notes_table(notes: Sequence[JobNote]) -> ResultTable:
    """Return recorded attempts as a table."""
    shown = ResultTable("when", "what", "details")
    for noted in notes:
        told = ", ".join(f"{name} {value}" for name, value in (noted.details or {}).items())
        shown.add_values(f"{noted.at:%Y-%m-%d %H:%M:%S}", noted.event, told)
    return shown


def _describe_status(job: Job) -> str:
    """Return a row's status in words: what it waits for, which worker claims it, or its error."""
    wrong = ": ".join(part for part in (job.category, job.reason) if part)
    if job.waits_for:
        return f"waits for {job.waits_for}"
    if job.worker:
        return f"claimed by {job.worker}"
    if job.status == "pending" and wrong and job.next_attempt_at:
        return f"again at {job.next_attempt_at:%H:%M:%S} ({wrong})"
    state = f"{job.state} " if job.state != job.status and job.status in _COLOURS else ""
    return (state + (f"({wrong})" if state and wrong else wrong)).strip()


def format_seconds(seconds: float) -> str:
    """Return a duration in the largest fitting unit: 5 s, 3 min, 2 h."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} s"
