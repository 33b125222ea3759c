"""Compares derived state outside the log with what the pipeline computes, and rebuilds it."""

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store.derived import bank_state, projection
from store.derived.facts import MANY_VALUED
from store.derived.unit_words import find_wrong_words
from store.replay import aliases
from store.replay.digest import NAMED, BankIdentity, find_first_differences
from store.replay.expected import EXPECTED, WORDS
from store.replay.report import DerivedStateReport, Difference
from store.replay.shadow import ReplayScope
from store.tenancy import languages

BANKS = text("""
    select r.host_id, r.bank_id from afterturn.agent_memory_bank_t r
     where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank) order by 1, 2""")


async def check_derived(connection: AsyncConnection, scope: ReplayScope) -> list[DerivedStateReport]:
    """Compare derived state with what its pipeline gives for the rows it has counted so far; see `expected.py`.

    Every turn of the log has its guard. Every living unit has the right words, and every vector belongs to a living
    unit or reflection; every living unit of a turn has a vector, or a ledger row that will make it.
    """
    known = {"many": list(MANY_VALUED), "languages": languages.list_nameable_languages()}
    arguments = {"host": scope.host, "bank": scope.bank, **known}
    found = []
    for name, expected in EXPECTED.items():
        wrong: list[Difference] = []
        for one in expected:
            wrong += await find_first_differences(
                connection, arguments, one.key, one.sides, right="derived", shown=one.shown
            )
        if name == WORDS:
            wrong += await _wrong_words(connection, scope)
        found.append(DerivedStateReport(name, wrong[:NAMED]))
    return [*found, DerivedStateReport("aliases", await aliases.find_differences(connection, arguments))]


async def _wrong_words(connection: AsyncConnection, scope: ReplayScope) -> list[Difference]:
    """Return the first units whose words are missing or wrong."""
    found: list[Difference] = []
    rules: dict[UUID, Mapping[UUID, languages.Rules]] = {}
    for bank in await read_banks(connection, scope):
        if bank.host not in rules:
            rules[bank.host] = await languages.read_languages(connection, bank.host)
        place = {"host_id": str(bank.host), "bank_id": str(bank.bank)}
        of_bank = languages.choose_rules(rules[bank.host], bank.bank)
        async with aclosing(find_wrong_words(connection, bank.host, bank.bank, of_bank)) as pages:
            async for page in pages:
                found += [
                    Difference(
                        {**place, "unit_id": str(one.terms.unit_id)}, "both" if one.worded else "derived", one.columns
                    )
                    for one in page
                ]
                if len(found) >= NAMED:
                    return found
    return found


async def read_banks(connection: AsyncConnection, scope: ReplayScope) -> list[BankIdentity]:
    """Return all banks of a scope."""
    rows = await connection.execute(BANKS, {"host": scope.host, "bank": scope.bank})
    return [BankIdentity(*row) for row in rows]


async def rebuild_derived(engine: AsyncEngine, concerned: Iterable[BankIdentity]) -> None:
    """Rebuild the derived state of banks, with words that wait to be indexed, a transaction for each bank."""
    for bank in concerned:
        async with engine.begin() as connection:
            await bank_state.rebuild_bank(connection, bank.host, bank.bank)
            while (await projection.count_words(connection, bank.host, bank.bank)).more:
                pass
