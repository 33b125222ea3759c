"""Appending to the log: once, after what came before, and never over somebody else's version."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from store.database import Database
from store.errors import ConcurrencyError, EventRefused, MissingParent, VersionGap
from store.log.append import append_events, read_versions
from store.log.catalog import EVENTS, EventType
from store.log.envelope import Origin, build_command
from tests.store.conftest import rows
from tests.store.log.samples import BEGINNINGS, sample, uuid_of
from tests.tables import each_row

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
BANK = uuid_of("bank")


def event(
    host: UUID, kind: EventType, version: int = 1, key: str = "a", text: str = "as it was", **more: Any
) -> dict[str, Any]:
    return build_command(
        Origin(host, BANK, uuid_of("user"), AT), kind, sample(kind, key, text), version=version, **more
    )


async def append(database: Database, host: UUID, events: Sequence[dict[str, Any]], **more: Any) -> int | None:
    async with database.tenant(host) as connection:
        return await append_events(connection, host, events, **more)


async def docs(database: Database, host: UUID) -> list[tuple[Any, ...]]:
    return await rows(
        database, host, "select original_text, aggregate_version, active from agent_memory_doc_t order by original_text"
    )


@pytest.fixture
async def bank(database: Database, host: UUID) -> UUID:
    await append(database, host, [event(host, EventType.BANK_CREATED)])
    return host


@pytest.mark.law("L2")
async def test_the_same_event_again_changes_nothing(database: Database, bank: UUID) -> None:
    made = event(bank, EventType.DOC_CREATED, identity=uuid4())
    assert await append(database, bank, [made]) is not None
    assert await append(database, bank, [made]) is None
    assert await append(database, bank, [made, made, event(bank, EventType.DOC_UPDATED, 2, text="new")]) is not None
    assert await docs(database, bank) == [("new", 2, True)]


async def test_a_version_that_another_event_took_is_refused(database: Database, bank: UUID) -> None:
    await append(database, bank, [event(bank, EventType.DOC_CREATED), event(bank, EventType.DOC_UPDATED, 2, text="b")])
    with pytest.raises(ConcurrencyError) as refused:
        await append(database, bank, [event(bank, EventType.DOC_UPDATED, 2, text="secret", identity=uuid4())])
    assert (refused.value.aggregate_type, refused.value.expected, refused.value.actual) == ("AgentMemoryDoc", 1, 2)
    assert "secret" not in str(refused.value) + repr(refused.value.__cause__) + repr(refused.value.__context__)
    assert await docs(database, bank) == [("b", 2, True)]


async def test_a_stage_lets_whoever_came_first_have_a_version(database: Database, bank: UUID) -> None:
    await append(database, bank, [event(bank, EventType.DOC_CREATED, identity=uuid4())])
    assert await append(database, bank, [event(bank, EventType.DOC_CREATED, text="late")], if_absent=True) is None
    assert await docs(database, bank) == [("as it was", 1, True)]


async def test_an_aggregate_that_does_not_exist_has_version_0(database: Database, bank: UUID) -> None:
    made = event(bank, EventType.DOC_CREATED)
    await append(database, bank, [made])
    async with database.tenant(bank) as connection:
        assert await read_versions(connection, bank, [made["subject"], "other"]) == {made["subject"]: 1, "other": 0}


@each_row("kind", [k for k in EventType if k not in BEGINNINGS])
async def test_an_event_whose_predecessor_is_missing_is_refused(
    database: Database, bank: UUID, kind: EventType
) -> None:
    with pytest.raises(VersionGap) as refused:
        await append(database, bank, [event(bank, kind, 7)])
    assert refused.value.actual == 7
    assert refused.value.expected in (1, 2)


async def test_a_change_of_what_was_never_made_is_refused(database: Database, bank: UUID) -> None:
    with pytest.raises(VersionGap):
        await append(database, bank, [event(bank, EventType.DOC_UPDATED, 1)])


@pytest.mark.parametrize(
    "kind",
    [
        EventType.DOC_CREATED,
        EventType.UNIT_RETAINED,
        EventType.SESSION_CREATED,
        EventType.UNIT_ENTITY_LINKED,
        EventType.LINK_CREATED,
    ],
)
async def test_a_child_of_nobody_is_refused(database: Database, host: UUID, kind: EventType) -> None:
    with pytest.raises(MissingParent) as refused:
        await append(database, host, [event(host, kind)])
    assert refused.value.aggregate_type == EVENTS[kind].aggregate
    assert await rows(database, host, "select count(*) from event_store_t") == [(0,)]


async def test_an_import_may_begin_at_the_version_it_was_exported_with(database: Database, bank: UUID) -> None:
    await append(
        database, bank, [event(bank, EventType.DOC_CREATED, 7), event(bank, EventType.DOC_UPDATED, 8, text="b")]
    )
    assert await docs(database, bank) == [("b", 8, True)]


async def test_writers_that_meet_on_a_version_leave_one_of_them(database: Database, bank: UUID) -> None:
    await append(database, bank, [event(bank, EventType.DOC_CREATED)])
    offers = [event(bank, EventType.DOC_UPDATED, 2, text=f"{n}", identity=uuid4()) for n in range(8)]
    answers = await asyncio.gather(*(append(database, bank, [o]) for o in offers), return_exceptions=True)
    assert sum(isinstance(a, int) for a in answers) == 1
    assert sum(isinstance(a, EventRefused) for a in answers) == 7
    assert len(await docs(database, bank)) == 1


async def test_metadata_stands_beside_the_payload(database: Database, bank: UUID) -> None:
    await append(database, bank, [{**event(bank, EventType.DOC_CREATED), "metadata": {"backfilled": True}}])
    assert await rows(database, bank, "select metadata from event_store_t where metadata is not null") == [
        ({"backfilled": True},)
    ]
