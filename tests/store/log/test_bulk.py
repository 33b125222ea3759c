"""Appending in bulk: the rules of every append, thousands at a time."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from store.database import Database
from store.errors import ConcurrencyError, MissingParent, VersionGap
from store.log import bulk
from store.log.append import append_events
from store.log.bulk import BulkLoadResult, append_bulk
from store.log.catalog import EventType
from tests.store.conftest import blocked, new_host, rows
from tests.store.log.test_append import docs, event

E = EventType

HOLD_BANK = text("select pg_advisory_xact_lock(afterturn.lock_key('bank', cast(:bank as uuid)))")
#: Bytes in the stage of a connection, null where there is none.
STAGED = text("select pg_relation_size(to_regclass('pg_temp.bulk_event'))")


async def test_a_load_writes_the_log_and_its_projections_in_order(database: Database, host: UUID) -> None:
    events = [event(host, E.BANK_CREATED)]
    for n in range(30):
        events += [
            event(host, E.DOC_CREATED, key=f"{n:02}"),
            event(host, E.DOC_UPDATED, 2, key=f"{n:02}", text=f"{n:02}"),
        ]
    assert await append_bulk(database, host, events, batch=7) == BulkLoadResult(61, 0)
    assert await docs(database, host) == [(f"{n:02}", 2, True) for n in range(30)]
    written = await rows(
        database,
        host,
        "select id::text, (payload->>'nonce')::bigint = nonce from hindsight.event_store_t order by nonce",
    )
    assert written == [(e["id"], True) for e in events]


@pytest.mark.law("L2")
async def test_a_load_sent_again_changes_nothing(database: Database, host: UUID) -> None:
    events = [event(host, E.BANK_CREATED), event(host, E.DOC_CREATED), event(host, E.DOC_UPDATED, 2, text="b")]
    await append_bulk(database, host, events[:2])
    assert await append_bulk(database, host, events) == BulkLoadResult(1, 2)
    assert await append_bulk(database, host, events) == BulkLoadResult(0, 3)
    assert await docs(database, host) == [("b", 2, True)]


@pytest.mark.law("L2")
async def test_an_event_the_log_knows_stays_one_though_its_version_is_another_now(
    database: Database, host: UUID
) -> None:
    """Its version looks new, so only its id tells; what came with it is written all the same."""
    known = event(host, E.DOC_UPDATED, 2, text="b", identity=uuid4())
    await append_bulk(database, host, [event(host, E.BANK_CREATED), event(host, E.DOC_CREATED), known])
    again = event(host, E.DOC_UPDATED, 3, text="c", identity=UUID(known["id"]))
    assert await append_bulk(database, host, [again, event(host, E.DOC_CREATED, key="new")]) == BulkLoadResult(1, 1)
    assert await docs(database, host) == [("as it was", 1, True), ("b", 2, True)]


async def test_the_log_alone_can_be_written(database: Database, host: UUID) -> None:
    await append_bulk(database, host, [event(host, E.BANK_CREATED), event(host, E.DOC_CREATED)], project=False)
    assert await docs(database, host) == []
    assert await rows(database, host, "select count(*) from event_store_t") == [(2,)]


async def test_a_load_is_refused_as_any_append_is(database: Database, host: UUID) -> None:
    await append_bulk(database, host, [event(host, E.BANK_CREATED), event(host, E.DOC_CREATED)])
    with pytest.raises(ConcurrencyError):
        await append_bulk(database, host, [event(host, E.DOC_CREATED, identity=uuid4())])
    with pytest.raises(VersionGap):
        await append_bulk(database, host, [event(host, E.DOC_UPDATED, 3)])
    with pytest.raises(MissingParent):
        await append_bulk(database, host, [event(host, E.UNIT_ENTITY_LINKED)])


@pytest.mark.law("L5")
async def test_a_load_that_waited_for_a_writer_is_read_after_what_that_one_wrote(
    lonely: Database,
) -> None:
    host = await new_host(lonely)
    bank, doc = event(host, E.BANK_CREATED), event(host, E.DOC_CREATED)
    await append_bulk(lonely, host, [bank])
    async with lonely.tenant(host) as connection:
        await connection.execute(HOLD_BANK, {"bank": doc["bank"]})
        loading = asyncio.create_task(append_bulk(lonely, host, [event(host, E.DOC_UPDATED, 2, text="b")]))
        await blocked(lonely, host)
        await append_events(connection, host, [doc])
    assert await loading == BulkLoadResult(1, 0)
    read = await rows(lonely, host, "select aggregate_version from event_store_t order by xid, position")
    assert read == [(1,), (1,), (2,)]


async def test_a_load_that_ends_in_the_middle_keeps_what_was_written_and_leaves_no_stage(
    lonely: Database,
) -> None:
    host = await new_host(lonely)

    def events() -> Iterator[dict[str, Any]]:
        yield event(host, E.BANK_CREATED)
        yield from (event(host, E.DOC_CREATED, key=f"{n}") for n in range(5))
        yield event(host, E.DOC_UPDATED, 3, key="0")
        yield from (event(host, E.DOC_CREATED, key=f"more {n}") for n in range(4))

    with pytest.raises(VersionGap):
        await append_bulk(lonely, host, events(), batch=2)
    assert len(await docs(lonely, host)) == 5
    async with AsyncExitStack() as stack:
        size = lonely._app.sync_engine.pool.size()  # type: ignore[attr-defined] # that of a QueuePool
        lent = [await stack.enter_async_context(lonely.call()) for _ in range(size)]
        staged = [(await one.execute(STAGED)).scalar_one() for one in lent]
    assert staged.count(0) == 2
    assert set(staged) == {0, None}


@pytest.mark.law("L6")
async def test_what_a_load_left_in_its_stage_is_nobody_elses(lonely: Database) -> None:
    host, other = await new_host(lonely), await new_host(lonely)
    async with lonely.call() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await driver.execute(bulk.STAGE)
        left = bulk._build_records(iter([event(other, E.BANK_CREATED)]))
        await driver.copy_records_to_table("bulk_event", records=left, columns=bulk.COLUMNS)
    assert await append_bulk(lonely, host, [event(host, E.BANK_CREATED)]) == BulkLoadResult(1, 0)
    assert len(await rows(lonely, host, "select 1 from event_store_t")) == 1
