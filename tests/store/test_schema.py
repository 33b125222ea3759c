"""The schema is declared once: what revisions make of an empty database is what `store/schema.py` declares."""

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.components.database_checks import find_schema_problem
from store import migrations
from store.connections import create_owner_engine
from store.errors import FormerRevision, UnknownRevision
from store.migrations.compatibility import LAST_FORMER
from store.schema import METADATA, Xid8
from tests.servers import TestPostgres, TestValkey
from tests.store.old_rows import EMPTY, migrate_to

pytestmark = pytest.mark.untouched

Answer = TypeVar("Answer")

#: Where the declared tables are made for comparison: a schema of each name, rolled back at the end.
PLANNED = {"afterturn": "planned", "public": "planned_public"}

#: What a declaration decides of a table, one line for each property.
CATALOG = """
    with tables as (
        select c.oid, c.relname, c.reloptions, c.relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = :schema and c.relkind in ('r', 'p') and not c.relispartition
           and (n.nspname not like '%public' or c.relname like 'afterturn\\_%') and c.relname <> 'afterturn_version')
    select concat_ws(' ', t.relname, 'column', row_number() over (partition by t.oid order by a.attnum), a.attname,
                     format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
                     pg_get_expr(d.adbin, d.adrelid))
      from tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    union all
    select concat_ws(' ', t.relname, 'constraint', k.conname, pg_get_constraintdef(k.oid))
      from tables t join pg_constraint k on k.conrelid = t.oid where k.contype <> 'n'
    union all
    select concat_ws(' ', t.relname, pg_get_indexdef(i.indexrelid))
      from tables t join pg_index i on i.indrelid = t.oid
    union all
    select concat_ws(' ', t.relname, t.relkind, t.reloptions, pg_get_partkeydef(t.oid)) from tables t
    union all
    select concat_ws(' ', s.relname, 'sequence') from pg_class s join pg_namespace n on n.oid = s.relnamespace
     where n.nspname = :schema and s.relkind = 'S'"""

#: Everything of a database that a migration could touch.
FINGERPRINT = """
    select md5(string_agg(o, ',' order by o)) from (
        select 'c' || oid || xmin || relname as o from pg_class union all select 'p' || oid || xmin from pg_proc
        union all select 'a' || attrelid || attnum || xmin from pg_attribute
        union all select 'k' || oid || xmin from pg_policy
        union all select 'v' || version_num || xmin from public.afterturn_version
        union all select 'n' || last_value from afterturn.log_position_seq) s"""


UPGRADE = "import sys; from store import migrations; migrations.upgrade_schema(sys.argv[1])"
CUT_OFF = """
    update pg_index set indisvalid = false where indexrelid = cast('afterturn.unit_by_user' as regclass)"""
#: Indexes, whether each is whole, and whether it is newer than the schema.
BUILT = """
    select c.relname, x.indisvalid, cast(cast(c.xmin as text) as bigint) > cast(cast(v.xmin as text) as bigint)
      from pg_index x join pg_class c on c.oid = x.indexrelid cross join public.afterturn_version v
     where c.relname in ('turn_by_bank', 'unit_by_user', 'unit_listed_by_plugin') order by 1"""
#: What the refusal of a former revision tells to run.
TOLD = re.compile(r"`(update public\.afterturn_version [^`]*)`")


async def with_connection(postgres: TestPostgres, work: Callable[[Connection], Answer]) -> Answer:
    engine = create_owner_engine(postgres.owner_url)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


def is_declared(_: object, name: str | None, kind: str, *__: object) -> bool:
    """Leave out partitions and what alembic itself keeps: their table speaks for them."""
    return kind != "table" or name is None or not re.fullmatch(r"afterturn_version|unit_vector_\d+", name)


def list_differences(connection: Connection) -> list[Any]:
    ischema_names.setdefault("xid8", Xid8)
    options = {
        "include_schemas": True,
        "include_name": lambda name, kind, _: kind != "schema" or name in {"afterturn", None},
        "include_object": is_declared,
        "version_table_schema": "public",
        "compare_type": True,
    }
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), METADATA))


