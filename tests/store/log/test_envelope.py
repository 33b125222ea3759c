"""What an event says is checked: its ids, its data, and that no vector hides in it."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson
import pytest

from store.errors import InvalidEvent
from store.log.catalog import EventType, parse_event_data
from store.log.envelope import Origin, build_command, build_offer
from store.log.storable import DEPTH_LIMIT
from tests.store.log.samples import BEGINNINGS, cloud_event, sample
from tests.tables import each_row

ORIGIN = Origin(uuid4(), uuid4(), uuid4(), datetime(2026, 3, 1, tzinfo=UTC))
SECRET = "kept between us"


def whole(event: EventType) -> dict[str, Any]:
    return cloud_event(build_command(ORIGIN, event, sample(event), version=1 if event in BEGINNINGS else 2))


@each_row("event", EventType)
def test_an_unknown_field_is_refused_and_its_value_not_told(event: EventType) -> None:
    with pytest.raises(InvalidEvent, match="extra_forbidden") as refused:
        build_command(ORIGIN, event, {**sample(event), "mood": SECRET})
    assert SECRET not in str(refused.value)


@each_row("event", EventType)
def test_every_field_of_its_id_is_required(event: EventType) -> None:
    for field in ("hostId", "bankId"):
        data = {k: v for k, v in whole(event)["data"].items() if k != field}
        with pytest.raises(InvalidEvent):
            parse_event_data(event, data)


VECTOR = [0.25] * 384


@each_row("field", ["embedding", "contentEmbedding", "vector"])
@each_row("event", EventType)
def test_no_event_has_a_place_for_a_vector(event: EventType, field: str) -> None:
    for fields in (sample(event), {**whole(event)["data"], "erased": True}):
        with pytest.raises(InvalidEvent, match="extra_forbidden"):
            build_command(ORIGIN, event, {**fields, field: VECTOR})


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
        assert build_command(ORIGIN, EventType.UNIT_RETAINED, fields)["data"][field] == value


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


def test_two_commands_may_tell_their_events_apart() -> None:
    ids = {build_offer(ORIGIN, EventType.BANK_DELETED, (), {}, nth="2", identity=uuid4())["id"] for _ in range(2)}
    assert len(ids) == 2
