"""Appending in bulk: the rules of every append, thousands at a time."""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from store.database import Database
from store.errors import ConcurrencyError, MissingParent, VersionGap
from store.log.append import append_events
from store.log.bulk import BulkLoadResult, append_absent, append_bulk, build_columns
from store.log.catalog import EventType
from tests.store.conftest import blocked, new_host, rows
from tests.store.log.test_append import docs, event

E = EventType

HOLD_BANK = text("select pg_advisory_xact_lock(afterturn.lock_key('bank', cast(:bank as uuid)))")


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


async def test_a_load_that_ends_in_the_middle_keeps_what_was_written(database: Database, host: UUID) -> None:
    def events() -> Iterator[dict[str, Any]]:
        yield event(host, E.BANK_CREATED)
        yield from (event(host, E.DOC_CREATED, key=f"{n}") for n in range(5))
        yield event(host, E.DOC_UPDATED, 3, key="0")
        yield from (event(host, E.DOC_CREATED, key=f"more {n}") for n in range(4))

    with pytest.raises(VersionGap):
        await append_bulk(database, host, events(), batch=2)
    assert len(await docs(database, host)) == 5


@pytest.mark.law("L2")
async def test_only_what_is_new_is_appended_and_the_places_of_the_others_are_told(
    database: Database, host: UUID
) -> None:
    known = [event(host, E.BANK_CREATED), event(host, E.DOC_CREATED), event(host, E.DOC_UPDATED, 2, text="b")]
    await append_bulk(database, host, known)
    passed = event(host, E.DOC_CREATED, identity=uuid4())
    offered = [event(host, E.DOC_CREATED, key="new"), *known[1:], event(host, E.DOC_UPDATED, 3, text="c"), passed]
    assert await append_absent(database, host, build_columns(offered)) == [1, 2, 4]
    assert sorted(await docs(database, host)) == [("as it was", 1, True), ("c", 3, True)]
    assert await append_absent(database, host, build_columns(offered)) == [0, 1, 2, 3, 4]
    with pytest.raises(MissingParent):
        await append_absent(database, host, build_columns([event(host, E.UNIT_ENTITY_LINKED)]))
    assert await append_absent(database, host, build_columns([])) == []


@pytest.mark.law("L11")
async def test_nothing_is_appended_unjudged_where_the_tenant_has_erased_something(
    database: Database, host: UUID
) -> None:
    bank = [event(host, E.BANK_CREATED)]
    assert await append_absent(database, host, build_columns(bank), unerased=True) == []
    new = build_columns([event(host, E.DOC_CREATED)])
    for kind, expected in (("age", []), ("session", None)):
        erased = """
            insert into afterturn.erasure_t
                   (host_id, erasure_id, kind, bank_id, target_id, upto, requested_at, updated_at)
            values (:host, gen_random_uuid(), :kind, :bank, :bank, 0, now(), now())"""
        async with database.tenant(host) as connection:
            await connection.execute(text(erased), {"host": host, "kind": kind, "bank": bank[0]["bank"]})
        assert await append_absent(database, host, new, unerased=True) == expected
        new = build_columns([event(host, E.DOC_CREATED, key="later")])
    assert len(await docs(database, host)) == 1
    assert await append_absent(database, host, new) == []
