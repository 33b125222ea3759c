"""State outside the log: is it what its pipeline makes of the rows it has counted so far, and making it anew."""

from collections.abc import Iterable

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store import derived, projections
from store.facts import MANY_VALUED
from store.replay import aliases
from store.replay.digest import NAMED, Bank, first_differences
from store.replay.expected import EXPECTED, OF
from store.replay.report import Derived, Difference
from store.replay.shadow import Scope

BANKS = text(f"""
    select r.host_id, r.bank_id from afterturn.agent_memory_bank_t r where {OF.format("r")} order by 1, 2""")  # noqa: S608 - constants


async def check(connection: AsyncConnection, scope: Scope) -> list[Derived]:
    """Compare derived state with what its pipeline makes of the rows it has counted so far; see `expected.py`.

    Every word and vector belongs to something that lives, and every living unit of a turn has a vector or work that
    will make it.
    """
    arguments = {"host": scope.host, "bank": scope.bank, "many": list(MANY_VALUED)}
    found = []
    for name, expected in EXPECTED.items():
        wrong: list[Difference] = []
        for one in expected:
            wrong += await first_differences(
                connection, arguments, one.key, one.sides, right="derived", shown=one.shown
            )
        found.append(Derived(name, wrong[:NAMED]))
    return [*found, Derived("aliases", await aliases.differences(connection, arguments))]


async def banks(connection: AsyncConnection, scope: Scope) -> list[Bank]:
    """Return all banks of a scope."""
    rows = await connection.execute(BANKS, {"host": scope.host, "bank": scope.bank})
    return [Bank(*row) for row in rows]


async def rebuild(engine: AsyncEngine, concerned: Iterable[Bank]) -> None:
    """Make the derived state of banks again from nothing, words that wait included, a transaction for each bank."""
    for bank in concerned:
        async with engine.begin() as connection:
            await derived.rebuild(connection, bank.host, bank.bank)
            while (await projections.count_words(connection, bank.host, bank.bank)).more:
                pass
