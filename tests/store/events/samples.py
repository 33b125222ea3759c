"""One valid set of fields for every event type; ids follow from a name, so the same name is the same thing."""

from collections.abc import Callable
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from store.events.catalog import EventType

WHEN = "2026-02-03T04:05:06+00:00"


def named(name: str) -> str:
    """Ids of different kinds never meet: an aggregate id does not hold its kind."""
    return str(uuid5(NAMESPACE_OID, name))


def sample(event: EventType, key: str = "a", text: str = "as it was") -> dict[str, Any]:
    """Return wire fields of an event about the thing called `key`, saying `text`."""
    fields: dict[EventType, Callable[[], dict[str, Any]]] = {
        EventType.BANK_CREATED: lambda: {"bankName": text, "background": text},
        EventType.BANK_UPDATED: lambda: {"bankName": text, "disposition": {"skepticism": 1}},
        EventType.BANK_DELETED: dict,
        EventType.DOC_CREATED: lambda: {"docId": named(f"doc {key}"), "originalText": text, "contentHash": "00ff"},
        EventType.DOC_UPDATED: lambda: {"docId": named(f"doc {key}"), "originalText": text},
        EventType.DOC_DELETED: lambda: {"docId": named(f"doc {key}")},
        EventType.UNIT_RETAINED: lambda: {
            "unitId": named(f"unit {key}"),
            "content": text,
            "factType": "world",
            "eventDate": WHEN,
            "metadata": {"said": text},
            "sourceMemoryIds": [named("source")],
        },
        EventType.UNIT_UPDATED: lambda: {
            "unitId": named(f"unit {key}"),
            "content": text,
            "eventDate": WHEN,
            "proofCount": 2,
        },
        EventType.UNIT_DELETED: lambda: {"unitId": named(f"unit {key}")},
        EventType.ENTITY_CREATED: lambda: {"entityId": named(f"entity {key}"), "canonicalName": text},
        EventType.ENTITY_UPDATED: lambda: {
            "entityId": named(f"entity {key}"),
            "canonicalName": text,
            "metadata": {"kind": "city"},
        },
        EventType.ENTITY_DELETED: lambda: {"entityId": named(f"entity {key}")},
        EventType.UNIT_ENTITY_LINKED: lambda: {**_joined(key), "mentions": 2, "spans": [[0, 4], [9, 13]]},
        EventType.UNIT_ENTITY_UNLINKED: lambda: _joined(key),
        EventType.LINK_CREATED: lambda: {**_link(key), "weight": 0.5},
        EventType.LINK_UPDATED: lambda: {**_link(key), "weight": 0.75},
        EventType.LINK_DELETED: lambda: _link(key),
        EventType.DIRECTIVE_CREATED: lambda: {
            "directiveId": named(f"directive {key}"),
            "name": "tone",
            "content": text,
        },
        EventType.DIRECTIVE_UPDATED: lambda: {
            "directiveId": named(f"directive {key}"),
            "name": "tone",
            "content": text,
            "priority": 3,
        },
        EventType.DIRECTIVE_DELETED: lambda: {"directiveId": named(f"directive {key}")},
        EventType.REFLECTION_CREATED: lambda: {"reflectionId": named(f"reflection {key}"), "content": text},
        EventType.REFLECTION_UPDATED: lambda: {"reflectionId": named(f"reflection {key}"), "content": text},
        EventType.REFLECTION_DELETED: lambda: {"reflectionId": named(f"reflection {key}")},
        EventType.SESSION_CREATED: lambda: {"sessionId": named(f"session {key}"), "messages": [_said(text)]},
        EventType.SESSION_APPENDED: lambda: {
            "sessionId": named(f"session {key}"),
            "messages": [_said(text), _said("and more")],
        },
        EventType.SESSION_COMPACTED: lambda: {
            "sessionId": named(f"session {key}"),
            "messages": [_said(text)],
            "metadata": {"short": True},
        },
        EventType.SESSION_DELETED: lambda: {"sessionId": named(f"session {key}")},
    }
    return fields[event]()


def uuid_of(name: str) -> UUID:
    return UUID(named(name))


def _joined(key: str) -> dict[str, Any]:
    unit, _, entity = key.partition("-")
    return {"unitId": named(f"unit {unit}"), "entityId": named(f"entity {entity or unit}")}


def _link(key: str) -> dict[str, Any]:
    source, _, target = key.partition("-")
    return {
        "fromUnitId": named(f"unit {source}"),
        "toUnitId": named(f"unit {target or source}"),
        "linkType": "semantic",
    }


def _said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": WHEN}
