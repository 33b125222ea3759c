"""Aggregates and event types of the log, named as the seed names them.

Source: the Hindsight event model: nine aggregates, twenty-seven events.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from store.errors import InvalidEvent, LegacyEvent

#: Bytes of an aggregate id that the log's column holds.
AGGREGATE_ID_LIMIT = 255


class Aggregate(StrEnum):
    """What events happen to."""

    BANK = "AgentMemoryBank"
    DOC = "AgentMemoryDoc"
    UNIT = "AgentMemoryUnit"
    ENTITY = "AgentMemoryEntity"
    UNIT_ENTITY = "AgentMemoryUnitEntity"
    LINK = "AgentMemoryLink"
    DIRECTIVE = "AgentMemoryDirective"
    REFLECTION = "AgentMemoryReflection"
    SESSION = "AgentSessionHistory"


class EventType(StrEnum):
    """What can have happened; the wire name of each event."""

    BANK_CREATED = "AgentMemoryBankCreatedEvent"
    BANK_UPDATED = "AgentMemoryBankUpdatedEvent"
    BANK_DELETED = "AgentMemoryBankDeletedEvent"
    DOC_CREATED = "AgentMemoryDocCreatedEvent"
    DOC_UPDATED = "AgentMemoryDocUpdatedEvent"
    DOC_DELETED = "AgentMemoryDocDeletedEvent"
    UNIT_RETAINED = "AgentMemoryUnitRetainedEvent"
    UNIT_UPDATED = "AgentMemoryUnitUpdatedEvent"
    UNIT_DELETED = "AgentMemoryUnitDeletedEvent"
    ENTITY_CREATED = "AgentMemoryEntityCreatedEvent"
    ENTITY_UPDATED = "AgentMemoryEntityUpdatedEvent"
    ENTITY_DELETED = "AgentMemoryEntityDeletedEvent"
    UNIT_ENTITY_LINKED = "AgentMemoryUnitEntityLinkedEvent"
    UNIT_ENTITY_UNLINKED = "AgentMemoryUnitEntityUnlinkedEvent"
    LINK_CREATED = "AgentMemoryLinkCreatedEvent"
    LINK_UPDATED = "AgentMemoryLinkUpdatedEvent"
    LINK_DELETED = "AgentMemoryLinkDeletedEvent"
    DIRECTIVE_CREATED = "AgentMemoryDirectiveCreatedEvent"
    DIRECTIVE_UPDATED = "AgentMemoryDirectiveUpdatedEvent"
    DIRECTIVE_DELETED = "AgentMemoryDirectiveDeletedEvent"
    REFLECTION_CREATED = "AgentMemoryReflectionCreatedEvent"
    REFLECTION_UPDATED = "AgentMemoryReflectionUpdatedEvent"
    REFLECTION_DELETED = "AgentMemoryReflectionDeletedEvent"
    SESSION_CREATED = "AgentSessionHistoryCreatedEvent"
    SESSION_APPENDED = "AgentSessionHistoryAppendedEvent"
    SESSION_COMPACTED = "AgentSessionHistoryCompactedEvent"
    SESSION_DELETED = "AgentSessionHistoryDeletedEvent"


#: Names of an older family: its tables (agent_memory_t, the first agent_session_history_t) are not ours, and its
#: names must never be taken for events of this one.
LEGACY = frozenset(
    {
        "AgentMemoryCreatedEvent",
        "AgentMemoryUpdatedEvent",
        "AgentMemoryDeletedEvent",
        "AgentSessionHistoryUpdatedEvent",
        "AgentSessionHistoryUpsertedEvent",
    }
)

#: Suffixes an event type adds to its aggregate's name.
SUFFIXES = (
    "CreatedEvent",
    "UpdatedEvent",
    "DeletedEvent",
    "StartedEvent",
    "RetainedEvent",
    "AppendedEvent",
    "CompactedEvent",
    "LinkedEvent",
    "UnlinkedEvent",
)

#: Data fields that follow host and bank in an aggregate id.
ID_FIELDS: Mapping[Aggregate, tuple[str, ...]] = MappingProxyType(
    {
        Aggregate.BANK: (),
        Aggregate.DOC: ("docId",),
        Aggregate.UNIT: ("unitId",),
        Aggregate.ENTITY: ("entityId",),
        Aggregate.UNIT_ENTITY: ("unitId", "entityId"),
        Aggregate.LINK: ("fromUnitId", "toUnitId", "linkType"),
        Aggregate.DIRECTIVE: ("directiveId",),
        Aggregate.REFLECTION: ("reflectionId",),
        Aggregate.SESSION: ("sessionId",),
    }
)

#: Events that begin an aggregate's life, or begin it again; they carry its whole state and may start at any version.
BEGINNINGS = frozenset(
    {EventType.UNIT_RETAINED, EventType.UNIT_ENTITY_LINKED, *(e for e in EventType if e.endswith("CreatedEvent"))}
)


def event_type(name: str) -> EventType:
    """Return the event type called `name`. Raises LegacyEvent for the older family's, InvalidEvent for unknown ones."""
    if name in LEGACY:
        raise LegacyEvent("this event belongs to an older family of tables and is kept apart")
    try:
        return EventType(name)
    except ValueError:
        raise InvalidEvent("no such event type") from None


@lru_cache(maxsize=64)
def aggregate_type(event: str) -> str:
    """Return the aggregate an event type belongs to: its name without the longest suffix that fits.

    Longest, because "Unlinked" ends in "Linked". Raises InvalidEvent when no suffix fits.
    """
    suffix = max((s for s in SUFFIXES if event.endswith(s)), key=len, default="")
    if not suffix or suffix == event:
        raise InvalidEvent("an event type ends in what happened")
    return event.removesuffix(suffix)


def aggregate_id(*parts: object) -> str:
    """Join the parts of an aggregate id by bars; every part is required and holds no bar itself.

    Raises InvalidEvent for a missing or empty part, a bar inside a part, or an id past 255 bytes.
    """
    texts = ["" if part is None else str(part) for part in parts]
    joined = "|".join(texts)
    if not texts or not all(texts) or joined.count("|") >= len(texts):
        raise InvalidEvent("an aggregate id needs every part, none empty and none with a bar in it")
    if len(joined.encode()) > AGGREGATE_ID_LIMIT:
        raise InvalidEvent(f"an aggregate id is limited to {AGGREGATE_ID_LIMIT} bytes")
    return joined


def aggregate_id_of(aggregate: Aggregate, data: Mapping[str, object]) -> str:
    """Return the aggregate id that an event's data (camelCase) names. Raises InvalidEvent for a missing part."""
    return aggregate_id(*(data.get(field) for field in ("hostId", "bankId", *ID_FIELDS[aggregate])))
