"""`afterturn recall-check`: whether the search by meaning finds what an exact search finds, on what is stored."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.table import Table

from deploy.cli.existence import no_such
from deploy.cli.operator_command import on_database
from deploy.cli.output import answer, console, ended, say
from deploy.cli.running_stack import DataOption, JsonOption, running_stack
from store.database import Database
from store.recall.accuracy_check import Asked, StoredBank, compare, stored_banks
from store.recall.settings import RecallSettings

LEAST = 0.98
#: From how many units on a bank belongs to the next class.
STEPS = (1_000, 10_000, 100_000, 1_000_000)
NAMES = ("below 1,000", "1,000 to 10,000", "10,000 to 100,000", "100,000 to 1,000,000", "from 1,000,000")


@dataclass(frozen=True, slots=True)
class Row:
    """What was found of what is there, over the questions of one class."""

    name: str
    banks: int
    questions: int
    recall: float

    @property
    def holds(self) -> bool:
        """Say whether it is enough."""
        return self.recall >= LEAST


def recall_check_command(
    *,
    bank: Annotated[str | None, typer.Option(help="Only banks of this name, whosever they are.")] = None,
    banks: Annotated[int, typer.Option(min=1, help="How many banks of each size are looked at, at most.")] = 5,
    units: Annotated[int, typer.Option(min=1, max=1000, help="How many units of a bank serve as questions.")] = 20,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the search by meaning with an exact one, on what the running stack has stored.

    Stored units serve as questions: their ten nearest neighbours as recall finds them, beside plain inner products
    over the whole bank, without filters and with those of kind, session and tags; with the settings of recall that the
    stack runs with. Exits 1 when less than 98 % is found
    in banks of any size or under any filter.

    **Example:** `afterturn recall-check --bank home --units 50`
    """
    stack = running_stack(data)

    async def check(database: Database) -> list[Asked]:
        stored = await stored_banks(database, bank)
        if bank is not None and not stored:
            there = sorted({one.name for one in await stored_banks(database, None)})
            raise ended(no_such(f"nobody has a bank {bank!r}", "there is", bank, there), 2)
        return await checked(database, _some(stored, banks), units, stack.recall)

    asked = on_database(stack, check)
    if not asked:
        say("nothing is stored that could be compared")
    sizes, filtered = by(asked, lambda one: NAMES[size_class(one.bank.units)]), by(asked, lambda one: one.filter)
    holds = all(row.holds for row in (*sizes, *filtered))
    if as_json:
        answer(_as_json(asked, sizes, filtered, holds=holds))
    else:
        console().print(_table("units in a bank", [*sizes, *by(asked, lambda _: "all")]))
        console().print(_table("filter", filtered))
    raise typer.Exit(0 if holds else 1)


async def checked(database: Database, banks: Sequence[StoredBank], units: int, settings: RecallSettings) -> list[Asked]:
    """Compare in every one of these banks."""
    return [one for bank in banks for one in await compare(database, bank, units, settings)]


def size_class(units: int) -> int:
    """Return which of `NAMES` a bank of so many units is."""
    return sum(units >= step for step in STEPS)


def by(asked: Sequence[Asked], name: Callable[[Asked], str]) -> list[Row]:
    """Return a row for each name, in the order of their sizes or else of their letters."""
    order = {one: n for n, one in enumerate(NAMES)}
    ordered = sorted(asked, key=lambda one: (order.get(name(one), 0), name(one)))
    return [_row(key, list(group)) for key, group in groupby(ordered, name)]


def _row(name: str, asked: Sequence[Asked]) -> Row:
    banks = {(one.bank.host_id, one.bank.bank_id) for one in asked}
    return Row(name, len(banks), len(asked), sum(one.found for one in asked) / sum(one.there for one in asked))


def _some(banks: Sequence[StoredBank], most: int) -> list[StoredBank]:
    """Choose at most so many banks of each size, whichever chance brings."""
    mixed = random.sample(banks, len(banks))
    mixed.sort(key=lambda bank: size_class(bank.units))
    return [bank for _, group in groupby(mixed, lambda bank: size_class(bank.units)) for bank in list(group)[:most]]


def _as_json(asked: Sequence[Asked], sizes: Sequence[Row], filtered: Sequence[Row], *, holds: bool) -> dict[str, Any]:
    whole = by(asked, lambda _: "all")
    return {
        "recall_at_10": round(whole[0].recall, 4) if whole else None,
        "questions": len(asked),
        "target": f">= {LEAST}",
        "met": holds,
        "sizes": [{"units": row.name, **_figures(row)} for row in sizes],
        "filters": [{"filter": row.name, **_figures(row)} for row in filtered],
    }


def _figures(row: Row) -> dict[str, Any]:
    return {"banks": row.banks, "questions": row.questions, "recall_at_10": round(row.recall, 4), "met": row.holds}


def _table(title: str, rows: Sequence[Row]) -> Table:
    table = Table(title, "banks", "questions", "recall@10", "", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        verdict = "met" if row.holds else "not met"
        table.add_row(row.name, str(row.banks), str(row.questions), f"{row.recall:.4f}", verdict)
    return table
