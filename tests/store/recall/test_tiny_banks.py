"""One large bank among very many tiny ones: what is looked up is found by its own index."""

import re

import pytest
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine

from store.database import Database
from store.memory.turns import TurnStore
from store.recall.candidates import POOL
from tests.servers import TestPostgres
from tests.store.conftest import NOON, new_host, turn

pytestmark = pytest.mark.untouched

#: As many banks as the large one has messages, each of a few: on the whole a bank is small.
TINY = """
    with tiny as materialized (
        select gen_random_uuid() as host_id, gen_random_uuid() as bank_id, gen_random_uuid() as session_id
          from generate_series(1, 3000)
    ), hosts as (
        insert into afterturn.host_t (host_id, name) select host_id, cast(host_id as text) from tiny returning 1
    ), banks as (
        insert into afterturn.agent_memory_bank_t
        select b.* from tiny t, afterturn.agent_memory_bank_t o,
               lateral jsonb_populate_record(o, jsonb_build_object('host_id', t.host_id, 'bank_id', t.bank_id)) b
        returning 1
    ), n as (select (select count(*) from hosts) + (select count(*) from banks))
    insert into afterturn.agent_memory_unit_t
    select u.* from n, tiny t, afterturn.agent_memory_unit_t o,
           lateral jsonb_populate_record(o, jsonb_build_object(
               'host_id', t.host_id, 'bank_id', t.bank_id, 'session_id', t.session_id, 'turn_id', gen_random_uuid(),
               'unit_id', gen_random_uuid())) u
     where o.seq < :each"""


@pytest.mark.parametrize("each", [2, 5])
async def test_neighbours_are_found_by_their_number(lonely: Database, fresh_database: TestPostgres, each: int) -> None:
    host = await new_host(lonely)
    store = TurnStore(lonely, lambda: NOON)
    for start in range(0, 400, 100):
        await store.append(host, [turn(f"t{n}", f"message {n}") for n in range(start, start + 100)])
    engine = create_async_engine(fresh_database.superuser_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(text("set session_replication_role = replica"))
        await connection.execute(text(TINY), {"each": each})
        await connection.execute(text("analyze"))
    async with lonely.tenant(host) as connection:
        # A plan that is kept knows no host and no bank, only what banks are like.
        query = str(POOL.compile(dialect=connection.dialect))
        values = ", ".join("null" for _ in range(max(map(int, re.findall(r"\$(\d+)", query)))))
        await connection.exec_driver_sql("set local plan_cache_mode = force_generic_plan")
        await connection.exec_driver_sql(f"prepare pool as {query}")
        plan = await connection.exec_driver_sql(f"explain (costs off) execute pool ({values})")
        lines = [line.strip() for (line,) in plan]
        await connection.exec_driver_sql("deallocate pool")
    for looked_up in (
        "seq = u.seq_before",
        "seq = u.seq_after",
        "unit_id = found_1.unit_id",
        "unit_id = wanted.unit_id",
    ):
        assert any(line.startswith("Index Cond") and looked_up in line for line in lines), "\n".join(lines)
