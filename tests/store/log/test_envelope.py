"""What an event says is checked: its envelope, its ids, its data, and that no vector hides in it."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson
import pytest

from store.errors import InvalidEvent, LegacyEvent
from store.log import envelope
from store.log.catalog import BEGINNINGS, EventType, parse_event_data
from store.log.envelope import Origin, build_command, build_offer, build_reoffer
from store.log.storable import DEPTH_LIMIT
from tests.store.log.samples import cloud_event, sample

ORIGIN = Origin(uuid4(), uuid4(), uuid4(), datetime(2026, 3, 1, tzinfo=UTC))
SECRET = "kept between us"


def whole(event: EventType = EventType.UNIT_RETAINED, **changes: Any) -> dict[str, Any]:
    offered = build_command(ORIGIN, event, sample(event), version=1 if event in BEGINNINGS else 2)
    return {**cloud_event(offered), **changes}


@pytest.mark.parametrize("event", EventType)
def test_every_event_comes_back_from_its_envelope(event: EventType) -> None:
    again = build_reoffer(whole(event))
    made = build_command(ORIGIN, event, sample(event), version=1 if event in BEGINNINGS else 2)
    assert {k: again[k] for k in made} == made


@pytest.mark.parametrize("event", EventType)
def test_an_unknown_field_is_refused_and_its_value_not_told(event: EventType) -> None:
    with pytest.raises(InvalidEvent, match="extra_forbidden") as refused:
        build_command(ORIGIN, event, {**sample(event), "mood": SECRET})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("event", EventType)
def test_every_field_of_its_id_is_required(event: EventType) -> None:
    for field in ("hostId", "bankId"):
        data = {k: v for k, v in whole(event)["data"].items() if k != field}
        with pytest.raises(InvalidEvent):
            parse_event_data(event, data)


VECTOR = [0.25] * 384


@pytest.mark.parametrize("field", ["embedding", "contentEmbedding", "vector"])
@pytest.mark.parametrize("event", EventType)
def test_no_event_has_a_place_for_a_vector(event: EventType, field: str) -> None:
    for fields in (sample(event), {**whole(event)["data"], "erased": True}):
        with pytest.raises(InvalidEvent, match="extra_forbidden"):
            build_command(ORIGIN, event, {**fields, field: VECTOR})
    with pytest.raises(InvalidEvent):
        build_reoffer(whole(event, **{field.lower(): VECTOR}))


@pytest.mark.parametrize("event", [EventType.SESSION_APPENDED, EventType.SESSION_COMPACTED])
def test_no_message_of_a_history_has_a_place_for_a_vector(event: EventType) -> None:
    fields = sample(event)
    for message in (*fields["messages"], {"erased": True}):
        with pytest.raises(InvalidEvent, match="extra_forbidden"):
            build_command(ORIGIN, event, {**fields, "messages": [{**message, "embedding": VECTOR}]})


@pytest.mark.parametrize(
    "json",
    [
        {"vector": "north-west", "embedding": "of a stone", "text_embedding": None},
        {"numbers": VECTOR},
        {"propagation": {"layers": [{"centroid": VECTOR, "unitEmbeddings": []}]}},
    ],
)
def test_json_of_callers_is_theirs_whatever_its_names_and_numbers(json: dict[str, Any]) -> None:
    parts = [{"type": "image", **json}]
    for field, value in (("metadata", json), ("parts", parts), ("parts", orjson.dumps(parts).decode())):
        fields = {**sample(EventType.UNIT_RETAINED), field: value, "embeddingModel": "minilm"}
        offered = build_command(ORIGIN, EventType.UNIT_RETAINED, fields)
        again = build_reoffer(cloud_event(offered))
        assert again["data"][field] == value


@pytest.mark.parametrize("text", ["no json", "{}", '["\\u0000"]'])
def test_parts_as_text_are_the_json_of_a_list_that_can_be_kept(text: str) -> None:
    with pytest.raises(InvalidEvent):
        build_command(ORIGIN, EventType.UNIT_RETAINED, {**sample(EventType.UNIT_RETAINED), "parts": text})


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else []


def test_json_is_taken_64_levels_deep_and_refused_by_name_beyond() -> None:
    fields = sample(EventType.SESSION_COMPACTED)
    said = {"role": "user", "content": deep(DEPTH_LIMIT)}
    assert build_command(ORIGIN, EventType.SESSION_COMPACTED, {**fields, "messages": [said]}, version=2)["version"] == 2
    said = {"role": "user", "content": deep(DEPTH_LIMIT + 1)}
    with pytest.raises(InvalidEvent, match="nested_too_deeply"):
        build_command(ORIGIN, EventType.SESSION_COMPACTED, {**fields, "messages": [said]}, version=2)


@pytest.mark.parametrize(
    "json, why", [("a\x00", "nul_character"), ("\ud800", "lone_surrogate"), (2**64, "integer_too_large")]
)
def test_what_the_log_cannot_keep_is_refused_by_name(json: Any, why: str) -> None:
    with pytest.raises(InvalidEvent, match=why):
        build_command(ORIGIN, EventType.UNIT_RETAINED, {**sample(EventType.UNIT_RETAINED), "metadata": {"a": json}})
    with pytest.raises(InvalidEvent):
        build_reoffer(whole(source=json))


def test_an_event_past_its_size_is_refused_by_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(orjson.dumps(whole()))
    monkeypatch.setattr(envelope, "EVENT_BYTES_LIMIT", size)
    build_reoffer(whole())
    monkeypatch.setattr(envelope, "EVENT_BYTES_LIMIT", size - 1)
    with pytest.raises(InvalidEvent, match=f"at most {size - 1}"):
        build_reoffer(whole())


@pytest.mark.parametrize(
    "change",
    [
        {"specversion": "0.3"},
        {"id": "seven"},
        {"subject": "host|bank|unit"},
        {"host": str(uuid4())},
        {"aggregatetype": "AgentMemoryDoc"},
        {"aggregateversion": 2},
        {"aggregateversion": 0},
        {"time": "yesterday"},
        {"type": "AgentMemoryUnitForgottenEvent"},
        {"data": {}},
        {"source": ""},
    ],
)
def test_an_envelope_that_contradicts_itself_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent):
        build_reoffer(whole(**change))


def test_an_event_of_the_older_family_is_refused_as_such() -> None:
    with pytest.raises(LegacyEvent):
        build_reoffer(whole(type="AgentMemoryCreatedEvent"))


def test_a_beginning_without_a_version_is_the_first_and_anything_else_is_refused() -> None:
    for event in (EventType.DOC_CREATED, EventType.DOC_UPDATED):
        envelope = whole(event, aggregateversion=1)
        for field in ("aggregateVersion", "newAggregateVersion"):
            envelope["data"] = {k: v for k, v in envelope["data"].items() if k != field}
        if event is EventType.DOC_CREATED:
            assert build_reoffer(envelope)["version"] == 1
        else:
            with pytest.raises(InvalidEvent):
                build_reoffer(envelope)


def test_extension_attributes_become_metadata() -> None:
    assert build_reoffer(whole(backfilled=True, nth=3))["metadata"] == {"backfilled": True, "nth": 3}


@pytest.mark.parametrize("value", [{"a": 1}, [1], "a\x00", 0.5])
def test_an_extension_attribute_is_one_value(value: Any) -> None:
    with pytest.raises(InvalidEvent):
        build_reoffer(whole(backfilled=value))


def test_two_commands_may_tell_their_events_apart() -> None:
    ids = {build_offer(ORIGIN, EventType.BANK_DELETED, (), {}, nth="2", identity=uuid4())["id"] for _ in range(2)}
    assert len(ids) == 2
