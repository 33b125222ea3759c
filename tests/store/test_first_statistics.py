"""Plans for what statistics say nothing of: a database nobody has analyzed yet, and a host that came later."""

from uuid import UUID

import pytest
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine

from store import identity
from store.database import Database
from store.memory.turns import TurnStore
from tests.servers import TestPostgres
from tests.store.conftest import NOON, new_host, turn

pytestmark = pytest.mark.untouched


async def _index_conditions(database: Database, host: UUID, statement: str) -> list[str]:
    arguments = {"host": host, "bank": identity.bank_id(host, "home")}
    async with database.tenant(host) as connection:
        plan = await connection.execute(text(f"explain (costs off) {statement}"), arguments)
        return [line.strip() for (line,) in plan if line.strip().startswith("Index Cond")]


@pytest.mark.parametrize(
    "column, statement",
    [
        (
            "term = ",
            """select p.unit_id from unnest(array['word', 'of']) q(term), lateral (
                   select p.unit_id from afterturn.posting_t p
                    where p.host_id = :host and p.bank_id = :bank and p.term = q.term limit 10) p""",
        ),
        (
            "unit_id = ",
            """select from unnest(array[gen_random_uuid(), gen_random_uuid()]) q(unit_id), lateral (
                   select from afterturn.agent_memory_unit_t u
                    where u.host_id = :host and u.bank_id = :bank and u.unit_id = q.unit_id limit 1) u""",
        ),
        (
            "seq = ",
            """select from unnest(array[1, 2]) q(seq), lateral (
                   select from afterturn.agent_memory_unit_t u
                    where u.host_id = :host and u.bank_id = :bank and u.session_id = gen_random_uuid()
                      and u.seq = q.seq limit 1) u""",
        ),
    ],
)
async def test_a_new_database_looks_things_up_by_their_own_index(lonely: Database, column: str, statement: str) -> None:
    host = await new_host(lonely)
    store = TurnStore(lonely, lambda: NOON)
    for start in range(0, 800, 100):
        await store.append(host, [turn(f"t{n}", f"word number {n}", "so it is") for n in range(start, start + 100)])
    async with lonely.tenant(host) as connection:
        carried = text("select * from afterturn.post_words(:host, :bank, 10000, true)")
        await connection.execute(carried, {"host": host, "bank": identity.bank_id(host, "home")})
    conditions = await _index_conditions(lonely, host, statement)
    assert any(column in condition for condition in conditions), conditions


@pytest.mark.parametrize(
    "column, statement",
    [
        (
            "aggregate_key = ",
            """select (select max(s.aggregate_version) from afterturn.event_store_t s
                        where s.host_id = :host and s.bank_id = :bank and s.aggregate_key = q.key)
                 from unnest(array['x', cast(cast(:bank as uuid) as text)]) q(key)""",
        ),
        (
            "unit_id = ",
            """select from unnest(array[cast(:bank as uuid)], array[gen_random_uuid()])
                        as q(bank, unit)
                 join afterturn.agent_memory_unit_t u
                   on u.host_id = :host and u.bank_id = q.bank and u.unit_id = q.unit""",
        ),
    ],
)
async def test_a_host_that_came_after_the_last_analyze_is_not_taken_for_a_row_or_two(
    fresh_database: TestPostgres, lonely: Database, column: str, statement: str
) -> None:
    store = TurnStore(lonely, lambda: NOON)
    for _ in range(3):
        host = await new_host(lonely)
        await store.append(host, [turn(f"t{n}", f"word number {n}") for n in range(100)])
    engine = create_async_engine(fresh_database.superuser_url, poolclass=NullPool, connect_args={"ssl": False})
    async with engine.begin() as connection:
        await connection.execute(text("analyze"))
    await engine.dispose()
    conditions = await _index_conditions(lonely, await new_host(lonely), statement)
    assert any(column in condition for condition in conditions), conditions
