"""The state machine of one delivery to a Memory Gateway, as pure rules.

    pending -> adding -> added -> flushing -> flushed
                  |-> add_failed, add_unknown    |-> flush_failed          pending -> skipped

`add` is not idempotent on the other side, so a call whose outcome is unknown is never repeated. What is known
not to have been processed (no connection was made; 429 with Retry-After) may be, if the settings say so.
Source: seed 000 (Memory Gateway client); the retry of unsent calls is a stated deviation from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from afterturn_client.errors import GatewayError
from afterturn_client.gateway import GatewayMessage

from workers.settings import GatewayRetry

#: The sender's name for the agent's messages, as the seed fixes it.
AGENT_SENDER = "beaver"
TOO_MANY_REQUESTS = 429


class Event(StrEnum):
    """The names of the audit rows that deliveries write."""

    ADD_SUCCEEDED = "memory_gateway_add_succeeded"
    ADD_FAILED = "memory_gateway_add_failed"
    ADD_UNKNOWN = "memory_gateway_add_unknown"
    FLUSH_SUCCEEDED = "memory_gateway_flush_succeeded"
    FLUSH_FAILED = "memory_gateway_flush_failed"


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """One message of a turn: role, content, and its time (aware)."""

    role: str
    content: str = field(repr=False)
    at: datetime


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """The outcome of an attempt: the row's status and the audit row.

    `back`: the status to return to when the call may be repeated.
    """

    status: str
    event: Event
    payload: dict[str, Any]
    category: str | None = None
    reason: str | None = None
    back: str | None = None


def build_delivery(turn: Sequence[TranscriptMessage], user_id: str) -> tuple[GatewayMessage, GatewayMessage] | None:
    """Return the two messages of a turn: the user's original prompt and the agent's final text.

    Several user messages before the final text are one prompt, joined by a blank line. None when the turn lacks
    either. Times are epoch milliseconds, positive, the second never before the first.
    """
    answers = [n for n, message in enumerate(turn) if message.role == "assistant" and message.content.strip()]
    if not answers:
        return None
    prompt = [message for message in turn[: answers[-1]] if message.role == "user" and message.content.strip()]
    if not prompt:
        return None
    asked_at, answer = _epoch_ms(prompt[0].at), turn[answers[-1]]
    text = "\n\n".join(message.content for message in prompt)
    return (
        GatewayMessage(user_id, "user", asked_at, text),
        GatewayMessage(AGENT_SENDER, "assistant", max(asked_at, _epoch_ms(answer.at)), answer.content),
    )


def after_add(session: str, error: GatewayError | None, retry: GatewayRetry) -> AttemptOutcome:
    """Return the outcome of an answered `add`; `session` is its id here, as the audit has it, here and below."""
    where = {"gateway_session": session}
    if error is None:
        return AttemptOutcome("added", Event.ADD_SUCCEEDED, {**where, "messages": 2})
    if error.unknown:
        return unknown_add(session, error.category)
    ending = AttemptOutcome("add_failed", Event.ADD_FAILED, where, back="pending")
    return _failed_ending(ending, error, retry)


def unknown_add(session: str, category: str) -> AttemptOutcome:
    """Return the outcome of an `add` without an answer: unknown, for an operator to settle."""
    payload = {"gateway_session": session, "operation": "add", "category": category}
    return AttemptOutcome(
        "add_unknown", Event.ADD_UNKNOWN, payload, category, "outcome unknown: the gateway may have it"
    )


def after_flush(session: str, error: GatewayError | None, retry: GatewayRetry) -> AttemptOutcome:
    """Return the outcome of an answered `flush`."""
    where = {"gateway_session": session}
    if error is None:
        return AttemptOutcome("flushed", Event.FLUSH_SUCCEEDED, where)
    ending = AttemptOutcome("flush_failed", Event.FLUSH_FAILED, {**where, "add_succeeded": True}, back="added")
    return _failed_ending(ending, error, retry)


def fail_add(session: str, category: str, reason: str, back: str | None = None) -> AttemptOutcome:
    """Return the outcome of an `add` that was not sent; `back`: the status from which it may be tried again."""
    payload = {"gateway_session": session, "operation": "add", "category": category}
    return AttemptOutcome("add_failed", Event.ADD_FAILED, payload, category, reason, back)


def fail_flush(session: str, category: str, reason: str, back: str | None = None) -> AttemptOutcome:
    """Return the outcome of a `flush` of an added turn that was not sent, or was not answered."""
    payload = {"gateway_session": session, "add_succeeded": True, "operation": "flush", "category": category}
    return AttemptOutcome("flush_failed", Event.FLUSH_FAILED, payload, category, reason, back)


def asks_for_time(error: GatewayError) -> bool:
    """Return whether the gateway refused the call with 429 and Retry-After: it processed nothing."""
    return error.status == TOO_MANY_REQUESTS and error.retry_after is not None


def _failed_ending(ending: AttemptOutcome, error: GatewayError, retry: GatewayRetry) -> AttemptOutcome:
    """Return the outcome with the error's details; `back` stays only where the call cannot have been processed."""
    payload = {**ending.payload, "operation": error.operation, "category": error.category}
    if error.status is not None:
        payload["http_status"] = error.status
    again = retry is GatewayRetry.UNSENT and error.unsent
    return replace(
        ending,
        payload=payload,
        category=error.category,
        reason=_format_reason(error),
        back=ending.back if again else None,
    )


def _format_reason(error: GatewayError) -> str:
    if error.status is not None:
        return f"status {error.status}"
    return "no connection was made" if error.unsent else "no answer came"


def _epoch_ms(moment: datetime) -> int:
    return max(1, int(moment.timestamp() * 1000))
