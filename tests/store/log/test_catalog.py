"""The vocabulary of the log: nine aggregates, twenty-seven events, ids that hold every part."""

import re
from itertools import product
from uuid import UUID, uuid4

import pytest

from store.errors import InvalidEvent
from store.log.catalog import (
    AGGREGATES,
    EVENTS,
    ID_FIELDS,
    Aggregate,
    EventType,
    aggregate_id,
)
from tests.tables import each_row

HOST, BANK = uuid4(), uuid4()
#: Names of an older family, whose tables (agent_memory_t, the first agent_session_history_t) are not ours.
LEGACY = (
    *("AgentMemoryCreatedEvent", "AgentMemoryUpdatedEvent", "AgentMemoryDeletedEvent"),
    *("AgentSessionHistoryUpdatedEvent", "AgentSessionHistoryUpsertedEvent"),
)

FAMILIES = {
    "AgentMemoryBank": {"Created", "Updated", "Deleted"},
    "AgentMemoryDoc": {"Created", "Updated", "Deleted"},
    "AgentMemoryUnit": {"Retained", "Updated", "Deleted"},
    "AgentMemoryEntity": {"Created", "Updated", "Deleted"},
    "AgentMemoryUnitEntity": {"Linked", "Unlinked"},
    "AgentMemoryLink": {"Created", "Updated", "Deleted"},
    "AgentMemoryDirective": {"Created", "Updated", "Deleted"},
    "AgentMemoryReflection": {"Created", "Updated", "Deleted"},
    "AgentSessionHistory": {"Created", "Appended", "Compacted", "Deleted"},
}


def test_the_catalog_is_the_seeds() -> None:
    expected = {f"{aggregate}{suffix}Event" for aggregate, suffixes in FAMILIES.items() for suffix in suffixes}
    assert {e.value for e in EventType} == expected
    assert len(EventType) == 27
    assert set(EVENTS) == set(EventType)
    assert set(AGGREGATES) == set(Aggregate)


@each_row("event", EventType)
def test_an_aggregates_name_is_an_event_types_without_its_suffix(event: EventType) -> None:
    aggregate = EVENTS[event].aggregate
    assert event.removeprefix(aggregate).removesuffix("Event") in FAMILIES[aggregate]


def test_names_of_the_older_family_are_kept_apart() -> None:
    assert not set(LEGACY) & set(EventType)


@each_row("aggregate", Aggregate)
def test_an_aggregate_id_names_host_bank_and_its_own_parts(aggregate: Aggregate) -> None:
    parts = [HOST, BANK, *(uuid4() for _ in ID_FIELDS[aggregate])]
    assert aggregate_id(*parts) == "|".join(map(str, parts))


@each_row("aggregate", Aggregate)
def test_an_aggregate_id_is_never_partial(aggregate: Aggregate) -> None:
    parts: list[object] = [HOST, BANK, *(uuid4() for _ in ID_FIELDS[aggregate])]
    for nth, nothing in product(range(len(parts)), ("", None)):
        with pytest.raises(InvalidEvent):
            aggregate_id(*parts[:nth], nothing, *parts[nth + 1 :])


def test_a_part_holds_no_bar() -> None:
    with pytest.raises(InvalidEvent):
        aggregate_id(HOST, BANK, "a|b")


def test_an_aggregate_id_holds_at_most_255_bytes() -> None:
    assert aggregate_id("x" * 255)
    for too_long in ("x" * 256, "ü" * 128):
        with pytest.raises(InvalidEvent, match="255"):
            aggregate_id(too_long)


def test_the_longest_real_id_fits() -> None:
    uuids = [str(UUID(int=0))] * 4
    assert len(aggregate_id(*uuids, "x" * 32)) == 180


def test_wire_names_are_camel_case() -> None:
    for spec in EVENTS.values():
        for field in spec.model.model_fields.values():
            assert re.fullmatch(r"[a-z][A-Za-z]*", str(field.alias))
