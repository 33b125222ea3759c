"""The messages of a turn queue: a CloudEvents envelope inside a message of dramatiq. No I/O.

A publisher in another language needs these formats alone (docs/queue.md of the service).
"""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from afterturn_client.errors import InvalidRequestError
from afterturn_client.moments import format_utc
from afterturn_client.tracing import current_traceparent

#: `type` of an envelope, by what its `data` are: the body of the HTTP call of the same name.
TURN = "afterturn.turn.completed"
TURN_ITEMS = "afterturn.turn.items"
RECALL = "afterturn.recall.requested"
#: Queue and actor that take an envelope of a type.
PLACES: Mapping[str, tuple[str, str]] = {
    TURN: ("turns", "accept_turn"),
    TURN_ITEMS: ("turns", "accept_turn"),
    RECALL: ("recalls", "answer_recall"),
}
#: The service refuses longer ones (`api.max_request_bytes`), and they would wait for that in vain.
MOST_BYTES = 2_097_152


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """One message: the queue it goes to, its id there, the id of its envelope, and the JSON itself."""

    queue: str
    message_id: str
    event_id: str
    body: bytes = field(repr=False)


def wrap_event(kind: str, data: Mapping[str, Any], source: str) -> QueueMessage:
    """Return the queue message with this data. Raises InvalidRequestError beyond MOST_BYTES or for invalid JSON."""
    queue, actor = PLACES[kind]
    event_id, message_id = str(uuid.uuid4()), str(uuid.uuid4())
    event = {
        "specversion": "1.0",
        "id": event_id,
        "source": source,
        "type": kind,
        "time": format_utc(datetime.now(UTC)),
        "datacontenttype": "application/json",
        "data": data,
    }
    if traceparent := current_traceparent():
        event["traceparent"] = traceparent
    message = {
        "queue_name": queue,
        "actor_name": actor,
        "args": [event],
        "kwargs": {},
        "options": {"redis_message_id": message_id},
        "message_id": event_id,
        "message_timestamp": int(time.time() * 1000),
    }
    try:
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError):
        raise InvalidRequestError("a turn or a question must be JSON, without lone surrogates") from None
    if len(body) > MOST_BYTES:
        raise InvalidRequestError(f"a message of a turn queue has at most {MOST_BYTES} bytes")
    return QueueMessage(queue, message_id, event_id, body)
