"""Parses messages of a turn queue: dramatiq messages whose one argument is a CloudEvents envelope. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from afterturn_client.envelopes import RECALL
from afterturn_client.message_times import read_time
from pydantic import BaseModel, ConfigDict, Field

from producers.errors import FieldProblem, Invalid, TooLarge
from producers.service.bodies import parse_body
from producers.service.json_values import limit_json_now
from store.authority import EPOCH, read_epoch
from store.tracing import read_traceparent

#: Fields in which a publisher might name a tenant; they are ignored, because the queue decides the tenant.
TENANT_FIELDS = frozenset({"tenant", "host"})


class Envelope(BaseModel):
    """A CloudEvents 1.0 envelope; unknown attributes are extensions, and ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    specversion: Literal["1.0"]
    id: Annotated[str, Field(min_length=1, max_length=256)]
    source: Annotated[str, Field(min_length=1, max_length=1024)]
    type: Literal["afterturn.turn.completed", "afterturn.turn.items", "afterturn.recall.requested"]
    data: dict[str, Any] = Field(repr=False)
    #: The extension attribute for distributed tracing; an invalid one is ignored.
    traceparent: Any = Field(default=None, repr=False)
    #: When the message was made; one that is no time is ignored.
    time: Any = None


class MessageArguments(BaseModel):
    """The part of a dramatiq message that is read: its one argument."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    args: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1, repr=False)]
    #: When it was published, in epoch milliseconds; what is no time counts as long ago.
    message_timestamp: Any = None


@dataclass(frozen=True, slots=True)
class Published:
    """A published message: the body of the HTTP call of its type; `job`: the id of a question's job; its trace.

    `at`: when it was published, as its publisher says; `offered_at`: the time of its envelope, where it has one.
    """

    kind: str
    body: Mapping[str, Any] = field(repr=False)
    job: UUID | None = None
    traceparent: str | None = None
    at: datetime = EPOCH
    offered_at: datetime | None = None


def read_message(raw: bytes, most_bytes: int) -> Published:
    """Return the content of a message. Raises Invalid, TooLarge."""
    if len(raw) > most_bytes:
        raise TooLarge("message", "max_request_bytes", most_bytes)
    limit_json_now(raw)
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise Invalid(FieldProblem("", "is not JSON")) from None
    message = parse_body(MessageArguments, value)
    envelope = parse_body(Envelope, message.args[0])
    body = {name: one for name, one in envelope.data.items() if name not in TENANT_FIELDS}
    job = _read_job(envelope.id) if envelope.type == RECALL else None
    at, offered_at = read_epoch(message.message_timestamp, 1000), read_time(envelope.time)
    return Published(envelope.type, body, job, read_traceparent(envelope.traceparent), at, offered_at)


def _read_job(name: str) -> UUID:
    try:
        return UUID(name)
    except ValueError:
        raise Invalid(FieldProblem("id", "of a question must be a uuid: it names the job")) from None
