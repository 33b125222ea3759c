"""The second memory layer of a hybrid agent: recall before the run, storage after it; it never breaks a run.

`MemoryGatewayService` calls a Memory Gateway itself, as seed 000 says; `AfterturnLayer` recalls from Afterturn and
stores turns there, and Afterturn delivers them. Neither reads the curated files. Every failure here is an event.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack

from afterturn_client.audit import AuditEvent, EventName
from afterturn_client.calls import RecallOptions
from afterturn_client.client import AsyncAfterturn
from afterturn_client.errors import (
    ApiError,
    GatewayError,
    InvalidAnswerError,
    InvalidRequestError,
    UnknownOutcomeError,
    UnreachableError,
)
from afterturn_client.gateway import SESSION_PREFIX, GatewayClient, GatewayMessage
from afterturn_client.reference import frame, is_frame
from afterturn_client.settings import GatewaySettings
from afterturn_client.turns import Message

T = TypeVar("T")

#: The sender's name for the agent's messages, as the seed fixes it.
AGENT_SENDER = "beaver"
#: Most UTF-8 bytes of a question; of a longer prompt, only the beginning is used.
LONGEST_QUESTION = 16_384
_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A run that ended normally: the user's own words, the agent's final text, and when (aware times).

    Neither text has a frame of recalled memory (`reference.strip_frames`), which would be stored as if it was said.
    """

    session_id: str
    turn_id: str
    prompt: str = field(repr=False)
    answer: str = field(repr=False)
    asked_at: datetime
    answered_at: datetime


@dataclass(frozen=True, slots=True)
class Recall:
    """Recalled memory as the content of one message for the prompt, or None; and the events of the recall."""

    reference: str | None = field(repr=False)
    events: Sequence[AuditEvent]


class Layer(Protocol):
    """A second memory layer. Its calls report failures as events, and do not raise."""

    async def recall_before_run(self, session_id: str, prompt: str) -> Recall:
        """Return recalled memory on the prompt."""
        ...

    async def persist_after_run(self, turn: FinishedTurn) -> Sequence[AuditEvent]:
        """Store the turn, once; return its events."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class MemoryGatewayService:
    """A Memory Gateway, called directly: one search before a run; one add and one flush after it, never repeated."""

    def __init__(self, settings: GatewaySettings, client: GatewayClient) -> None:
        self._settings = settings
        self._client = client

    @classmethod
    def open(cls, settings: GatewaySettings) -> Self:
        """Return the service with a client of its own."""
        client = GatewayClient(
            settings.base_url,
            settings.user_id,
            settings.user_key.reveal(),
            settings.app_id,
            settings.project_id,
            settings.timeout_seconds,
            allow_http=settings.allow_http,
        )
        return cls(settings, client)

    async def recall_before_run(self, session_id: str, prompt: str) -> Recall:
        """Search the gateway, unless the prompt is blank. `results` in the event counts those that have a text."""
        if not prompt.strip():
            return Recall(None, ())
        scopes = [scope.value for scope in self._settings.scope]
        outcome = await _attempt_call("search", self._client.search(session_id, prompt, scopes, self._settings.top_k))
        if isinstance(outcome, LayerFailure):
            return Recall(None, [AuditEvent(EventName.GATEWAY_RECALL_FAILED, session_id, outcome.payload())])
        noted = {"scopes": scopes, "results": len(outcome.value)}
        reference = frame([asdict(hit) for hit in outcome.value], form="json")
        return Recall(reference, [AuditEvent(EventName.GATEWAY_RECALL_SUCCEEDED, session_id, noted)])

    async def persist_after_run(self, turn: FinishedTurn) -> Sequence[AuditEvent]:
        """Add the two messages, and flush if that succeeded. A turn without a prompt or an answer is not added."""
        messages = self._messages(turn)
        if messages is None:
            return ()
        where = {"gateway_session": SESSION_PREFIX + turn.session_id}
        added = await _attempt_call("add", self._client.add(turn.session_id, messages))
        if isinstance(added, LayerFailure):
            return [AuditEvent(EventName.GATEWAY_ADD_FAILED, turn.session_id, where | added.payload())]
        noted = AuditEvent(EventName.GATEWAY_ADD_SUCCEEDED, turn.session_id, {**where, "messages": len(messages)})
        flushed = await _attempt_call("flush", self._client.flush(turn.session_id))
        if isinstance(flushed, LayerFailure):
            failed = {**where, "add_succeeded": True, **flushed.payload()}
            return [noted, AuditEvent(EventName.GATEWAY_FLUSH_FAILED, turn.session_id, failed)]
        return [noted, AuditEvent(EventName.GATEWAY_FLUSH_SUCCEEDED, turn.session_id, where)]

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.aclose()

    def _messages(self, turn: FinishedTurn) -> tuple[GatewayMessage, GatewayMessage] | None:
        if _is_one_sided(turn):
            return None
        asked = max(1, _epoch_ms(turn.asked_at))
        return (
            GatewayMessage(self._settings.user_id, "user", asked, turn.prompt),
            GatewayMessage(AGENT_SENDER, "assistant", max(asked, _epoch_ms(turn.answered_at)), turn.answer),
        )


class AfterturnLayer:
    """Afterturn as the second layer: a recall before a run, the turn stored after it, durable at once.

    Afterturn then delivers to a Memory Gateway, if one is configured there (`gateway` as in NewTurn). A recall waits at
    most `deadline_s` seconds, storing a turn as the client's retry policy says. `options` narrow recall; a `bank` among
    them is also that of the turns.
    """

    def __init__(
        self,
        client: AsyncAfterturn,
        *,
        gateway: bool | None = None,
        deadline_s: float = 10.0,
        **options: Unpack[RecallOptions],
    ) -> None:
        self._client = client
        self._gateway = gateway
        self._deadline_s = deadline_s
        self._options = options

    async def recall_before_run(self, session_id: str, prompt: str) -> Recall:
        """Recall from the bank by the prompt; the reference is the service's framed message."""
        if not prompt.strip():
            return Recall(None, ())
        outcome = await _attempt_call("recall", self._recall(session_id, prompt))
        if isinstance(outcome, LayerFailure):
            return Recall(None, [AuditEvent(EventName.RECALL_FAILED, session_id, outcome.payload())])
        reference, results = outcome.value
        return Recall(reference, [AuditEvent(EventName.RECALL_SUCCEEDED, session_id, {"results": results})])

    async def persist_after_run(self, turn: FinishedTurn) -> Sequence[AuditEvent]:
        """Store the turn; it is durable when this returns without a failure."""
        if _is_one_sided(turn):
            return ()
        messages = [
            Message("user", turn.prompt, timestamp=turn.asked_at),
            Message("assistant", turn.answer, timestamp=max(turn.asked_at, turn.answered_at)),
        ]
        outcome = await _attempt_call(
            "add_turn",
            self._client.add_turn(
                turn.session_id,
                messages,
                turn_id=turn.turn_id,
                bank=self._options.get("bank"),
                gateway=self._gateway,
            ),
        )
        if isinstance(outcome, LayerFailure):
            return [AuditEvent(EventName.HANDOVER_FAILED, turn.session_id, outcome.payload())]
        return [AuditEvent(EventName.HANDOVER_SUCCEEDED, turn.session_id, {"position": outcome.value.position})]

    async def aclose(self) -> None:
        """Do nothing: the client belongs to the caller, who closes it."""

    async def _recall(self, session_id: str, prompt: str) -> tuple[str | None, int]:
        options: RecallOptions = {"session_id": session_id, **self._options}
        async with asyncio.timeout(self._deadline_s):
            answer = await self._client.recall(_question_of(prompt), **options)
        content = None if answer.reference is None else answer.reference["content"]
        if content is not None and not is_frame(content):
            raise InvalidAnswerError("recall: the reference is not framed")
        return content, len(answer.results)


