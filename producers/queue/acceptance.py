"""Processes one message of a turn queue: accepts it, has it tried again, or rejects it with a reason."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from afterturn_client.envelopes import TURN, TURN_ITEMS
from opentelemetry.trace import SpanKind

from producers import metrics
from producers.errors import FieldProblem, Invalid
from producers.http.error_responses import INTERNAL, describe_error, error_to_wire
from producers.queue.messages import Envelope, MessageArguments, Published, read_message
from producers.service.memory import MemoryFacade
from producers.service.recall_coordinator import RecallJobBody
from producers.service.turns import TurnBody
from producers.turns.requests import AfterTurnBody
from store.authority import act_as_service
from store.database_outage import may_pass
from store.errors import QuotaExceeded
from store.tenancy.keys import Grant
from store.tracing import trace_operation

#: The bodies of messages.
BODIES = (TurnBody, AfterTurnBody, RecallJobBody)


class TryAgain(Exception):
    """The message may be accepted later; it stays in its queue. `counts`: the failure uses up one of its attempts."""

    def __init__(self, reason: str, *, counts: bool = False) -> None:
        super().__init__(reason)
        self.counts = counts


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why a message is never accepted: `code` and `message` as in HTTP, without content."""

    code: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)


def reject(error: Exception) -> Rejection:
    """Count and return the rejection of a message for this error; names that its publisher chose are not in it."""
    metrics.QUEUE_MESSAGES.labels("rejected").inc()
    told = describe_error(Invalid(*map(_hide_names, error.problems)) if isinstance(error, Invalid) else error)
    return Rejection(told.code, told.message, told.details)


def _hide_names(problem: FieldProblem) -> FieldProblem:
    """Return the problem with a path in which only names of our own fields stand, and numbers."""
    steps = (step if step.isdigit() or step in _list_field_names() else "?" for step in problem.field.split("."))
    return FieldProblem(".".join(steps) if problem.field else "", problem.problem)


@cache
def _list_field_names() -> frozenset[str]:
    """Return the names of all fields that a message may have."""
    schemas = [model.model_json_schema() for model in (MessageArguments, Envelope, *BODIES)]
    every = [part for schema in schemas for part in (schema, *schema.get("$defs", {}).values())]
    return frozenset(name for part in every for name in part.get("properties", ()))


@dataclass(slots=True)
class QueueIntake:
    """Accepts the messages of one tenant's queue for that tenant: no field of a message chooses another.

    `most_bytes`: the size limit of a message; `max_attempts`: for one that fails for other reasons than an outage;
    `ensure_tenant` creates the tenant where it has no key yet.
    """

    memory: MemoryFacade
    grant: Grant
    most_bytes: int
    max_attempts: int
    ensure_tenant: Callable[[], Awaitable[object]]
    _ensured: bool = False

    async def accept(self, raw: bytes, failures: int) -> Rejection | None:
        """Accept a message, which is durable when this returns None, or return its rejection.

        `failures`: how often it raised a TryAgain that counts. Raises TryAgain for passing reasons (an outage, a turn
        that another request writes, a rate limit), and for others while attempts are left.
        """
        try:
            published = read_message(raw, self.most_bytes)
            if not self._ensured:
                await self.ensure_tenant()
                self._ensured = True
            trace = trace_operation("process turn queue", kind=SpanKind.CONSUMER, parent=published.traceparent)
            with trace, act_as_service():
                self.memory.begin_call(self.grant, published.at)
                await self._hand_over(published)
        except Exception as error:  # noqa: BLE001 - after an error of any kind the message or its reason is kept
            passing = may_pass(error) or error_to_wire(error).retryable
            if passing or self._has_attempts_left(error, failures):
                metrics.QUEUE_MESSAGES.labels("retried").inc()
                raise TryAgain(type(error).__name__, counts=not passing) from None
            return reject(error)
        metrics.QUEUE_MESSAGES.labels("accepted").inc()
        return None

    async def _hand_over(self, published: Published) -> None:
        if published.kind == TURN:
            await self.memory.intake.add_turn(self.grant, published.body, published.offered_at)
        elif published.kind == TURN_ITEMS:
            await self.memory.lifecycle.keep_turn(self.grant, published.body, published.offered_at)
        elif published.job is not None:
            await self.memory.recalls.request_recall(self.grant, published.body, job=published.job)
        else:
            raise Invalid(FieldProblem("type", "is not known"))

    def _has_attempts_left(self, error: Exception, failures: int) -> bool:
        limited = error_to_wire(error) is INTERNAL or isinstance(error, QuotaExceeded)
        return limited and failures + 1 < self.max_attempts
