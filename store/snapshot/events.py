"""Reads the CloudEvents of a snapshot: each becomes an event in the form the log takes, or a reason why not. Pure.

An error names fields and never their values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from afterturn_client.moments import parse_zoned

from store.errors import InvalidEvent
from store.log.catalog import AGGREGATES, COLUMNS, EVENTS, ID_FIELDS, EventType, aggregate_id, parse_event_data

#: Where the service's own events come from; the log keeps another source beside the event.
SOURCE = "/afterturn"
#: The attributes of the envelope; what an event has beside them are extensions.
ATTRIBUTES = frozenset(
    (
        *("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data"),
        *("host", "user", "nonce", "aggregatetype", "aggregateversion"),
    )
)
#: Ids of hosts and users that are parsed once.
KNOWN_IDS = 1024
#: Another spelling of an attribute, which is read as well.
_VERSION_ALIAS = "aggregateVersion"
_NAMED = ATTRIBUTES | {_VERSION_ALIAS}


class UnreadableEvent(InvalidEvent):
    """A line is no event that this tenant's log can hold; the text names what is wrong, never a value."""


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """An event of a snapshot: the form the log takes (`offer`), and what it is about, for checks."""

    offer: dict[str, Any] = field(repr=False)
    id: UUID
    subject: str
    version: int
    bank: UUID
    user: UUID
    at: datetime
    erased: bool

    @property
    def data(self) -> dict[str, Any]:
        """The event's data, without host, bank and versions."""
        found: dict[str, Any] = self.offer["data"]
        return found

    @property
    def about(self) -> frozenset[UUID]:
        """The ids of what the event is about: bank, user, session, turn, and its aggregate's own."""
        named = (self.data.get(name) for name in _ABOUT)
        return frozenset({self.bank, self.user, *(UUID(str(one)) for one in named if one)})


def _to_snake_case(name: str) -> str:
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in name)


#: The attributes of an event's data that are the parts of its aggregate's id.
_ID_ATTRIBUTES = {event: tuple(map(_to_snake_case, ID_FIELDS[spec.aggregate])) for event, spec in EVENTS.items()}
#: The wire names of types and of their aggregates, since each look into an enumeration is a call.
_TYPES = {event.value: event for event in EventType}
_AGGREGATES = {event: spec.aggregate.value for event, spec in EVENTS.items()}
_ABOUT = ("sessionId", "turnId", "docId", "unitId", "directiveId", "reflectionId", "userId", "fromUnitId", "toUnitId")


def read_event(line: Any, host: UUID) -> ReadEvent:
    """Return an event of this tenant. Raises UnreadableEvent.

    The version may be spelt `aggregateVersion` or be a text; it is 1 where it is left out. The kind of aggregate and
    the subject are derived where they are left out, and must be right where they are not.
    """
    if not isinstance(line, Mapping):
        raise UnreadableEvent("a line is no JSON object")
    event = _read_type(line)
    identity = _read_id(line, "id")
    (of_host, host_text), (user, user_text) = _read_known_id(line, "host"), _read_known_id(line, "user")
    if of_host != host:
        raise UnreadableEvent("host: is another tenant's; name a replacement, or import into that tenant")
    data = line.get("data")
    if not isinstance(data, Mapping):
        raise UnreadableEvent("data: must be an object")
    version = _read_version(line, data)
    checked = _check_data(event, data, host)
    bank, bank_text = _read_known_id(data, "bankId")
    parts = (host_text, bank_text, *(getattr(checked, name) for name in _ID_ATTRIBUTES[event]))
    subject = _build_subject(line, event, parts)
    kept = {name: value for name, value in data.items() if name not in COLUMNS}
    extensions = {} if line.keys() <= _NAMED else {name: line[name] for name in line if name not in _NAMED}
    source = line.get("source")
    at = _read_time(line)
    offer = {
        "id": str(identity),
        "type": str(event),
        "aggregate": _AGGREGATES[event],
        "subject": subject,
        "bank": bank_text,
        "user": user_text,
        "ts": at.isoformat(),
        "version": version,
        "data": kept,
        "metadata": {**extensions, **({"source": source} if source not in {None, SOURCE} else {})} or None,
    }
    return ReadEvent(offer, identity, subject, version, bank, user, at, data.get("erased") is True)


