"""Code and schema of an upgrade: on which schema a process begins, and that nothing that older code uses is gone."""

import re
from pathlib import Path

import pytest
from sqlalchemy import NullPool, text

from store import migrations
from store.connections import create_owner_engine
from store.migrations.compatibility import (
    OLDEST_SCHEMA,
    SchemaRelation,
    SchemaVersion,
    compare_schema,
    describe_problem,
)
from tests.servers import TestPostgres
from tests.store.used_schema import RECORD, read_used_schema
from tests.tables import each_row

pytestmark = pytest.mark.untouched

KNOWN = ("0.1.0_0001", "0.1.0_0002", "0.2.0_0003")


@each_row(
    "found,oldest_schema,relation",
    [
        (SchemaVersion("0.2.0_0003", "0.1.0_0001"), None, SchemaRelation.CURRENT),
        (SchemaVersion("0.1.0_0002", "0.1.0_0001"), None, SchemaRelation.TOO_OLD),
        (SchemaVersion("0.1.0_0002", "0.1.0_0001"), "0.1.0_0002", SchemaRelation.OLDER),
        (SchemaVersion("0.1.0_0001", "0.1.0_0001"), "0.1.0_0002", SchemaRelation.TOO_OLD),
        (SchemaVersion("0.3.0_0004", "0.1.0_0001"), None, SchemaRelation.NEWER),
        (SchemaVersion("0.3.0_0004", "0.2.0_0003"), None, SchemaRelation.NEWER),
        (SchemaVersion("0.3.0_0005", "0.3.0_0004"), None, SchemaRelation.TOO_NEW),
        (SchemaVersion("0.1.0_0031", "0.1.0_0018", is_former=True), None, SchemaRelation.FORMER),
        (SchemaVersion("0.1.0_0002", "0.1.0_0001", is_former=True), "0.1.0_0001", SchemaRelation.FORMER),
    ],
)
def test_code_works_with_its_schema_with_newer_ones_that_added_and_with_the_one_before_where_it_says_so(
    found: SchemaVersion, oldest_schema: str | None, relation: SchemaRelation
) -> None:
    assert compare_schema(found, KNOWN, oldest_schema) is relation
    problem = describe_problem(relation, found, KNOWN[-1])
    assert (problem is None) == (relation in {SchemaRelation.CURRENT, SchemaRelation.OLDER, SchemaRelation.NEWER})


async def test_a_schema_says_its_revision_and_which_code_it_serves_to_the_role_of_the_service(
    postgres: TestPostgres,
) -> None:
    engine = create_owner_engine(postgres.app_url, poolclass=NullPool)
    async with engine.connect() as connection:
        found = (await connection.execute(text("select * from afterturn.schema_version()"))).one()
    await engine.dispose()
    assert tuple(found) == (migrations.newest_revision(), migrations.oldest_code())


def find_silent_revisions(folder: Path) -> list[str]:
    """Return the revisions that take something away and do not say which code does without it.

    A constraint that is made anew is not taken away.
    """
    silent = []
    for path in sorted(folder.glob("*.py")):
        source = path.read_text(encoding="utf-8").partition("def downgrade")[0]
        script = path.with_suffix(".sql")
        said = source + (script.read_text(encoding="utf-8") if script.exists() else "")
        takes = re.search(r"\bdrop (table|column|function|view|type|sequence)\b|\brename\b", said, re.IGNORECASE)
        if takes and "oldest_code = " not in source:
            silent.append(path.name)
    return silent


def test_a_revision_that_takes_something_away_says_which_code_does_without_it(tmp_path: Path) -> None:
    """Code that still asks for it would miss it."""
    known = migrations.list_revisions()
    assert migrations.oldest_code() in known
    assert OLDEST_SCHEMA is None or OLDEST_SCHEMA in known
    assert not find_silent_revisions(Path(migrations.__file__).with_name("versions"))
    taking = {
        "0002_silent.py": 'op.execute("alter table afterturn.turn_t drop column ended")',
        "0003_of_script.py": "run_script(...)",
        "0003_of_script.sql": "alter table afterturn.turn_t rename column ended to over;",
        "0004_says.py": 'oldest_code = "0.1.0_0004"\nop.execute("drop table afterturn.turn_t")',
        "0005_made_anew.py": 'op.execute("alter table afterturn.turn_t drop constraint turn_t_check")',
        "0006_back.py": 'def downgrade():\n    op.execute("drop table afterturn.turn_t")',
    }
    for name, source in taking.items():
        (tmp_path / name).write_text(source, encoding="utf-8")
    assert find_silent_revisions(tmp_path) == ["0002_silent.py", "0003_of_script.py"]


async def test_all_that_the_oldest_code_uses_is_still_there_and_nothing_new_is_asked_of_it(
    postgres: TestPostgres,
) -> None:
    """At the first release, and when `oldest_code` rises, the record is written anew by `tests.store.used_schema`."""
    engine = create_owner_engine(postgres.owner_url, poolclass=NullPool)
    async with engine.connect() as connection:
        there = await read_used_schema(connection)
    await engine.dispose()
    promised = set(RECORD.read_text(encoding="utf-8").splitlines())
    assert len(promised) > 200
    assert not promised - there, "older code uses this and would fail: keep it for a release"
    tables = {line.split()[1] for line in promised if line.startswith("table ")}
    demanding = [
        line
        for line in there - promised
        if line.startswith("column ") and line.endswith(" required") and line.split()[1] in tables
    ]
    assert not demanding, "older code does not write this: let it be null, or give it a default"


async def test_the_record_sees_what_is_taken_away_and_what_is_demanded(fresh_database: TestPostgres) -> None:
    engine = create_owner_engine(fresh_database.owner_url, poolclass=NullPool)
    async with engine.connect() as connection:
        before = await read_used_schema(connection)
        for statement in (
            "alter table afterturn.turn_t drop column ended",
            "alter table afterturn.turn_t add column demanded int not null",
            "drop function afterturn.schema_version()",
        ):
            await connection.execute(text(statement))
        after = await read_used_schema(connection)
        await connection.rollback()
    await engine.dispose()
    assert {line.split()[2].partition("(")[0] for line in before - after} == {"ended", "schema_version"}
    assert after - before == {"column afterturn.turn_t demanded integer required"}