def read_catalogs(connection: Connection) -> tuple[list[str], list[str]]:
    """Return the properties of the migrated tables, and those of tables made from the declaration."""
    for schema in PLANNED.values():
        connection.execute(text(f"create schema {schema}"))
    METADATA.create_all(connection.execution_options(schema_translate_map=PLANNED))
    found = []
    for schemas in (PLANNED.keys(), PLANNED.values()):
        lines = [line for schema in schemas for line in connection.scalars(text(CATALOG), {"schema": schema})]
        found.append(
            sorted(line.replace("planned_public.", "public.").replace("planned.", "afterturn.") for line in lines)
        )
    connection.rollback()
    return found[0], found[1]


async def test_alembic_finds_no_difference_between_revisions_and_declaration(postgres: TestPostgres) -> None:
    assert await with_connection(postgres, list_differences) == []

    def plant_and_list(connection: Connection) -> list[Any]:
        connection.execute(text("drop index afterturn.turn_by_bank"))
        connection.execute(text("drop table public.afterturn_gate"))
        return list_differences(connection)

    assert {kind for kind, *_ in await with_connection(postgres, plant_and_list)} == {"add_index", "add_table"}


async def test_tables_made_from_the_declaration_equal_the_migrated_ones(postgres: TestPostgres) -> None:
    migrated, declared = await with_connection(postgres, read_catalogs)
    assert migrated == declared
    assert len(migrated) > len(METADATA.tables)


@pytest.mark.parametrize(
    "planted",
    [
        "alter table afterturn.turn_t add column forgotten int",
        "alter table afterturn.turn_t alter column position drop not null",
        "alter table afterturn.turn_t alter column position set default 7",
        "alter table afterturn.ledger_t drop constraint ledger_t_stage_check",
        "alter table afterturn.term_t set (fillfactor = 90)",
        "drop index afterturn.turn_by_bank",
    ],
)
async def test_a_difference_of_any_kind_is_seen(postgres: TestPostgres, planted: str) -> None:
    def plant_and_read(connection: Connection) -> tuple[list[str], list[str]]:
        connection.execute(text(planted))
        return read_catalogs(connection)

    migrated, declared = await with_connection(postgres, plant_and_read)
    assert migrated != declared


async def test_an_upgrade_builds_what_indexes_are_missing_or_were_cut_off(
    fresh_database: TestPostgres,
) -> None:
    def lose_some(connection: Connection) -> None:
        connection.execute(text("drop index afterturn.unit_listed_by_plugin"))
        connection.commit()

    await with_connection(fresh_database, lose_some)
    superuser = create_owner_engine(fresh_database.superuser_url)
    async with superuser.begin() as connection:
        await connection.execute(text(CUT_OFF))
    await superuser.dispose()
    starters = [
        await asyncio.create_subprocess_exec(sys.executable, "-P", "-c", UPGRADE, fresh_database.owner_url)
        for _ in range(2)
    ]
    assert [await starter.wait() for starter in starters] == [0, 0]
    assert await with_connection(fresh_database, list_differences) == []
    built = await with_connection(fresh_database, lambda connection: connection.execute(text(BUILT)).all())
    assert [tuple(row) for row in built] == [
        ("turn_by_bank", True, False),
        ("unit_by_user", True, True),
        ("unit_listed_by_plugin", True, True),
    ]


def list_indexes_of_used_tables(folder: Path) -> set[tuple[str, str]]:
    """Return revisions with the tables that they index and did not make."""
    return {
        (path.stem, table)
        for path in sorted(folder.glob("*.*"))
        for said in [path.read_text(encoding="utf-8")]
        for table in re.findall(r"create (?:unique )?index\s+\S+\s+on\s+afterturn\.(\w+)", said, re.IGNORECASE)
        if f"create table afterturn.{table}" not in said
    }


def test_no_revision_makes_an_index_of_a_table_that_is_in_use(tmp_path: Path) -> None:
    assert list_indexes_of_used_tables(Path(migrations.__file__).with_name("versions")) == set()
    index = "create index key_by_label on afterturn.api_key_t (host_id, label);"
    (tmp_path / "0002_label.py").write_text(f'op.execute("{index}")', encoding="utf-8")
    (tmp_path / "0003_made.sql").write_text(
        f"create table afterturn.api_key_t (label text);\n{index}", encoding="utf-8"
    )
    assert list_indexes_of_used_tables(tmp_path) == {("0002_label", "api_key_t")}


