"""Selects ledger rows by command-line options, and formats them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

import orjson
import typer
from rich.text import Text

from deploy.cli.existence import find_host_id
from deploy.cli.times import parse_duration
from deploy.components.bootstrap import HOST
from deploy.notices import replace_unprintable
from deploy.tables import ResultTable
from producers.service.operator_work import describe_job
from store import identity
from store.ledger.listing import Backlog, LedgerEntry, Selection, TurnAuditRow
from store.ledger.stages import Stage
from store.tenancy.gateway_targets import Destination

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
    def host_id(self) -> UUID | None:
        """The host's id; a bank without a host is one of the default host."""
        if self.host is None and self.bank is None:
            return None
        return find_host_id(self.host or HOST)

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


async def read_rows(
    backlog: Backlog, place: BankFilter, names: Sequence[str], selection: Selection
) -> list[LedgerEntry]:
    """Return the rows of these turns (or single rows) that a selection allows."""
    undone, failed = selection.open_states()
    states, stages = {*undone, *failed}, set(selection.stages)
    found: dict[tuple[UUID, str], LedgerEntry] = {}
    for item in map(place.item, names):
        for entry in await backlog.of_turn(item, place.host_id):
            meant = item in {entry.item_id, entry.turn_id}
            if meant and entry.state in states and entry.stage in stages:
                found[entry.item_id, entry.stage] = entry
    return list(found.values())


def serialise_row(
    entry: LedgerEntry, banks: Mapping[UUID, str], deliveries: Mapping[UUID, Destination]
) -> dict[str, Any]:
    """Return a row as `--json` shows it: what the operators' API tells of it, and the bank's name; no content.

    A delivery also shows its target and the session's name there.
    """
    to = deliveries.get(entry.item_id) if entry.stage is Stage.GATEWAY else None
    return {
        **describe_job(entry),
        "bank": banks.get(entry.bank_id),
        **({} if to is None else {"gateway": destination_json(to)}),
    }


def destination_json(to: Destination) -> dict[str, str]:
    """Return a delivery's target as `--json` shows it; `session` is '' when its name was erased."""
    user = to.target.user
    where = {"url": user.base_url or SELF, "user_id": user.user_id, "session": to.session}
    return {"target_id": str(to.target.target_id), **where}


def serialise_note(noted: TurnAuditRow) -> dict[str, Any]:
    """Return a recorded attempt as `--json` shows it."""
    return {"at": noted.at.isoformat(), "event": noted.event, **orjson.loads(noted.payload)}


def build_rows_table(
    entries: Sequence[LedgerEntry], banks: Mapping[UUID, str], deliveries: Mapping[UUID, Destination]
) -> ResultTable:
    """Return rows as a table; a delivery is followed by its target."""
    numbers = ("age", "tries")
    shown = ResultTable("stage", "status", "turn", "bank", "host", *numbers, "why", numbers=numbers)
    for entry in entries:
        shown.add_values(
            entry.stage.value,
            Text(entry.status, style=_COLOURS.get(entry.status, "")),
            str(entry.turn_id) + (" +" if entry.is_follow_up else ""),
            banks.get(entry.bank_id, "-"),
            entry.host,
            format_seconds(entry.age_s),
            str(entry.attempts),
            describe_status(entry),
        )
        if entry.stage is Stage.GATEWAY and (to := deliveries.get(entry.item_id)):
            place = f"to {to.session or '(erased)'} of {to.target.user.user_id} at {to.target.user.base_url or SELF}"
            shown.add_values(*[""] * 7, Text(place, style="dim"))
    return shown


def build_notes_table(notes: Sequence[TurnAuditRow]) -> ResultTable:
    """Return recorded attempts as a table."""
    shown = ResultTable("when", "what", "details")
    for noted in notes:
        told = ", ".join(f"{name} {value}" for name, value in orjson.loads(noted.payload).items())
        shown.add_values(f"{noted.at:%Y-%m-%d %H:%M:%S}", noted.event, told)
    return shown


def describe_status(entry: LedgerEntry) -> str:
    """Return a row's status in words: what it waits for, which worker claims it, or its error."""
    wrong = ": ".join(part for part in (entry.category, entry.reason) if part)
    if entry.waits_for:
        return f"waits for {entry.waits_for}"
    if entry.worker:
        return f"claimed by {entry.worker}"
    if entry.status == "pending" and wrong and entry.next_attempt_at:
        return f"again at {entry.next_attempt_at:%H:%M:%S} ({wrong})"
    state = f"{entry.state} " if entry.state != entry.status and entry.status in _COLOURS else ""
    return (state + (f"({wrong})" if state and wrong else wrong)).strip()


def format_seconds(seconds: float) -> str:
    """Return a duration in the largest fitting unit: 5 s, 3 min, 2 h."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} s"
