"""`afterturn status`: how many turns there are, and how far each stage is with them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text
from sqlalchemy.exc import SQLAlchemyError

from deploy.cli.finding import DataOption, JsonOption, database_of, running_stack
from deploy.cli.printing import answer, console, ended
from deploy.stack import Stack
from store.database import Database
from store.ledger import PUBLIC_STATUSES, Ledger, Stage, StageCounts


@dataclass(frozen=True, slots=True)
class Status:
    """`turns` counts turns by stage and status; `rows` counts what is undone or failed, follow-ups included."""

    turns: Mapping[Stage, StageCounts]
    rows: Mapping[Stage, StageCounts]

    @property
    def accepted(self) -> int:
        """How many turns were accepted: each has a row in every stage."""
        return max(sum(stage.counts.values()) for stage in self.turns.values())

    @property
    def oldest_undone_s(self) -> float:
        """The age in seconds of what has waited longest."""
        return max(stage.oldest_undone_s for stage in self.rows.values())

    def of(self, *statuses: str) -> int:
        """How many rows of all stages have one of these statuses."""
        return sum(stage.counts[status] for stage in self.rows.values() for status in statuses)


def status_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show every stage of the running stack: what is pending, running, done, skipped, unknown and dead.

    A dead row is in quarantine with a reason; `oldest undone` is the age of what has waited longest.

    **Example:** `afterturn status --json`
    """
    stack = running_stack(data)
    try:
        status = asyncio.run(_read(stack))
    except (SQLAlchemyError, OSError) as error:
        raise ended(f"the database of the stack does not answer ({type(error).__name__})", 1) from None
    if as_json:
        answer(_as_json(status))
    else:
        console().print(_in_words(status))


async def _read(stack: Stack) -> Status:
    database = Database(database_of(stack))
    try:
        ledger = Ledger(database)
        return Status(await ledger.counts(), await ledger.gauges())
    finally:
        await database.close()


def _as_json(status: Status) -> dict[str, Any]:
    return {
        "turns": status.accepted,
        "stages": {stage.value: dict(counts.counts) for stage, counts in status.turns.items()},
        "oldest_undone_s": round(status.oldest_undone_s, 3),
        "dead": status.of("dead"),
        "undone": status.of("pending", "running"),
    }


def _in_words(status: Status) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage")
    for name in PUBLIC_STATUSES:
        table.add_column(name, justify="right")
    table.add_column("oldest", justify="right")
    for stage in Stage:
        counts, oldest = status.turns[stage].counts, status.rows[stage].oldest_undone_s
        shown = [Text(str(counts[name]), style="red" if name == "dead" and counts[name] else "") for name in counts]
        table.add_row(stage.value, *shown, f"{oldest:.1f} s" if oldest else "")
    undone = status.of("pending", "running")
    lag = f"{undone} pieces of work undone, the oldest for {status.oldest_undone_s:.1f} s" if undone else "all done"
    return Group(Text(f"{status.accepted} turns; {lag}; {status.of('dead')} dead"), table)
