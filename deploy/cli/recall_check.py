"""`afterturn recall-check`: compare vector search with an exact search on the stored vectors."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any

import typer

from deploy.cli.existence import describe_missing
from deploy.cli.operator_command import run_on_database
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.notices import print_notice
from deploy.tables import ResultTable
from store.database import Database
from store.recall.accuracy_check import CheckedQuestion, StoredBank, compare_searches, find_stored_banks
from store.recall.settings import RecallSettings

TARGET_RECALL = 0.98
#: Numbers of units from which a bank belongs to the next size class.
SIZE_LIMITS = (1_000, 10_000, 100_000, 1_000_000)
SIZE_NAMES = ("below 1,000", "1,000 to 10,000", "10,000 to 100,000", "100,000 to 1,000,000", "from 1,000,000")


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """The share of exact neighbours that recall found, for one class of questions."""

    name: str
    banks: int
    questions: int
    recall: float

    @property
    def holds(self) -> bool:
        """Whether the share meets the target."""
        return self.recall >= TARGET_RECALL


def recall_check_command(
    *,
    bank: Annotated[str | None, typer.Option(help="Only banks with this name, of all tenants.")] = None,
    banks: Annotated[int, typer.Option(min=1, help="Maximum number of banks of each size.")] = 5,
    units: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of units of a bank that serve as questions.")
    ] = 20,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare vector search with an exact search on the stored vectors.

    Stored units serve as questions. For each, the ten nearest neighbours found by recall are compared with an exact
    inner-product search over the whole bank, without filters and with filters by kind, session and tags. Recall uses
    the stack's settings. Exits 1 when less than 98 % is found for any bank size or filter.

    **Example:** `afterturn recall-check --bank home --units 50`
    """
    stack = find_running_stack(data)

    async def check(database: Database) -> list[CheckedQuestion]:
        stored = await find_stored_banks(database, bank)
        if bank is not None and not stored:
            there = sorted({one.name for one in await find_stored_banks(database, None)})
            raise exit_with(describe_missing(f"no tenant has a bank {bank!r}", "there is", bank, there), 2)
        return await compare_banks(database, _sample_banks(stored, banks), units, stack.recall)

    asked = run_on_database(stack, check)
    if not asked:
        print_notice("nothing is stored that could be compared")
    sizes, filtered = (
        summarise_by(asked, lambda one: SIZE_NAMES[classify_size(one.bank.units)]),
        summarise_by(asked, lambda one: one.filter),
    )
    holds = all(row.holds for row in (*sizes, *filtered))
    if as_json:
        print_json(_serialise_report(asked, sizes, filtered, holds=holds))
    else:
        create_console().print(_build_table("units in a bank", [*sizes, *summarise_by(asked, lambda _: "all")]))
        create_console().print(_build_table("filter", filtered))
    raise typer.Exit(0 if holds else 1)


async def compare_banks(
    database: Database, banks: Sequence[StoredBank], units: int, settings: RecallSettings
) -> list[CheckedQuestion]:
    """Compare vector search with exact search in each of these banks, and return the compared questions."""
    return [one for bank in banks for one in await compare_searches(database, bank, units, settings)]


def classify_size(units: int) -> int:
    """Return the index in `SIZE_NAMES` of a bank with this number of units."""
    return sum(units >= step for step in SIZE_LIMITS)


def summarise_by(asked: Sequence[CheckedQuestion], name: Callable[[CheckedQuestion], str]) -> list[AccuracyRow]:
    """Return a row for each value of `name`: size classes by size, others alphabetically."""
    order = {one: n for n, one in enumerate(SIZE_NAMES)}
    ordered = sorted(asked, key=lambda one: (order.get(name(one), 0), name(one)))
    return [_summarise_group(key, list(group)) for key, group in groupby(ordered, name)]


def _summarise_group(name: str, asked: Sequence[CheckedQuestion]) -> AccuracyRow:
    banks = {(one.bank.host_id, one.bank.bank_id) for one in asked}
    return AccuracyRow(name, len(banks), len(asked), sum(one.found for one in asked) / sum(one.there for one in asked))


def _sample_banks(banks: Sequence[StoredBank], most: int) -> list[StoredBank]:
    """Return a random sample of at most `most` banks of each size class."""
    mixed = random.sample(banks, len(banks))
    mixed.sort(key=lambda bank: classify_size(bank.units))
    return [bank for _, group in groupby(mixed, lambda bank: classify_size(bank.units)) for bank in list(group)[:most]]


def _serialise_report(
    asked: Sequence[CheckedQuestion], sizes: Sequence[AccuracyRow], filtered: Sequence[AccuracyRow], *, holds: bool
) -> dict[str, Any]:
    whole = summarise_by(asked, lambda _: "all")
    return {
        "recall_at_10": round(whole[0].recall, 4) if whole else None,
        "questions": len(asked),
        "target": f">= {TARGET_RECALL}",
        "met": holds,
        "sizes": [{"units": row.name, **_serialise_row(row)} for row in sizes],
        "filters": [{"filter": row.name, **_serialise_row(row)} for row in filtered],
    }


def _serialise_row(row: AccuracyRow) -> dict[str, Any]:
    return {"banks": row.banks, "questions": row.questions, "recall_at_10": round(row.recall, 4), "met": row.holds}


def _build_table(title: str, rows: Sequence[AccuracyRow]) -> ResultTable:
    table = ResultTable(title, "banks", "questions", "recall@10", "")
    for row in rows:
        verdict = "met" if row.holds else "not met"
        table.add_values(row.name, str(row.banks), str(row.questions), f"{row.recall:.4f}", verdict)
    return table
