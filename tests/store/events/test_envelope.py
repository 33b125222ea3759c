"""What an event says is checked: its envelope, its ids, its data, and that no vector hides in it."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from store.errors import InvalidEvent, LegacyEvent
from store.events.catalog import BEGINNINGS, EventType
from store.events.data import holds_vector, parse
from store.events.envelope import Origin, command, offer, reoffer
from tests.store.events.samples import sample

ORIGIN = Origin(uuid4(), uuid4(), uuid4(), datetime(2026, 3, 1, tzinfo=UTC))
SECRET = "kept between us"


def whole(event: EventType = EventType.UNIT_RETAINED, **changes: Any) -> dict[str, Any]:
    offered = command(ORIGIN, event, sample(event), version=1 if event in BEGINNINGS else 2)
    return {**offered["payload"], "nonce": 7, "aggregateversion": offered["version"], **changes}


@pytest.mark.parametrize("event", EventType)
def test_every_event_comes_back_from_its_envelope(event: EventType) -> None:
    again = reoffer(whole(event))
    made = command(ORIGIN, event, sample(event), version=1 if event in BEGINNINGS else 2)
    assert {k: again[k] for k in made} == made


@pytest.mark.parametrize("event", EventType)
def test_an_unknown_field_is_refused_and_its_value_not_told(event: EventType) -> None:
    with pytest.raises(InvalidEvent, match="extra_forbidden") as refused:
        command(ORIGIN, event, {**sample(event), "mood": SECRET})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("event", EventType)
def test_every_field_of_its_id_is_required(event: EventType) -> None:
    for field in ("hostId", "bankId"):
        data = {k: v for k, v in whole(event)["data"].items() if k != field}
        with pytest.raises(InvalidEvent):
            parse(event, data)


@pytest.mark.parametrize(
    "field", ["embedding", "Embedding", "contentEmbedding", "text_embedding", "vector", "embeddings"]
)
@pytest.mark.parametrize("event", [EventType.UNIT_RETAINED, EventType.REFLECTION_CREATED])
def test_no_embedding_is_taken_into_an_event(event: EventType, field: str) -> None:
    with pytest.raises(InvalidEvent):
        command(ORIGIN, event, {**sample(event), field: [0.1, 0.2]})


@pytest.mark.parametrize(
    "metadata",
    [
        {"embedding": "text"},
        {"deep": [{"unitEmbedding": []}]},
        {"numbers": [0.5] * 33},
        {"deep": {"deeper": [list(range(384))]}},
    ],
)
def test_no_vector_hides_in_metadata(metadata: dict[str, Any]) -> None:
    assert holds_vector(metadata)
    with pytest.raises(InvalidEvent):
        command(ORIGIN, EventType.UNIT_RETAINED, {**sample(EventType.UNIT_RETAINED), "metadata": metadata})


def test_the_name_of_a_model_and_a_short_list_are_welcome() -> None:
    fields = {**sample(EventType.UNIT_RETAINED), "embeddingModel": "minilm", "metadata": {"scores": [0.1] * 32}}
    assert command(ORIGIN, EventType.UNIT_RETAINED, fields)["payload"]["data"]["embeddingModel"] == "minilm"


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
        reoffer(whole(**change))


def test_an_event_of_the_older_family_is_refused_as_such() -> None:
    with pytest.raises(LegacyEvent):
        reoffer(whole(type="AgentMemoryCreatedEvent"))


def test_a_beginning_without_a_version_is_the_first_and_anything_else_is_refused() -> None:
    for event in (EventType.DOC_CREATED, EventType.DOC_UPDATED):
        envelope = whole(event, aggregateversion=1)
        for field in ("aggregateVersion", "newAggregateVersion"):
            envelope["data"] = {k: v for k, v in envelope["data"].items() if k != field}
        if event is EventType.DOC_CREATED:
            assert reoffer(envelope)["version"] == 1
        else:
            with pytest.raises(InvalidEvent):
                reoffer(envelope)


def test_extension_attributes_become_metadata() -> None:
    assert reoffer(whole(backfilled=True))["metadata"] == {"backfilled": True}


def test_two_commands_may_tell_their_events_apart() -> None:
    ids = {offer(ORIGIN, EventType.BANK_DELETED, (), {}, nth="2", identity=uuid4())["id"] for _ in range(2)}
    assert len(ids) == 2
