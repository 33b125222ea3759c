"""Rows that code of earlier revisions wrote, brought to this code's schema: nothing of them is lost or changed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store import migrations
from store.connections import create_owner_engine
from store.log.reader import LogPosition, read_events, restamp_log
from store.maintenance import WordReanalysis
from store.replay import verify_log
from tests.dumps import restored
from tests.servers import TestPostgres, TestValkey
from tests.store.old_rows import EMPTY, FOLDER, migrate_to, write_memory
from tests.workers.conftest import HOST, World, open_world
from tests.workers.stages import Crew

WRITTEN = sorted(path.stem for path in FOLDER.glob("*.sql"))
#: Every event's envelope as a reader was shown it, in the order of the log.
ENVELOPES = {
    "0001": """
        select jsonb_build_object(
                   'specversion', '1.0', 'id', e.id, 'source', coalesce(e.metadata->>'source', '/afterturn'),
                   'type', e.event_type, 'time', e.event_ts,
                   'subject', concat_ws('|', e.host_id, e.bank_id, nullif(e.aggregate_key, '')),
                   'aggregateversion', e.aggregate_version, 'data', e.data) as envelope
          from afterturn.event_store_t e order by position""",
}
#: The cluster that wrote the rows is gone: its commits' numbers mean nothing here until the log is stamped.
OF_ANOTHER_CLUSTER = text("update public.afterturn_cluster set system_identifier = 0")
UNITS = """
    select u.unit_id, u.content, u.active, u.aggregate_version, u.turn_id, u.session_id, u.seq, u.event_date, u.metadata
      from afterturn.agent_memory_unit_t u order by u.unit_id"""
#: Words of a unit. Later code may find more in the same text.
WORDS = """
    select w.unit_id, w.length, array(select k from jsonb_object_keys(w.terms) k order by k) as words
      from afterturn.unit_word_t w order by w.unit_id"""


async def load_rows(database: TestPostgres, revision: str) -> None:
    """Make an empty database what it was at a revision, with the rows that its code wrote."""
    engine = create_owner_engine(database.owner_url)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(migrate_to, f"0.1.0_{revision}")
            await connection.execute(OF_ANOTHER_CLUSTER)
    finally:
        await engine.dispose()
    await restored(database.superuser_url, (FOLDER / f"{revision}.sql").read_bytes())


@pytest.fixture(params=WRITTEN)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(loop_scope="session")
async def old(
    servers: tuple[TestPostgres, TestValkey], administrator: AsyncConnection, revision: str
) -> AsyncIterator[World]:
    """A database of that revision, and rows of its code in it."""
    database = await servers[0].create(f"old_{uuid4().hex}", EMPTY, by=administrator)
    await load_rows(database, revision)
    world = await open_world(database)
    yield world
    await world.database.close()
    await database.drop(by=administrator)


async def upgrade(world: World) -> None:
    await asyncio.to_thread(migrations.upgrade_schema, world.postgres.owner_url)
    await restamp_log(world.postgres.owner_url)


async def cut_words_anew(world: World) -> None:
    words = WordReanalysis(world.database, settle_s=0.0)
    while await words.undone():
        await words.step()


async def assert_equal_to_log(world: World) -> None:
    report = await verify_log(world.postgres.owner_url)
    assert report.equal, [table for table in report.tables if not table.equal]
    assert all(one.equal for one in report.derived), [one for one in report.derived if not one.equal]


async def read_envelopes(world: World) -> list[dict[str, Any]]:
    async with world.database.tenant(HOST) as connection:
        logged = await read_events(connection, HOST, LogPosition(), 10_000)
    return [dict(event.payload) for event in sorted(logged, key=lambda event: event.place.position)]


def cut_to(said: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """What an envelope tells of the attributes that another has, the data's among them; its time as a moment."""
    data = {name: told["data"][name] for name in said["data"]}
    return {name: told[name] for name in said} | {"data": data, "time": datetime.fromisoformat(told["time"])}


async def test_log_and_units_say_after_an_upgrade_what_they_said_before(old: World, revision: str) -> None:
    said = [row.envelope for row in await old.sql(ENVELOPES[revision])]
    units, words = await old.sql(UNITS), await old.sql(WORDS)
    assert len(said) > 40
    assert len(units) > 5
    await upgrade(old)
    told = await read_envelopes(old)
    assert len(told) == len(said)
    for now_told, then_said in zip(told, said, strict=True):
        assert cut_to(then_said, now_told) == cut_to(then_said, then_said)
    assert await old.sql(UNITS) == units
    await cut_words_anew(old)
    cut = {row.unit_id: row for row in await old.sql(WORDS)}
    assert len(cut) == len(words)
    assert all(set(row.words) <= set(cut[row.unit_id].words) for row in words)
    assert all(row.length == cut[row.unit_id].length for row in words)
    await assert_equal_to_log(old)


async def test_work_goes_on_after_an_upgrade_where_it_stood(old: World) -> None:
    await upgrade(old)
    await cut_words_anew(old)
    await Crew(old).drain()
    await assert_equal_to_log(old)
    await write_memory(old, "later")
    await Crew(old).drain()
    await assert_equal_to_log(old)
