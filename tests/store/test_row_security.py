"""No role of the service passes row-level security, the owner of the tables included; each grant is written down."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

import store
from store.connections import create_engine, create_owner_engine
from store.database import Database
from store.memory.turns import TurnStore
from store.replay import run as replay
from store.tenancy.keys import Keys
from tests.servers import TestPostgres
from tests.store.conftest import NOON, blocked, new_host, rows, turn

pytestmark = [pytest.mark.law("L6"), pytest.mark.untouched]

PAGE = (Path(store.__file__).parent / "ROLES.md").read_text(encoding="utf-8")
ROLES = ("afterturn_app", "afterturn_operator")
#: Every table that is ours, wherever it stands: what an extension made is not, nor what a session keeps for itself.
OURS = """
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where c.relkind in ('r', 'p') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
     and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')"""
UNGUARDED = f"select c.oid::regclass::text {OURS} and not (c.relrowsecurity and c.relforcerowsecurity) order by 1"
WITHOUT_OWNERS_POLICY = f"""
    select c.oid::regclass::text {OURS} and not exists (
        select from pg_policy p where p.polrelid = c.oid and p.polroles = array[c.relowner]) order by 1"""
#: Of tables that hold rows of tenants: what the application may touch at all, it may touch in its own tenant alone.
WITHOUT_TENANTS_POLICY = f"""
    select c.oid::regclass::text {OURS} and not c.relispartition
       and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'host_id')
       and c.oid in (select a.oid from (select oid, (aclexplode(relacl)).grantee from pg_class
                                         union all
                                        select attrelid, (aclexplode(attacl)).grantee from pg_attribute) a
                      where a.grantee = 'afterturn_app'::regrole)
       and not exists (select from pg_policies p
                        where p.schemaname = n.nspname and p.tablename = c.relname and p.permissive = 'PERMISSIVE'
                          and p.roles = array['afterturn_app']::name[] and p.qual like '%current_host()%'
                          and coalesce(p.with_check, p.qual) like '%current_host()%') order by 1"""
WIDER_VIEWS = """
    select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('afterturn', 'hindsight') and c.relkind in ('v', 'm')
       and not coalesce(c.reloptions && array['security_invoker=true', 'security_invoker=on'], false)"""
#: Functions that run with their owner's rights, though anybody may call them or choose what names mean in them.
LOOSE_FUNCTIONS = """
    select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname = 'afterturn' and p.prosecdef
       and (p.proacl is null or exists (select from aclexplode(p.proacl) a where a.grantee = 0)
            or not exists (select from unnest(p.proconfig) s where s like 'search_path=%pg_temp'))"""
CHECKS = (UNGUARDED, WITHOUT_OWNERS_POLICY, WITHOUT_TENANTS_POLICY, WIDER_VIEWS, LOOSE_FUNCTIONS)


async def found(url: str, *checks: str) -> list[Any]:
    engine = create_owner_engine(url)
    try:
        async with engine.connect() as connection:
            return [row[0] for check in checks for row in await connection.execute(text(check))]
    finally:
        await engine.dispose()


async def run(url: str, *statements: str) -> None:
    engine = create_owner_engine(url)
    try:
        async with engine.begin() as connection:
            for statement in statements:
                await connection.execute(text(statement))
    finally:
        await engine.dispose()


async def test_every_table_view_and_function_keeps_to_the_policies(postgres: TestPostgres) -> None:
    assert await found(postgres.owner_url, *CHECKS) == []


async def test_a_replay_that_replaces_the_tables_leaves_none_unguarded(fresh_database: TestPostgres) -> None:
    await replay.swap_tables(fresh_database.owner_url)
    assert await found(fresh_database.owner_url, *CHECKS) == []


@pytest.mark.parametrize(
    "planted,check,named",
    [
        ("create table afterturn.forgotten_t (host_id uuid)", UNGUARDED, "afterturn.forgotten_t"),
        ("create table public.forgotten (n int)", UNGUARDED, "public.forgotten"),
        ("create schema elsewhere; create table elsewhere.t (n int)", UNGUARDED, "elsewhere.t"),
        ("alter table afterturn.unit_vector_3 no force row level security", UNGUARDED, "afterturn.unit_vector_3"),
        ("drop policy owner on afterturn.fact_t", WITHOUT_OWNERS_POLICY, "afterturn.fact_t"),
        ("drop policy tenant on afterturn.turn_t", WITHOUT_TENANTS_POLICY, "afterturn.turn_t"),
        ("alter policy tenant on afterturn.turn_t using (true)", WITHOUT_TENANTS_POLICY, "afterturn.turn_t"),
        ("create view afterturn.wide_v as select * from afterturn.turn_t", WIDER_VIEWS, "afterturn.wide_v"),
        (
            "create function afterturn.loose() returns int security definer language sql return 1",
            LOOSE_FUNCTIONS,
            "afterturn.loose()",
        ),
    ],
)
async def test_the_check_of_the_catalog_finds_what_is_planted(
    fresh_database: TestPostgres, planted: str, check: str, named: str
) -> None:
    await run(fresh_database.owner_url, *planted.split(";"))
    shown = await found(fresh_database.owner_url, check)
    assert [one.removeprefix("public.") for one in shown] == [named.removeprefix("public.")]


async def test_a_table_of_a_later_migration_is_forced_by_the_next_upgrade(fresh_database: TestPostgres) -> None:
    force = "select afterturn.force_row_security('afterturn', '%')"
    await run(fresh_database.owner_url, "create table afterturn.later_t (host_id uuid primary key)", force)
    assert await found(fresh_database.owner_url, UNGUARDED, WITHOUT_OWNERS_POLICY) == []


