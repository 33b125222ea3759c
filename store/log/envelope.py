"""An event before it is appended: its data and the CloudEvents attributes that are columns.

The log assigns the numbers: position, nonce and, for a session's history, the version. Envelopes are made when events
are read (`afterturn.cloud_event`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from store.errors import InvalidEvent
from store.identity import event_id
from store.log import event_data
from store.log.catalog import (
    BEGINNINGS,
    COLUMNS,
    EVENTS,
    ID_FIELDS,
    Aggregate,
    EventType,
    aggregate_id,
    aggregate_id_of,
    parse_event_data,
    parse_event_type,
)
from store.log.storable import check_text

#: The CloudEvents source of this service's own events.
SOURCE = "/afterturn"
#: Bytes of a whole event that comes from elsewhere, as JSON: twice the largest request that the settings allow.
EVENT_BYTES_LIMIT = 134_217_728


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


#: What CloudEvents allows an extension attribute to be: one value, never a list or an object.
Attribute = bool | int | Annotated[str, AfterValidator(check_text)] | None


class CloudEvent(BaseModel):
    """The envelope on the wire; extension attributes it does not name are kept as the event's metadata."""

    model_config = ConfigDict(frozen=True, extra="allow")

    __pydantic_extra__: dict[str, Attribute] = Field(init=False)

    specversion: Literal["1.0"]
    id: UUID
    source: Annotated[str, Field(min_length=1), AfterValidator(check_text)]
    type: str
    subject: str
    time: AwareDatetime
    datacontenttype: Literal["application/json"] = "application/json"
    host: UUID
    user: UUID
    nonce: int | None = None
    aggregatetype: str
    aggregateversion: int = Field(ge=1)
    data: Mapping[str, Any]


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


def build_reoffer(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CloudEvent from elsewhere in the form the log's functions take; the log gives it a new nonce.

    Raises InvalidEvent for JSON that the log cannot store, or when envelope, data and ids contradict each other;
    LegacyEvent for the older family.
    """
    _check_size(whole)
    try:
        event = CloudEvent.model_validate(whole)
    except ValidationError as error:
        raise InvalidEvent(event_data.describe_faults(error)) from None
    kind = parse_event_type(event.type)
    data = parse_event_data(kind, event.data)
    if event.aggregatetype != EVENTS[kind].aggregate:
        raise InvalidEvent(f"{kind.value}: aggregatetype is another")
    if event.subject != aggregate_id_of(Aggregate(event.aggregatetype), event.data) or event.host != data.host_id:
        raise InvalidEvent(f"{kind.value}: subject, host and data name different things")
    if event.aggregateversion != _version_of(kind, data):
        raise InvalidEvent(f"{kind.value}: aggregateversion and newAggregateVersion differ")
    metadata = {name: value for name, value in (event.model_extra or {}).items() if value is not None}
    if event.source != SOURCE:
        metadata["source"] = event.source
    return {
        "id": str(event.id),
        "type": event.type,
        "aggregate": event.aggregatetype,
        "subject": event.subject,
        "bank": str(data.bank_id),
        "user": str(event.user),
        "ts": event.time.isoformat(),
        "version": event.aggregateversion,
        "data": _without_columns(event.data),
        **({"metadata": metadata} if metadata else {}),
    }


def _without_columns(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in COLUMNS}


def _check_size(whole: Mapping[str, Any]) -> None:
    try:
        size = len(orjson.dumps(whole))
    except orjson.JSONEncodeError:
        raise InvalidEvent(
            "an event must be JSON: texts without lone surrogates, integers of at most 64 bits"
        ) from None
    if size > EVENT_BYTES_LIMIT:
        raise InvalidEvent(f"an event has {size} bytes; at most {EVENT_BYTES_LIMIT} are allowed")


def _version_of(event: EventType, data: event_data.EventData) -> int | None:
    if data.new_aggregate_version is None and event in BEGINNINGS:
        return 1
    return data.new_aggregate_version
