"""An event before it is appended: its data and the CloudEvents attributes that are columns.

The log assigns the numbers: position, nonce and, for a session's history, the version. Envelopes are made when events
are read (`afterturn.cloud_event`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from store.identity import event_id
from store.log.catalog import COLUMNS, EVENTS, ID_FIELDS, EventType, aggregate_id, parse_event_data


@dataclass(frozen=True)
class Origin:
    """The origin of events: host, bank, user, and time (aware UTC)."""

    host: UUID
    bank: UUID
    user: UUID
    at: datetime

    @cached_property
    def texts(self) -> tuple[str, str, str, str]:
        """Host, bank, user and time as texts, as events hold them."""
        return str(self.host), str(self.bank), str(self.user), self.at.isoformat()


def build_offer(
    origin: Origin,
    event: EventType,
    parts: tuple[object, ...],
    data: Mapping[str, Any],
    *,
    nth: str = "1",
    identity: UUID | None = None,
) -> dict[str, Any]:
    """Return one event in the form the log's functions take, with unchecked data, for the hot path.

    `data` may hold any JSON-like value, ids and times included. `parts` are the aggregate id's parts after host and
    bank. `nth` is the version where it is known; else it makes the event's id unique within the aggregate. `identity`
    is the event's id where it does not follow from `nth`: commands have one, so that two of them with one version are
    two events.
    """
    host, bank, user, at = origin.texts
    subject = aggregate_id(host, bank, *parts)
    return {
        "id": str(identity or event_id(origin.host, subject, nth)),
        "type": event.value,
        "aggregate": EVENTS[event].aggregate.value,
        "subject": subject,
        "bank": bank,
        "user": user,
        "ts": at,
        "version": int(nth) if nth.isdecimal() else None,
        "data": data,
    }


def build_version(
    origin: Origin, event: EventType, ids: tuple[object, ...], version: int, **told: Any
) -> dict[str, Any]:
    """Return the event that gives the aggregate of these ids a version, `told` with its ids; the data are unchecked."""
    named = zip(ID_FIELDS[EVENTS[event].aggregate], map(str, ids), strict=True)
    return build_offer(origin, event, ids, {**dict(named), **told}, nth=str(version))


def build_command(
    origin: Origin, event: EventType, fields: Mapping[str, Any], *, version: int = 1, identity: UUID | None = None
) -> dict[str, Any]:
    """Return an event in the form the log's functions take, with checked data (fields by wire names, ids included).

    Raises InvalidEvent for data the catalog does not know.
    """
    named = {"hostId": str(origin.host), "bankId": str(origin.bank), **fields}
    checked = parse_event_data(event, named).model_dump(mode="json", by_alias=True, exclude_unset=True)
    parts = tuple(checked.get(field) for field in ID_FIELDS[EVENTS[event].aggregate])
    return build_offer(origin, event, parts, _without_columns(checked), nth=str(version), identity=identity)


def _without_columns(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in COLUMNS}
