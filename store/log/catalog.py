"""The registry of the log: aggregates and events by the seed's names, and the rules for each.

SQL reads it through functions that every upgrade generates from it (`describe_registry`, `afterturn.set_events`): the
order in which events are projected and by which function, which begin an aggregate, what an erased event keeps.
Source: the Hindsight event model: nine aggregates, twenty-seven events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from store.errors import InvalidEvent
from store.log import event_data as data

#: Bytes of an aggregate id that the log's column holds.
AGGREGATE_ID_LIMIT = 255


class Aggregate(StrEnum):
    """The kinds of aggregates: what an event belongs to."""

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
    """The types of events, by their wire names."""

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


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """The registry's entry of an aggregate: the table of its projection, and the parts of its id after host and bank.

    `ids`: the data fields of the id, each with its column of the table. `counted`: columns that a stage fills later; a
    replay does not compare them. `has_children`: other aggregates end with it, and none of them lives without it.
    """

    table: str
    ids: Mapping[str, str] = field(default_factory=dict)
    counted: tuple[str, ...] = ()
    has_children: bool = False


@dataclass(frozen=True, slots=True)
class EventSpec:
    """The registry's entry of an event type: its aggregate and the model of its data.

    `begins`: it begins the aggregate's life, or begins it again; it carries the whole state and may start at any
    version. `ends`: it ends that life.
    """

    aggregate: Aggregate
    model: type[data.EventData]
    begins: bool = False
    ends: bool = False


A, E = Aggregate, EventType

#: The aggregates, parents before their children.
AGGREGATES: Mapping[Aggregate, AggregateSpec] = MappingProxyType(
    {
        A.BANK: AggregateSpec("agent_memory_bank_t", has_children=True),
        A.DOC: AggregateSpec("agent_memory_doc_t", {"docId": "doc_id"}, has_children=True),
        A.UNIT: AggregateSpec("agent_memory_unit_t", {"unitId": "unit_id"}, has_children=True),
        A.ENTITY: AggregateSpec(
            "agent_memory_entity_t", {"entityId": "entity_id"}, ("mention_count",), has_children=True
        ),
        A.UNIT_ENTITY: AggregateSpec(
            "agent_memory_unit_entity_t", {"unitId": "unit_id", "entityId": "entity_id"}, ("counted",)
        ),
        A.LINK: AggregateSpec(
            "agent_memory_link_t",
            {"fromUnitId": "from_unit_id", "toUnitId": "to_unit_id", "linkType": "link_type"},
        ),
        A.DIRECTIVE: AggregateSpec("agent_memory_directive_t", {"directiveId": "directive_id"}),
        A.REFLECTION: AggregateSpec("agent_memory_reflection_t", {"reflectionId": "reflection_id"}),
        A.SESSION: AggregateSpec("agent_session_history_t", {"sessionId": "session_id"}),
    }
)

#: In the order in which a run of events is projected: parents first, ends last, children's ends before their parents'.
#: Each is projected by the SQL function `project_NAME`: `project_bank_created` for BANK_CREATED.
EVENTS: Mapping[EventType, EventSpec] = MappingProxyType(
    {
        E.BANK_CREATED: EventSpec(A.BANK, data.BankData, begins=True),
        E.BANK_UPDATED: EventSpec(A.BANK, data.BankData),
        E.DOC_CREATED: EventSpec(A.DOC, data.Doc, begins=True),
        E.DOC_UPDATED: EventSpec(A.DOC, data.Doc),
        E.UNIT_RETAINED: EventSpec(A.UNIT, data.RetainedUnit, begins=True),
        E.UNIT_UPDATED: EventSpec(A.UNIT, data.UnitData),
        E.ENTITY_CREATED: EventSpec(A.ENTITY, data.EntityData, begins=True),
        E.ENTITY_UPDATED: EventSpec(A.ENTITY, data.EntityData),
        E.UNIT_ENTITY_LINKED: EventSpec(A.UNIT_ENTITY, data.UnitEntity, begins=True),
        E.UNIT_ENTITY_UNLINKED: EventSpec(A.UNIT_ENTITY, data.UnitEntityKey, ends=True),
        E.LINK_CREATED: EventSpec(A.LINK, data.Link, begins=True),
        E.LINK_UPDATED: EventSpec(A.LINK, data.Link),
        E.DIRECTIVE_CREATED: EventSpec(A.DIRECTIVE, data.DirectiveData, begins=True),
        E.DIRECTIVE_UPDATED: EventSpec(A.DIRECTIVE, data.DirectiveData),
        E.REFLECTION_CREATED: EventSpec(A.REFLECTION, data.ReflectionData, begins=True),
        E.REFLECTION_UPDATED: EventSpec(A.REFLECTION, data.ReflectionData),
        E.SESSION_CREATED: EventSpec(A.SESSION, data.CreatedSession, begins=True),
        E.SESSION_APPENDED: EventSpec(A.SESSION, data.AppendedSession),
        E.SESSION_COMPACTED: EventSpec(A.SESSION, data.CompactedSession),
        E.SESSION_DELETED: EventSpec(A.SESSION, data.SessionKey, ends=True),
        E.REFLECTION_DELETED: EventSpec(A.REFLECTION, data.ReflectionKey, ends=True),
        E.DIRECTIVE_DELETED: EventSpec(A.DIRECTIVE, data.DirectiveKey, ends=True),
        E.LINK_DELETED: EventSpec(A.LINK, data.LinkKey, ends=True),
        E.ENTITY_DELETED: EventSpec(A.ENTITY, data.EntityKey, ends=True),
        E.UNIT_DELETED: EventSpec(A.UNIT, data.UnitKey, ends=True),
        E.DOC_DELETED: EventSpec(A.DOC, data.DocKey, ends=True),
        E.BANK_DELETED: EventSpec(A.BANK, data.EventData, ends=True),
    }
)

#: Data fields that follow host and bank in an aggregate id.
ID_FIELDS: Mapping[Aggregate, tuple[str, ...]] = MappingProxyType(
    {aggregate: tuple(spec.ids) for aggregate, spec in AGGREGATES.items()}
)

#: Data fields that are columns of the log, and not repeated in the stored data.
COLUMNS = frozenset({"hostId", "bankId", "aggregateVersion", "newAggregateVersion"})


def describe_registry() -> dict[str, object]:
    """Return the aggregates and events in the form that SQL takes (`afterturn.set_events`)."""
    kept = {field.alias or name for name, field in data.Erased.model_fields.items()} - COLUMNS - {"erased", "messages"}
    return {
        "events": [
            {
                "type": event.value,
                "table": AGGREGATES[spec.aggregate].table,
                "ids": dict(AGGREGATES[spec.aggregate].ids),
                "projector": f"project_{event.name.lower()}",
                "begins": spec.begins,
                "moves_children": (spec.begins or spec.ends) and AGGREGATES[spec.aggregate].has_children,
            }
            for event, spec in EVENTS.items()
        ],
        "tables": [spec.table for spec in AGGREGATES.values()],
        "kept": sorted(kept),
    }


def parse_event_data(event: EventType, fields: Mapping[str, Any]) -> data.EventData:
    """Return an event's data, checked, from its wire form.

    Raises InvalidEvent, which names the fields at fault and never their values.
    """
    model = data.Erased if fields.get("erased") is True else EVENTS[event].model
    try:
        return model.model_validate(fields, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidEvent(f"{event.value}: {data.describe_faults(error)}") from None


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
