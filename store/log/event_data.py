"""Event payloads: one frozen model for each of the 27 types, camelCase on the wire.

An Updated event carries the whole new state. No event carries a vector: no field of these models holds one, and
unknown fields are refused; vectors are made again from the text. JSON of callers (metadata, content parts) may have any
names and numbers.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

import orjson
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from store.log.storable import DEPTH_LIMIT, check_json

FactType = Literal["world", "experience", "opinion", "observation", "mental_model"]
UnitOrigin = Literal["message", "extraction", "document", "memory"]
LinkType = Literal["temporal", "semantic", "entity", "causes", "caused_by", "enables", "prevents"]

#: Levels of an event's data: a message's content, a JSON value of its own, stands this much deeper.
LEVELS = DEPTH_LIMIT + 3


#: Whole numbers of the columns of projections: four bytes, of versions eight.
Number = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Count = Annotated[int, Field(ge=0, lt=2**31)]
Version = Annotated[int, Field(ge=0, lt=2**63)]
#: The times that UTC has, in which they are read.
Time = Annotated[AwareDatetime, Field(ge=datetime.min.replace(tzinfo=UTC), le=datetime.max.replace(tzinfo=UTC))]


class EventData(BaseModel):
    """Fields of every event: host, bank, and the aggregate's version."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, allow_inf_nan=False
    )

    host_id: UUID
    bank_id: UUID
    aggregate_version: Version | None = None
    new_aggregate_version: Version | None = Field(None, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _is_storable(cls, data: Any) -> Any:
        check_json(data, LEVELS)
        return data

    @model_validator(mode="after")
    def _versions_follow(self) -> Self:
        before, after = self.aggregate_version, self.new_aggregate_version
        if before is not None and after is not None and after <= before:
            raise ValueError("newAggregateVersion is greater than aggregateVersion")
        return self


class BankData(EventData):
    """A bank's state."""

    bank_name: str = Field(min_length=1, max_length=256)
    agent_def_id: UUID | None = None
    user_id: UUID | None = None
    disposition: Mapping[str, JsonValue] | None = None
    background: str | None = None
    expires_at: Time | None = None


class DocKey(EventData):
    """The key of a document."""

    doc_id: UUID


#: The bytes that quotas are charged for an aggregate: what callers wrote for it, over all its versions.
Bytes = Annotated[int | None, Field(ge=0, lt=2**63)]


class Doc(DocKey):
    """A document's state."""

    original_text: str | None = None
    content_hash: str | None = None
    title: str | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    occurred_at: Time | None = None
    bytes: Bytes = None
    agent_def_id: UUID | None = None


class UnitKey(EventData):
    """The key of a unit."""

    unit_id: UUID


class UnitData(UnitKey):
    """A unit's state."""

    content: str
    fact_type: FactType = "world"
    event_date: Time
    doc_id: UUID | None = None
    context: str | None = None
    occurred_start: Time | None = None
    occurred_end: Time | None = None
    mentioned_at: Time | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    proof_count: Count = 1
    source_memory_ids: tuple[UUID, ...] = ()
    embedding_model: str | None = None
    bytes: Bytes = None
    expires_at: Time | None = None


def _check_parts(text: str) -> str:
    try:
        parts = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise PydanticCustomError("not_json", "must be the JSON of a list") from None
    if not isinstance(parts, list):
        raise PydanticCustomError("not_a_list", "must be the JSON of a list")
    check_json(parts, LEVELS)
    return text


#: Content parts as JSON text: jsonb itself loses the order of names, and which numbers are floats.
PartsText = Annotated[str, AfterValidator(_check_parts)]


class RetainedUnit(UnitData):
    """A unit's state and its provenance; the place in a conversation never changes afterwards.

    `agent_def_id` is the agent whose key handed it in, `user_name` the caller's own id of the user who said it; the log
    alone has it. `parts` of events from before they became text are a list.
    """

    origin: UnitOrigin = "extraction"
    session_id: UUID | None = None
    session_name: str | None = None
    turn_id: UUID | None = None
    turn_name: str | None = None
    ordinal: Count | None = None
    sequence: Count | None = None
    role: str | None = None
    name: str | None = None
    parts: PartsText | tuple[JsonValue, ...] | None = None
    agent_def_id: UUID | None = None
    user_name: str | None = None


class EntityKey(EventData):
    """The key of an entity."""

    entity_id: UUID


class EntityData(EntityKey):
    """An entity's state; its mentions are counted, and not part of the event."""

    canonical_name: str = Field(min_length=1)
    user_id: UUID | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)