@pytest.mark.parametrize(
    "found,writer", [("0033", "a development version before 0.1.0"), ("7.8.9_0042", "Afterturn 7.8.9")]
)
async def test_a_database_that_another_version_wrote_is_refused_by_name_and_not_touched(
    fresh_database: TestPostgres, found: str, writer: str
) -> None:
    def write_version(connection: Connection) -> None:
        connection.execute(text("update public.afterturn_version set version_num = :found"), {"found": found})
        connection.commit()

    def fingerprint(connection: Connection) -> Any:
        return connection.scalar(text(FINGERPRINT))

    await with_connection(fresh_database, write_version)
    before = await with_connection(fresh_database, fingerprint)
    with pytest.raises(UnknownRevision, match=f"written by {writer} .*{found}.*Nothing was changed"):
        await asyncio.to_thread(migrations.upgrade_schema, fresh_database.owner_url)
    assert await with_connection(fresh_database, fingerprint) == before


@pytest.mark.parametrize(
    "found,is_complete", [("0.1.0_0031", True), ("0.1.0_0022", False), ("0.1.0_0001", False), ("0.1.0_0008", False)]
)
async def test_a_database_of_a_former_revision_is_refused_and_not_touched(
    fresh_database: TestPostgres, found: str, *, is_complete: bool
) -> None:
    def age(connection: Connection) -> None:
        connection.execute(text("update public.afterturn_version set version_num = :found"), {"found": found})
        connection.execute(text("select afterturn.set_schema_version(:found, :found)"), {"found": found})
        if not is_complete:
            connection.execute(text("drop table public.afterturn_console_session cascade"))
        connection.commit()

    def fingerprint(connection: Connection) -> Any:
        return connection.scalar(text(FINGERPRINT))

    await with_connection(fresh_database, age)
    before = await with_connection(fresh_database, fingerprint)
    with pytest.raises(FormerRevision, match=f"{found} of 0.1.0's development.*Nothing was changed") as refused:
        await asyncio.to_thread(migrations.upgrade_schema, fresh_database.owner_url)
    assert ("by the last version that has it" in str(refused.value)) == (found != "0.1.0_0031")
    assert await with_connection(fresh_database, fingerprint) == before
    assert await find_schema_problem(fresh_database.app_url) == str(refused.value)


async def test_data_of_the_last_former_revision_is_kept_as_its_refusal_says(
    servers: tuple[TestPostgres, TestValkey], administrator: AsyncConnection
) -> None:
    def make_former(connection: Connection) -> None:
        migrate_to(connection, "0.1.0_0001")
        connection.execute(text("update public.afterturn_version set version_num = '0.1.0_0031'"))
        connection.commit()

    database = await servers[0].create(f"former_{uuid4().hex}", EMPTY, by=administrator)
    await with_connection(database, make_former)
    with pytest.raises(FormerRevision) as refused:
        await asyncio.to_thread(migrations.upgrade_schema, database.owner_url)
    told = TOLD.search(str(refused.value))
    assert told
    statement = told[1]

    def follow(connection: Connection) -> None:
        connection.execute(text(statement))
        connection.commit()

    await with_connection(database, follow)
    await asyncio.to_thread(migrations.upgrade_schema, database.owner_url)
    assert await with_connection(database, list_differences) == []
    await database.drop(by=administrator)


def test_revisions_are_one_chain_whose_names_say_the_version_that_brings_them() -> None:
    names = migrations.list_revisions()
    numbers = [name.rpartition("_")[2] for name in names]
    assert numbers == sorted(set(numbers))
    assert LAST_FORMER not in names, "a database of the former revision would be taken for this one's"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+_\d{4}", name) for name in names)


def test_every_script_of_functions_is_run() -> None:
    assert sorted((*migrations.REGISTRIES, *migrations.FUNCTIONS)) == sorted(
        path.stem for path in migrations.FOLDER.glob("*.sql")
    )
