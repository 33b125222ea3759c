"""One event as it is offered to the log: a CloudEvents 1.0 envelope around its data.

The log itself numbers it: position, nonce and, for a session's history, the version.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from store.events.catalog import EventType, aggregate_id, aggregate_type
from store.identity import event_id


@dataclass(frozen=True, slots=True)
class Origin:
    """Where events come from: whose memory, in which bank, by whom, when (aware UTC)."""

    host: UUID
    bank: UUID
    user: UUID
    at: datetime


def offer(
    origin: Origin, event: EventType, parts: tuple[object, ...], data: Mapping[str, Any], *, nth: str = "1"
) -> dict[str, Any]:
    """Return one event in the form the log's functions take.

    `parts` are the aggregate id's parts after host and bank; `nth` tells apart events of one aggregate whose
    version only the log knows, and is the version where it is known. Data is camelCase and holds no vector.
    """
    subject = aggregate_id(origin.host, origin.bank, *parts)
    identity = event_id(origin.host, subject, nth)
    at = origin.at.isoformat()
    version = int(nth) if nth.isdecimal() else None
    versions = {} if version is None else {"aggregateVersion": version - 1, "newAggregateVersion": version}
    envelope = {
        "specversion": "1.0",
        "id": str(identity),
        "source": "/afterturn",
        "type": event.value,
        "subject": subject,
        "time": at,
        "datacontenttype": "application/json",
        "host": str(origin.host),
        "user": str(origin.user),
        "aggregatetype": aggregate_type(event),
        "data": {"hostId": str(origin.host), "bankId": str(origin.bank), **data, **versions},
    }
    return {
        "id": str(identity),
        "type": event.value,
        "aggregate": envelope["aggregatetype"],
        "subject": subject,
        "bank": str(origin.bank),
        "user": str(origin.user),
        "ts": at,
        "version": version,
        "payload": envelope,
    }
