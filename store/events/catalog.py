"""Aggregates and event types of the log, named as the seed names them.

Source: the Hindsight event model (bank, unit, entity, links and session history).
"""

from enum import StrEnum

from store.errors import StoreError

#: Bytes of an aggregate id that the log's column holds.
AGGREGATE_ID_LIMIT = 255


class EventType(StrEnum):
    """What can have happened; the wire name of each event."""

    BANK_CREATED = "AgentMemoryBankCreatedEvent"
    SESSION_CREATED = "AgentSessionHistoryCreatedEvent"
    SESSION_APPENDED = "AgentSessionHistoryAppendedEvent"
    UNIT_RETAINED = "AgentMemoryUnitRetainedEvent"
    UNIT_DELETED = "AgentMemoryUnitDeletedEvent"
    ENTITY_CREATED = "AgentMemoryEntityCreatedEvent"
    UNIT_ENTITY_LINKED = "AgentMemoryUnitEntityLinkedEvent"
    LINK_CREATED = "AgentMemoryLinkCreatedEvent"


#: Suffixes an event type adds to its aggregate's name.
SUFFIXES = (
    "CreatedEvent",
    "UpdatedEvent",
    "DeletedEvent",
    "RetainedEvent",
    "AppendedEvent",
    "LinkedEvent",
    "UnlinkedEvent",
)


def aggregate_type(event: EventType) -> str:
    """Return the aggregate an event belongs to: its type without the longest suffix that fits."""
    suffix = max((s for s in SUFFIXES if event.endswith(s)), key=len)
    return event.removesuffix(suffix)


def aggregate_id(*parts: object) -> str:
    """Join the parts of an aggregate id by bars; every part is required and holds no bar itself.

    Raises StoreError for an empty part, a bar inside a part, or an id past 255 bytes.
    """
    texts = [str(part) for part in parts]
    if not texts or not all(texts) or any("|" in text for text in texts):
        raise StoreError("an aggregate id needs every part, none empty and none with a bar in it")
    joined = "|".join(texts)
    if len(joined.encode()) > AGGREGATE_ID_LIMIT:
        raise StoreError(f"an aggregate id is limited to {AGGREGATE_ID_LIMIT} bytes")
    return joined