class UnitEntityKey(EventData):
    """The key of a unit's mention of an entity."""

    unit_id: UUID
    entity_id: UUID


class UnitEntity(UnitEntityKey):
    """A unit's mention of an entity: how often, where, under what name, and the extractor that found it."""

    mentions: Count = Field(1, ge=1)
    place: Count = 0
    name: str | None = None
    kind: str | None = None
    spans: tuple[tuple[int, int], ...] = ()
    extractor: str | None = None


class LinkKey(EventData):
    """The key of a link."""

    from_unit_id: UUID
    to_unit_id: UUID
    link_type: LinkType


class Link(LinkKey):
    """A link's state; `embedding_model` is that of earlier semantic links, which were made from vectors."""

    weight: float = 1.0
    embedding_model: str | None = None
    bytes: Bytes = None


class DirectiveKey(EventData):
    """The key of a directive."""

    directive_id: UUID


class DirectiveData(DirectiveKey):
    """A directive's state, and its author."""

    name: str = Field(min_length=1, max_length=256)
    content: str
    priority: Number = 0
    bytes: Bytes = None
    laid_down_by: str | None = None


class ReflectionKey(EventData):
    """The key of a reflection."""

    reflection_id: UUID


class ReflectionData(ReflectionKey):
    """A reflection's state; its sources are the units it was drawn from."""

    content: str
    source_memory_ids: tuple[UUID, ...] = ()
    embedding_model: str | None = None


class HistoryMessage(BaseModel):
    """One message of a history: its text (`content`), or the unit that holds it (`unit_id`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True)

    role: str
    name: str | None = None
    timestamp: Time | None = None
    content: JsonValue = None
    unit_id: UUID | None = None

    @model_validator(mode="after")
    def _words_are_kept_once(self) -> Self:
        if (self.content is None) == (self.unit_id is None):
            raise ValueError("a message holds its content, or the unit that does")
        return self


class ErasedMessage(BaseModel):
    """A message of a history whose text is erased; its place remains."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True)

    erased: Literal[True]
    unit_id: UUID | None = None


class SessionKey(EventData):
    """The key of a session."""

    session_id: UUID


class CreatedSession(SessionKey):
    """A session at its start; a restored one brings its messages along."""

    session_name: str | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    messages: tuple[HistoryMessage | ErasedMessage, ...] = ()


class AppendedSession(SessionKey):
    """Messages appended to a session's history; `body_digest` is the HMAC of the turn's body with the host's secret."""

    session_name: str | None = None
    turn_id: UUID | None = None
    turn_name: str | None = None
    body_digest: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    messages: tuple[HistoryMessage | ErasedMessage, ...]


class CompactedSession(SessionKey):
    """A session's new history: these messages replace all earlier ones.

    `kept_from`: messages numbered from here on stay behind the only one of the event, a summary of those before them.
    """

    messages: tuple[HistoryMessage | ErasedMessage, ...]
    metadata: Mapping[str, JsonValue] | None = None
    kept_from: Count | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _summary_is_one_message(self) -> Self:
        if self.kept_from is not None and len(self.messages) != 1:
            raise ValueError("what is kept stands behind one message")
        return self


class Erased(EventData):
    """The marker that an erasure leaves of an event of any type, or appends: ids, versions and places.

    `afterturn.marker` keeps these fields; all other data of an event is erased.
    """

    erased: Literal[True]
    agent_def_id: UUID | None = None
    user_id: UUID | None = None
    doc_id: UUID | None = None
    unit_id: UUID | None = None
    entity_id: UUID | None = None
    from_unit_id: UUID | None = None
    to_unit_id: UUID | None = None
    link_type: LinkType | None = None
    directive_id: UUID | None = None
    reflection_id: UUID | None = None
    session_id: UUID | None = None
    turn_id: UUID | None = None
    ordinal: Count | None = None
    sequence: Count | None = None
    place: Count | None = None
    origin: UnitOrigin | None = None
    fact_type: FactType | None = None
    source_memory_ids: tuple[UUID, ...] | None = None
    kept_from: Count | None = None
    messages: tuple[ErasedMessage, ...] | None = None


def describe_faults(error: ValidationError) -> str:
    """Return the invalid fields of a validation error and the reasons, without their values."""
    found = (f"{'.'.join(map(str, e['loc'])) or 'data'}: {e['type']}" for e in error.errors(include_input=False))
    return "; ".join(sorted(set(found)))
