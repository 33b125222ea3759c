"""Offers what was read from a log again, to a log: what tests of the log compare with."""

from collections.abc import Mapping
from typing import Any

from store.log.catalog import COLUMNS, EVENTS, ID_FIELDS, EventType, aggregate_id, parse_event_data

#: The attributes that every envelope has; further ones are the event's metadata.
ATTRIBUTES = frozenset(
    (
        *("specversion", "id", "source", "type", "subject", "time", "datacontenttype"),
        *("host", "user", "nonce", "aggregatetype", "aggregateversion", "data"),
    )
)


def build_reoffer(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CloudEvent of a log in the form that the log's functions take, with checked data."""
    kind, told = EventType(whole["type"]), whole["data"]
    data = parse_event_data(kind, told)
    spec = EVENTS[kind]
    parts = [told.get(name) for name in ("hostId", "bankId", *ID_FIELDS[spec.aggregate])]
    assert whole["specversion"] == "1.0"
    assert whole["aggregatetype"] == spec.aggregate
    assert whole["subject"] == aggregate_id(*parts)
    assert (whole["host"], whole["aggregateversion"]) == (str(data.host_id), data.new_aggregate_version)
    metadata = {name: value for name, value in whole.items() if name not in ATTRIBUTES}
    return {
        "id": whole["id"],
        "type": kind.value,
        "aggregate": whole["aggregatetype"],
        "subject": whole["subject"],
        "bank": str(data.bank_id),
        "user": whole["user"],
        "ts": whole["time"],
        "version": whole["aggregateversion"],
        "data": _without_columns(told),
        **({"metadata": metadata} if metadata else {}),
    }


def _without_columns(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in COLUMNS}
