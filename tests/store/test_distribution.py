"""The rules that Citus has for a schema distributed by tenant, held by the catalog of a real database."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from sqlalchemy import NullPool, text

from store.connections import create_engine
from store.distribution import (
    FUNCTIONS,
    FUNCTIONS_KEPT,
    KEY,
    REFERENCE_TABLES,
    TRIGGERED,
    list_distributed_tables,
    plan_statements,
)
from tests.servers import TestPostgres

#: Every unique index, primary keys included, with its columns; an expression has no name.
UNIQUE = """
    select i.indrelid::regclass::text as table_name, i.indexrelid::regclass::text as index_name,
           array(select coalesce(a.attname, '') from unnest(i.indkey::int2[]) k(n)
                   left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.n) as columns
      from pg_index i join pg_class c on c.oid = i.indrelid
     where i.indisunique and not c.relispartition
       and (c.relnamespace = 'afterturn'::regnamespace
            or c.relnamespace = 'public'::regnamespace and c.relname like 'afterturn\\_%')"""
#: Every index that names a bank, with its columns.
OF_BANKS = """
    select i.indrelid::regclass::text as table_name, i.indexrelid::regclass::text as index_name, a.names as columns
      from pg_index i join pg_class c on c.oid = i.indrelid,
           lateral (select array(select coalesce(a.attname, '') from unnest(i.indkey::int2[]) with ordinality k(n, nth)
                                   left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.n
                                  order by nth)) as a(names)
     where 'bank_id' = any (a.names) and not c.relispartition
       and (c.relnamespace = 'afterturn'::regnamespace
            or c.relnamespace = 'public'::regnamespace and c.relname like 'afterturn\\_%')"""
FOREIGN = """
    select k.conrelid::regclass::text as child, k.confrelid::regclass::text as parent, k.confdeltype::text as on_delete,
           array(select a.attname from unnest(k.conkey) n
                   join pg_attribute a on a.attrelid = k.conrelid and a.attnum = n) as own,
           array(select a.attname from unnest(k.confkey) n
                   join pg_attribute a on a.attrelid = k.confrelid and a.attnum = n) as theirs
      from pg_constraint k join pg_class c on c.oid = k.conrelid
     where k.contype = 'f' and k.conparentid = 0 and c.relnamespace = 'afterturn'::regnamespace"""
TABLES = """
    select c.oid::regclass::text as name, a.attname is not null as of_tenants, format_type(a.atttypid, null) as type
      from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attname = 'host_id' and not a.attisdropped
     where c.relkind in ('r', 'p') and not c.relispartition
       and (c.relnamespace = 'afterturn'::regnamespace
            or c.relnamespace = 'public'::regnamespace and c.relname like 'afterturn\\_%')"""
TRIGGERS = """
    select t.tgrelid::regclass::text from pg_trigger t join pg_class c on c.oid = t.tgrelid
     where not t.tgisinternal and c.relnamespace = 'afterturn'::regnamespace and not c.relispartition"""


def whole(name: str) -> str:
    return name if name.startswith("afterturn.") else f"public.{name}"


@pytest_asyncio.fixture(loop_scope="session")
async def ask(postgres: TestPostgres) -> AsyncIterator[Any]:
    engine = create_engine(postgres.named(postgres.template).superuser_url, poolclass=NullPool)

    async def answer(question: str) -> list[Any]:
        async with engine.connect() as connection:
            return list((await connection.execute(text(question))).all())

    yield answer
    await engine.dispose()


async def test_every_table_is_distributed_by_its_tenant_or_stands_whole_for_a_reason(ask: Any) -> None:
    distributed = {table.fullname for table in list_distributed_tables()}
    seen = {whole(row.name): row for row in await ask(TABLES) if "afterturn_version" not in row.name}
    assert distributed | set(REFERENCE_TABLES) == set(seen)
    assert all(seen[name].of_tenants and seen[name].type == "uuid" for name in distributed)


async def test_the_tenant_is_in_every_unique_key_of_a_distributed_table(ask: Any) -> None:
    rows = [row for row in await ask(UNIQUE) if whole(row.table_name) not in REFERENCE_TABLES]
    without = [row.index_name for row in rows if KEY not in row.columns and "afterturn_version" not in row.table_name]
    assert len(rows) > 30
    assert without == []


async def test_every_index_that_names_a_bank_begins_with_its_tenant(ask: Any) -> None:
    rows = await ask(OF_BANKS)
    assert len(rows) > 40
    assert [row.index_name for row in rows if row.columns[0] != KEY] == []


async def test_foreign_keys_stay_within_the_tenant_and_no_whole_table_refers_to_a_distributed_one(ask: Any) -> None:
    rows = await ask(FOREIGN)
    assert rows
    for row in rows:
        child, parent = whole(row.child) in REFERENCE_TABLES, whole(row.parent) in REFERENCE_TABLES
        assert parent or not child, f"{row.child} refers to {row.parent}, which is on other nodes"
        if not parent:
            assert row.own.index(KEY) == row.theirs.index(KEY), f"{row.child}, {row.parent}: two tenants"
        if not child:
            assert row.on_delete not in {"n", "d"}, f"{row.child}: on delete may not change the tenant"


async def test_a_function_with_a_tenant_takes_it_first(ask: Any) -> None:
    found = await ask(FUNCTIONS.text)
    later = {row.name for row in found if row.first != "p_host"}
    assert later == set(FUNCTIONS_KEPT)
    plan = list(plan_statements([row.signature for row in found if row.first == "p_host"]))
    names = [re.findall(r"'([^']+)'", line)[0] for line in plan if "_table(" in line]
    assert len(names) == len(set(names)) == len(REFERENCE_TABLES) + len(list_distributed_tables())
    assert any("create_distributed_function('afterturn.append_turns(uuid" in line for line in plan)


async def test_tables_with_triggers_are_named(ask: Any) -> None:
    """Citus runs triggers of distributed tables only where it is told to."""
    assert {row[0] for row in await ask(TRIGGERS)} == set(TRIGGERED)