async def test_no_role_of_the_service_is_above_the_policies(database: Database, host: UUID) -> None:
    above = "select rolname from pg_roles where rolname like 'afterturn%' and (rolsuper or rolbypassrls)"
    assert await rows(database, host, above) == []


async def test_the_owner_sees_one_tenant_unless_its_session_asks_for_all(
    turns: TurnStore, database: Database, host: UUID, postgres: TestPostgres
) -> None:
    other = await new_host(database)
    for each in (host, other):
        await turns.append(each, [turn()])
    seen = text("select distinct host_id from afterturn.event_store_t where host_id in (:one, :other)")
    both = {"one": host, "other": other}
    engine, owner = create_engine(postgres.owner_url), create_owner_engine(postgres.owner_url)
    try:
        async with engine.begin() as connection:
            await connection.execute(text("select set_config('afterturn.host', :host, true)"), {"host": str(host)})
            assert (await connection.execute(seen, both)).scalars().all() == [host]
        async with engine.begin() as connection:
            assert (await connection.execute(seen, both)).scalars().all() == []
        async with owner.begin() as connection:
            assert set((await connection.execute(seen, both)).scalars()) == {host, other}
    finally:
        await engine.dispose()
        await owner.dispose()


async def test_the_owner_changes_a_row_that_another_transaction_changed_while_it_waited(
    turns: TurnStore, database: Database, host: UUID, postgres: TestPostgres
) -> None:
    """Then PostgreSQL evaluates all of a policy, the part that asks for the transaction's tenant included."""
    await turns.append(host, [turn()])
    change = text("update afterturn.ledger_t set attempts = attempts + 1 where host_id = :host")
    remove = text("delete from afterturn.ledger_t where host_id = :host")
    owner = create_owner_engine(postgres.owner_url)
    try:
        async with database.tenant(host) as first:
            await first.execute(change, {"host": host})

            async def waiting() -> int:
                async with owner.begin() as second:
                    return int((await second.execute(remove, {"host": host})).rowcount)

            removing = asyncio.create_task(waiting())
            await blocked(database, host)
        assert await removing > 0
    finally:
        await owner.dispose()


async def test_a_function_of_the_owner_that_forgets_to_ask_whose_rows_they_are_sees_one_tenant(
    fresh_database: TestPostgres, lonely: Database
) -> None:
    hosts = [await new_host(lonely) for _ in range(2)]
    for host in hosts:
        await TurnStore(lonely, lambda: NOON).append(host, [turn()])
    function = "create function afterturn.careless() returns setof uuid language sql security definer as"
    await run(fresh_database.owner_url, f"{function} 'select distinct host_id from afterturn.event_store_t'")
    for host in hosts:
        assert await rows(lonely, host, "select afterturn.careless()") == [(host,)]


async def test_keys_are_found_by_their_hash_and_no_role_of_the_service_reads_hashes(database: Database) -> None:
    token = await Keys(database).create("keyed", "test")
    grant = await Keys(database).authenticate(token)
    assert grant is not None
    for lent in (database.operator, database.call):
        with pytest.raises(DBAPIError, match="permission denied"):
            async with lent() as connection:
                await connection.execute(text("select key_hash from afterturn.api_key_t"))
    with pytest.raises(DBAPIError, match="permission denied for function find_key"):
        async with database.call() as connection:
            await connection.execute(text("select * from afterturn.find_key('x')"))


# The page -------------------------------------------------------------------------------------------------

GRANTS = """
    with granted as (
        select c.oid, lower(a.privilege_type) as privilege, a.grantee, null::name as col, 0 as nth
          from pg_class c, aclexplode(c.relacl) a
        union all
        select k.attrelid, lower(a.privilege_type), a.grantee, k.attname, k.attnum
          from pg_attribute k, aclexplode(k.attacl) a
    ), told as (
        select g.oid, g.grantee::regrole::text as role, g.privilege
               || coalesce(' (' || string_agg(g.col, ', ' order by g.nth) || ')', '') as told
          from granted g group by g.oid, g.grantee, g.privilege
    )
    select case when n.nspname = 'afterturn' then '' else n.nspname || '.' end || c.relname as name, t.role,
           string_agg(t.told, ', ' order by t.told) as told
      from told t join pg_class c on c.oid = t.oid join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'S') and t.role in ('afterturn_app', 'afterturn_operator')
     group by 1, 2"""
CALLED = """
    select p.proname, string_agg(a.grantee::regrole::text, ', ' order by 1)
      from pg_proc p, aclexplode(p.proacl) a
     where p.pronamespace = 'afterturn'::regnamespace and p.prosecdef and a.grantee <> p.proowner group by 1"""


def table(heading: str) -> dict[str, Sequence[str]]:
    """Return the page's table below a heading: its first column, and the others of each line."""
    _, _, after = PAGE.partition(f"## {heading}\n")
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in after.partition("\n## ")[0].splitlines()
        if line.startswith("|")
    ]
    return {cell[0]: cell[1:] for cell in cells[2:]}


async def test_the_page_of_roles_names_every_grant(database: Database, host: UUID) -> None:
    granted: dict[str, dict[str, str]] = {}
    for name, role, told in await rows(database, host, GRANTS):
        granted.setdefault(name, {})[role] = told
    assert table("Tables and sequences") == {
        name: [roles.get(role, "-") for role in ROLES] for name, roles in granted.items()
    }


async def test_the_page_of_roles_names_every_function_that_runs_as_the_owner(database: Database, host: UUID) -> None:
    called = dict(await rows(database, host, CALLED))
    assert {name: cells[0] for name, cells in table("Functions that run as the owner").items()} == called
