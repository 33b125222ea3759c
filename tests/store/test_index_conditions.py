"""Row-level security lets through what the indexes of tenants' tables are declared for.

Before the policy of a table is checked, PostgreSQL runs only what cannot leak a row's values: comparisons and functions
marked leakproof, and of expressions `case`, but not `coalesce`. Anything else is no index condition, however well it
fits, and reads all rows of a tenant or a bank.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine

from store import identity
from store.database import Database
from store.memory.turns import TurnStore
from store.recall.filters import filter_parameters
from store.recall.query import RecallQuery
from store.recall.time_arm import OF_A_DAY, SAID, UNITS, split_days
from store.text.times import DAY, TimeSpan
from tests.servers import TestPostgres
from tests.store.conftest import NOON, new_host, turn

pytestmark = pytest.mark.untouched

KEYS = text("""
    with compared as (
        select a.amopfamily, a.amoplefttype as type, bool_and(p.proleakproof) as safe
          from pg_amop a join pg_operator o on o.oid = a.amopopr join pg_proc p on p.oid = o.oprcode
         where a.amoplefttype = a.amoprighttype group by 1, 2)
    select i.relname || ': ' || pg_get_indexdef(x.indexrelid, k.n, true) as key, x.indkey[k.n - 1] = 0 as computed,
           m.safe
      from pg_index x join pg_class i on i.oid = x.indexrelid join pg_class t on t.oid = x.indrelid
      join pg_namespace s on s.oid = t.relnamespace and s.nspname = 'afterturn'
     cross join lateral generate_series(1, x.indnkeyatts) k(n) join pg_opclass c on c.oid = x.indclass[k.n - 1]
      left join compared m on m.amopfamily = c.opcfamily and m.type = c.opcintype
     where t.relrowsecurity""")
#: Computed keys, and why each may be one.
COMPUTED = {
    "unit_by_occurrence: ( CASE WHEN occurred_start IS NULL THEN event_date ELSE occurred_start END)": "cannot leak",
    "unit_listed_by_plugin: (((metadata -> 'plugin'::text) ->> 'id'::text)::uuid)": "gives an order",
    "unit_pinned_by_plugin: (((metadata -> 'plugin'::text) ->> 'id'::text)::uuid)": "gives an order",
    "gateway_target_in_force: COALESCE(bank_id, host_id)": "makes rows unique",
}
#: Units of the bank, one an hour.
LARGE = 20_000
ADD = """
    insert into afterturn.agent_memory_unit_t
           (host_id, bank_id, unit_id, content, event_date, occurred_start, user_id, origin, position, update_ts,
            update_user)
    select u.host_id, u.bank_id, gen_random_uuid(), 'words', a.at, case when n % 2 = 0 then a.at end, u.user_id,
           'extraction', u.position, now(), ''
      from (select * from afterturn.agent_memory_unit_t limit 1) u, generate_series(1, {many}) n,
           lateral (select u.event_date - n * interval '1 hour') a(at)"""


async def test_what_an_index_is_declared_for_can_be_its_condition(postgres: TestPostgres) -> None:
    engine = create_async_engine(postgres.owner_url, poolclass=NullPool)
    async with engine.connect() as connection:
        keys = (await connection.execute(KEYS)).all()
    assert {" ".join(row.key.split()) for row in keys if row.computed} == set(COMPUTED)
    assert [row.key for row in keys if not row.safe] == []


async def test_of_a_large_bank_the_units_of_the_asked_days_are_read_and_no_others(
    lonely: Database, fresh_database: TestPostgres
) -> None:
    host = await new_host(lonely)
    await TurnStore(lonely, lambda: NOON).append(host, [turn()])
    engine = create_async_engine(fresh_database.superuser_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.exec_driver_sql(ADD.format(many=LARGE))
        await connection.exec_driver_sql("analyze afterturn.agent_memory_unit_t")
    days = split_days([TimeSpan(NOON - 40 * DAY, NOON - 10 * DAY)])
    bank = identity.bank_id(host, "home")
    values = {
        "host": host,
        "bank": bank,
        "of_a_day": OF_A_DAY,
        "generation": 1,
        "vector": None,
        "begins": [day.begin for day in days],
        "ends": [day.end for day in days],
        "units": UNITS,
        **filter_parameters(RecallQuery("home", "In January?"), bank),
    }
    async with lonely.tenant(host) as connection:
        query = SAID.compile(dialect=connection.dialect)
        arguments = tuple(values[name] for name in query.positiontup or ())
        told = "explain (analyze, costs off, timing off, summary off, format json)"
        [[plan]] = (await connection.exec_driver_sql(f"{told} {query}", arguments)).scalars().all()
    read = [count_rows(node) for node in walk(plan["Plan"]) if node.get("Relation Name") == "agent_memory_unit_t"]
    assert sum(read) == len(days) * (DAY // timedelta(hours=1)), orjson.dumps(plan, option=orjson.OPT_INDENT_2).decode()


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a node of a plan and all beneath it."""
    yield node
    for child in node.get("Plans", ()):
        yield from walk(child)


def count_rows(node: dict[str, Any]) -> int:
    """Return how many rows a node read."""
    each: float = (
        node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    )
    return round(each * float(node["Actual Loops"]))
