"""One valid set of fields for every event type; ids follow from a name, so the same name is the same thing."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from store.log.catalog import EVENTS
from store.log.catalog import EventType as E

#: Events that begin an aggregate's life, or begin it again.
BEGINNINGS = frozenset(event for event, spec in EVENTS.items() if spec.begins)
WHEN = "2026-02-03T04:05:06+00:00"


def named(name: str) -> str:
    """Ids of different kinds never meet: an aggregate id does not hold its kind."""
    return str(uuid5(NAMESPACE_OID, name))


def sample(event: E, key: str = "a", text: str = "as it was") -> dict[str, Any]:
    """Return wire fields of an event about the thing called `key`, saying `text`."""
    aggregate = event.name.rpartition("_")[0]
    return {**IDS[aggregate](key), **TOLD.get(event, _nothing)(text)}


def cloud_event(offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole CloudEvent that the log would show of an offered event, at some position."""
    host, version = offered["subject"].partition("|")[0], offered["version"]
    return {
        "specversion": "1.0",
        "id": offered["id"],
        "source": "/afterturn",
        "type": offered["type"],
        "subject": offered["subject"],
        "time": offered["ts"],
        "datacontenttype": "application/json",
        "host": host,
        "user": offered["user"],
        "nonce": 7,
        "aggregatetype": offered["aggregate"],
        "aggregateversion": version,
        "data": {
            "hostId": host,
            "bankId": offered["bank"],
            **offered["data"],
            "aggregateVersion": version - 1,
            "newAggregateVersion": version,
        },
    }


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


def _nothing(_: str) -> dict[str, Any]:
    return {}


#: What each kind of thing is known by.
IDS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "BANK": _nothing,
    "DOC": lambda key: {"docId": named(f"doc {key}")},
    "UNIT": lambda key: {"unitId": named(f"unit {key}")},
    "ENTITY": lambda key: {"entityId": named(f"entity {key}")},
    "UNIT_ENTITY": _joined,
    "LINK": _link,
    "DIRECTIVE": lambda key: {"directiveId": named(f"directive {key}")},
    "REFLECTION": lambda key: {"reflectionId": named(f"reflection {key}")},
    "SESSION": lambda key: {"sessionId": named(f"session {key}")},
}
#: What events tell beside that.
TOLD: Mapping[E, Callable[[str], dict[str, Any]]] = {
    E.BANK_CREATED: lambda text: {"bankName": text, "background": text},
    E.BANK_UPDATED: lambda text: {"bankName": text, "disposition": {"skepticism": 1}},
    E.DOC_CREATED: lambda text: {"originalText": text, "contentHash": "00ff"},
    E.DOC_UPDATED: lambda text: {"originalText": text},
    E.UNIT_RETAINED: lambda text: {
        "content": text,
        "factType": "world",
        "eventDate": WHEN,
        "metadata": {"said": text},
        "sourceMemoryIds": [named("source")],
    },
    E.UNIT_UPDATED: lambda text: {"content": text, "eventDate": WHEN, "proofCount": 2},
    E.ENTITY_CREATED: lambda text: {"canonicalName": text},
    E.ENTITY_UPDATED: lambda text: {"canonicalName": text, "metadata": {"kind": "city"}},
    E.UNIT_ENTITY_LINKED: lambda _: {"mentions": 2, "spans": [[0, 4], [9, 13]]},
    E.LINK_CREATED: lambda _: {"weight": 0.5},
    E.LINK_UPDATED: lambda _: {"weight": 0.75},
    E.DIRECTIVE_CREATED: lambda text: {"name": "tone", "content": text},
    E.DIRECTIVE_UPDATED: lambda text: {"name": "tone", "content": text, "priority": 3},
    E.REFLECTION_CREATED: lambda text: {"content": text},
    E.REFLECTION_UPDATED: lambda text: {"content": text},
    E.SESSION_CREATED: lambda text: {"messages": [_said(text)]},
    E.SESSION_APPENDED: lambda text: {"messages": [_said(text), _said("and more")]},
    E.SESSION_COMPACTED: lambda text: {"messages": [_said(text)], "metadata": {"short": True}},
}
