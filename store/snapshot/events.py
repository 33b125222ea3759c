"""Reads the CloudEvents of a snapshot: each becomes an event in the form the log takes, or a reason why not. Pure.

An error names fields and never their values.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from afterturn_client.moments import parse_zoned
from pydantic.alias_generators import to_snake
from pydantic_core import PydanticCustomError

from store.errors import InvalidEvent
from store.log.catalog import AGGREGATES, COLUMNS, EVENTS, ID_FIELDS, EventType, aggregate_id, parse_event_data
from store.log.event_data import EventData
from store.log.storable import check_json

#: Where the service's own events come from; the log keeps another source beside the event.
SOURCE = "/afterturn"
#: The attributes of the envelope; all others of an event are extensions.
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
    """A line is no event that this tenant's log can hold; the text names the fault, never a value."""


class ReadEvent(NamedTuple):
    """An event of a snapshot, as the columns that the log takes of it, in the log's order.

    `data` is without host, bank and versions.
    """

    id: str
    type: str
    aggregate: str
    subject: str
    bank: UUID
    user: UUID
    at: datetime
    version: int
    data: dict[str, Any]
    metadata: dict[str, Any] | None

    def __repr__(self) -> str:
        """Name the event without its content."""
        return f"ReadEvent({self.id})"

    @property
    def erased(self) -> bool:
        """Whether it is the marker of an erased event."""
        return self.data.get("erased") is True

    @property
    def about(self) -> frozenset[UUID]:
        """The ids of the event's subject: bank, user, session, turn, and its aggregate's own."""
        named = (self.data.get(name) for name in _ABOUT)
        return frozenset({self.bank, self.user, *(UUID(str(one)) for one in named if one)})


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type of event, with the wire names of both and the data fields of its aggregate's id."""

    event: EventType
    type: str
    aggregate: str
    ids: tuple[str, ...]


_KINDS = {
    event.value: _Kind(event, event.value, spec.aggregate.value, ID_FIELDS[spec.aggregate])
    for event, spec in EVENTS.items()
}
_ABOUT = ("sessionId", "turnId", "docId", "unitId", "directiveId", "reflectionId", "userId", "fromUnitId", "toUnitId")
#: Ids are nearly always spelt as PostgreSQL spells them; that is seen at a fifth of the cost of reading them.
_USUAL = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_is_usual_id = re.compile(_USUAL).fullmatch
_is_usual_subject = re.compile(rf"{_USUAL}(?:\|{_USUAL})+(?:\|[a-z_]+)?").fullmatch


def read_event(line: Any, host: UUID) -> ReadEvent:
    """Return an event of this tenant. Raises UnreadableEvent.

    The version may be spelt `aggregateVersion` or be a text; it is 1 where it is left out. The kind of aggregate and
    the subject are derived where they are left out, and must be right where they are not.
    """
    if not isinstance(line, Mapping):
        raise UnreadableEvent("a line is no JSON object")
    kind = _read_kind(line)
    identity = _read_id(line, "id")
    (of_host, host_text), (user, _) = _read_known_id(line, "host"), _read_known_id(line, "user")
    if of_host != host:
        raise UnreadableEvent("host: is another tenant's; name a replacement, or import into that tenant")
    data = line.get("data")
    if not isinstance(data, Mapping):
        raise UnreadableEvent("data: must be an object")
    version = _read_version(line, data)
    checked = _check_data(kind.event, data, host)
    bank, bank_text = _read_known_id(data, "bankId")
    subject = _read_subject(line, kind, (host_text, bank_text), checked)
    kept = dict(data)
    for name in COLUMNS:
        kept.pop(name, None)
    at, metadata = _read_time(line), _read_metadata(line)
    return ReadEvent(identity, kind.type, kind.aggregate, subject, bank, user, at, version, kept, metadata)


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


def _read_kind(line: Mapping[str, Any]) -> _Kind:
    kind = _KINDS.get(str(line.get("type")))
    if kind is None:
        raise UnreadableEvent("type: is no type of this log")
    if line.get("specversion", "1.0") != "1.0":
        raise UnreadableEvent("specversion: must be 1.0")
    if line.get("aggregatetype", kind.aggregate) != kind.aggregate:
        raise UnreadableEvent(f"aggregatetype: must be {kind.aggregate} for this type")
    return kind


def _read_id(line: Mapping[str, Any], name: str) -> str:
    try:
        return _spell_id(str(line[name]))
    except (KeyError, ValueError):
        raise UnreadableEvent(f"{name}: must be a UUID") from None


def _spell_id(given: str) -> str:
    """Return an id as all others are spelt, which nearly all are already. Raises ValueError."""
    return given if _is_usual_id(given) else str(UUID(given))


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


def _read_metadata(line: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the extensions of an event, and its source if that is not this service; None: there is nothing."""
    if line.get("source", SOURCE) == SOURCE and line.keys() <= _NAMED:
        return None
    found = {name: line[name] for name in line if name not in _NAMED}
    if line.get("source") not in (None, SOURCE):
        found["source"] = line["source"]
    try:
        check_json(found)
    except PydanticCustomError as error:
        raise UnreadableEvent(f"extensions: {error.type}") from None
    return found or None


def _check_data(event: EventType, data: Mapping[str, Any], host: UUID) -> EventData:
    try:
        checked = parse_event_data(event, data)
    except InvalidEvent as error:
        raise UnreadableEvent(str(error)) from None
    if checked.host_id != host:
        raise UnreadableEvent("data.hostId: is another than host")
    return checked


def _read_subject(line: Mapping[str, Any], kind: _Kind, of: tuple[str, str], checked: EventData) -> str:
    """Return the id of an event's aggregate, of this host and bank."""
    given, data = line.get("subject"), line["data"]
    if given == "|".join([*of, *[str(data.get(name)) for name in kind.ids]]) and _is_usual_subject(given):
        return str(given)
    try:
        subject = aggregate_id(*of, *(getattr(checked, to_snake(name)) for name in kind.ids))
    except InvalidEvent as error:
        raise UnreadableEvent(f"data of {AGGREGATES[EVENTS[kind.event].aggregate].table}: {error}") from None
    if line.get("subject", subject) != subject:
        raise UnreadableEvent("subject: is another than its data")
    return subject