def build_cloud_event(event: Mapping[str, Any], host: UUID, nth: int) -> dict[str, Any]:
    """Return an event that the log would take as the CloudEvent that it gives; `nth` is its nonce."""
    version = event["version"]
    ids = {"hostId": str(host), "bankId": event["bank"]}
    return {
        "specversion": "1.0",
        "id": event["id"],
        "source": SOURCE,
        "type": event["type"],
        "subject": event["subject"],
        "time": event["ts"],
        "datacontenttype": "application/json",
        "host": str(host),
        "user": event["user"],
        "nonce": nth,
        "aggregatetype": event["aggregate"],
        "aggregateversion": version,
        "data": {**ids, **event["data"], "aggregateVersion": version - 1, "newAggregateVersion": version},
    }


def _read_type(line: Mapping[str, Any]) -> EventType:
    event = _TYPES.get(str(line.get("type")))
    if event is None:
        raise UnreadableEvent("type: is no type of this log")
    aggregate = _AGGREGATES[event]
    if line.get("specversion", "1.0") != "1.0":
        raise UnreadableEvent("specversion: must be 1.0")
    if line.get("aggregatetype", aggregate) != aggregate:
        raise UnreadableEvent(f"aggregatetype: must be {aggregate} for this type")
    return event


def _read_id(line: Mapping[str, Any], name: str) -> UUID:
    try:
        return UUID(str(line[name]))
    except (KeyError, ValueError):
        raise UnreadableEvent(f"{name}: must be a UUID") from None


def _read_known_id(line: Mapping[str, Any], name: str) -> tuple[UUID, str]:
    """Return an id that many events have, and its text."""
    try:
        return _parse_id(str(line[name]))
    except (KeyError, ValueError):
        raise UnreadableEvent(f"{name}: must be a UUID") from None


@lru_cache(KNOWN_IDS)
def _parse_id(given: str) -> tuple[UUID, str]:
    identity = UUID(given)
    return identity, str(identity)


def _read_time(line: Mapping[str, Any]) -> datetime:
    try:
        return parse_zoned(str(line["time"]))
    except (KeyError, ValueError):
        raise UnreadableEvent("time: must be RFC 3339 with its offset, of the years 1 to 9999 in UTC") from None


def _read_version(line: Mapping[str, Any], data: Mapping[str, Any]) -> int:
    given = line.get("aggregateversion", line.get(_VERSION_ALIAS, data.get("newAggregateVersion", 1)))
    try:
        version = int(given) if isinstance(given, str) or type(given) is int else 0
    except ValueError:
        version = 0
    if not 1 <= version < 2**63:
        raise UnreadableEvent("aggregateversion: must be a whole number from 1")
    if data.get("newAggregateVersion", version) != version:
        raise UnreadableEvent("newAggregateVersion: is another than aggregateversion")
    return version


def _check_data(event: EventType, data: Mapping[str, Any], host: UUID) -> Any:
    try:
        checked = parse_event_data(event, data)
    except InvalidEvent as error:
        raise UnreadableEvent(str(error)) from None
    if checked.host_id != host:
        raise UnreadableEvent("data.hostId: is another than host")
    return checked


def _build_subject(line: Mapping[str, Any], event: EventType, parts: tuple[object, ...]) -> str:
    try:
        subject = aggregate_id(*parts)
    except InvalidEvent as error:
        raise UnreadableEvent(f"data of {AGGREGATES[EVENTS[event].aggregate].table}: {error}") from None
    if line.get("subject", subject) != subject:
        raise UnreadableEvent("subject: is another than its data")
    return subject
