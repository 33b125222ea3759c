"""Reading the log: every event once, in the order of commits, whatever else is being written."""

import asyncio
from uuid import UUID

import pytest
from sqlalchemy import text

from store.connections import create_owner_engine
from store.database import Database
from store.errors import RestoredElsewhere
from store.log.append import append_events
from store.log.bulk import append_bulk
from store.log.catalog import EventType
from store.log.reader import LogPosition, read_events, restamp_log
from tests.patience import until
from tests.servers import TestPostgres
from tests.store.conftest import new_host, settled
from tests.store.log.test_append import append, event

E = EventType


@pytest.fixture
async def bank(database: Database, host: UUID) -> UUID:
    await append(database, host, [event(host, E.BANK_CREATED)])
    return host


async def keys(database: Database, host: UUID, after: LogPosition | None = None) -> tuple[list[str], LogPosition]:
    async with database.tenant(host) as connection:
        found = await read_events(connection, host, after or LogPosition(), 1000)
    return [f.payload["data"].get("docId", "bank") for f in found], found[-1].place if found else after or LogPosition()


async def test_a_reader_stops_before_what_is_still_being_written_and_misses_nothing(
    database: Database, bank: UUID
) -> None:
    """A slow writer takes its position first and commits last: a reader by position alone would pass it by."""
    slow, quick = event(bank, E.DOC_CREATED, key="slow"), event(bank, E.DOC_CREATED, key="quick")
    await settled(database, bank)
    _, place = await keys(database, bank)
    async with database.tenant(bank) as writer:
        await append_events(writer, bank, [slow])
        await append(database, bank, [quick])
        seen, place = await keys(database, bank, place)
        assert seen == []
    await settled(database, bank)
    seen, place = await keys(database, bank, place)
    assert seen == [slow["data"]["docId"], quick["data"]["docId"]]
    assert await keys(database, bank, place) == ([], place)


async def test_readers_of_a_busy_log_see_every_event_once(database: Database, bank: UUID) -> None:
    offers = [event(bank, E.DOC_CREATED, key=f"{n}") for n in range(60)]
    writing = asyncio.gather(*(append(database, bank, [offer]) for offer in offers))
    seen: list[str] = []
    place = LogPosition()

    async def all_seen() -> bool:
        nonlocal place
        found, place = await keys(database, bank, place)
        seen.extend(found)
        return writing.done() and len(seen) >= 61

    await until(all_seen, "every event is seen")
    assert sorted(seen) == sorted(["bank", *(o["data"]["docId"] for o in offers)])


async def test_reading_goes_through_the_index_as_the_tenant(database: Database, bank: UUID) -> None:
    async with database.tenant(bank) as connection:
        # A handful of rows is as well sorted; what counts is that the index can do without.
        await connection.execute(text("set local enable_seqscan = off"))
        await connection.execute(text("set local enable_sort = off"))
        plan = await connection.execute(
            text(
                "explain select 1 from event_store_t e where e.host_id = :h and (e.xid, e.position) > ('5'::xid8, 7) "
                "and e.xid < pg_snapshot_xmin(pg_current_snapshot()) order by e.xid, e.position limit 10"
            ),
            {"h": bank},
        )
        lines = "\n".join(plan.scalars())
    assert "log_by_commit" in lines
    assert "Sort" not in lines


async def test_a_restored_log_is_stamped_anew_and_read_in_the_order_of_its_positions(
    lonely: Database, fresh_database: TestPostgres
) -> None:
    host = await new_host(lonely)
    await append(lonely, host, [event(host, E.BANK_CREATED)])
    for n in range(6):
        await append(lonely, host, [event(host, E.DOC_CREATED, key=f"{n}")])
    await settled(lonely, host)
    await _restored_elsewhere(fresh_database)
    with pytest.raises(RestoredElsewhere):
        await keys(lonely, host)
    # Somebody wrote before it was stamped.
    await append(lonely, host, [event(host, E.DOC_CREATED, key="6")])
    await append_bulk(lonely, host, [event(host, E.DOC_CREATED, key="7")])
    assert await restamp_log(fresh_database.owner_url) == 9
    assert await restamp_log(fresh_database.owner_url) == 0
    await append(lonely, host, [event(host, E.DOC_CREATED, key="8")])
    await settled(lonely, host)
    seen, _ = await keys(lonely, host)
    assert seen == ["bank", *(_doc(host, n) for n in range(9))]


def _doc(host: UUID, n: int) -> str:
    return str(event(host, E.DOC_CREATED, key=f"{n}")["data"]["docId"])


async def _restored_elsewhere(postgres: TestPostgres) -> None:
    """Leave the database as a dump of another, older cluster would: xids that here lie in the future."""
    engine = create_owner_engine(postgres.owner_url)
    ahead = "((xid::text)::bigint + 1000000)::text::xid8"
    async with engine.begin() as connection:
        await connection.execute(text(f"update afterturn.event_store_t set xid = {ahead}"))
        await connection.execute(text("update public.afterturn_cluster set system_identifier = 1"))
    await engine.dispose()