@dataclass(frozen=True, slots=True)
class LayerSuccess(Generic[T]):
    """A call that succeeded, and its result."""

    value: T = field(repr=False)


@dataclass(frozen=True, slots=True)
class LayerFailure:
    """A call that failed; `outcome_unknown`: a write may have happened all the same."""

    operation: str
    category: str
    http_status: int | None = None
    outcome_unknown: bool = False

    def payload(self) -> dict[str, Any]:
        """Return the failure as an event's payload, without fields that are not known."""
        return {name: value for name, value in asdict(self).items() if value not in {None, False}}


async def _attempt_call(operation: str, call: Awaitable[T]) -> LayerSuccess[T] | LayerFailure:
    try:
        return LayerSuccess(await call)
    except Exception as error:  # noqa: BLE001 -- the promise of this module: memory never breaks a run
        return _build_failure(operation, error)


def _build_failure(operation: str, error: Exception) -> LayerFailure:
    if isinstance(error, GatewayError):
        return LayerFailure(operation, error.category, error.status, error.unknown and operation != "search")
    if isinstance(error, ApiError):
        category = "unauthorized" if error.status == _UNAUTHORIZED else "http_error"
        return LayerFailure(operation, category, error.status)
    categories: dict[type[Exception], str] = {
        UnreachableError: "connection",
        UnknownOutcomeError: "no_answer",
        InvalidAnswerError: "invalid_response",
        InvalidRequestError: "invalid_request",
        TimeoutError: "timeout",
    }
    category = next((name for kind, name in categories.items() if isinstance(error, kind)), "unexpected")
    return LayerFailure(operation, category, outcome_unknown=isinstance(error, UnknownOutcomeError))


def _is_one_sided(turn: FinishedTurn) -> bool:
    return not (turn.prompt.strip() and turn.answer.strip())


def _question_of(prompt: str) -> str:
    asked = prompt.encode(errors="surrogatepass")
    return prompt if len(asked) <= LONGEST_QUESTION else asked[:LONGEST_QUESTION].decode(errors="ignore")


def _epoch_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
