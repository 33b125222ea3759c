"""The gateway stage: each turn is handed to its tenant's or bank's Memory Gateway at most once, in session order."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from afterturn_client.errors import GatewayError, InvalidRequestError
from afterturn_client.gateway import GatewayClient, GatewayMessage
from opentelemetry.trace import SpanKind

from producers.service.gateway_clients import GatewayClients, TargetUnusable
from producers.service.gateway_recall import record_outcome
from store.database import Database
from store.errors import LeaseLost
from store.ledger.circuit_breakers import LONGEST_PAUSE_S, GatePolicy, Passage, put_off
from store.ledger.deliveries import DeliveryWriter
from store.ledger.ledger import Claim, LedgerRow, Outcome
from store.ledger.stages import Stage
from store.tenancy.gateway_targets import CHAT, UNSET, Destination, GatewayTarget
from store.tracing import fail_span, trace_operation
from workers import gateway_machine as machine
from workers.errors import OutcomeUnrecorded
from workers.metrics import GATEWAY_CALLS, GATEWAY_SECONDS, GATEWAY_WAITS
from workers.retry import RetryPolicy
from workers.settings import DeliverySettings, GatewayRetry
from workers.stage_work import ClaimSize, Worked

#: Seconds a turn waits in memory for the rate limit; one that would wait longer is put back.
PATIENCE_S = 5.0
#: Seconds over which rows that were put back return one after the other.
SPREAD_S = 2.0

#: The shortest pause in seconds, even where a gateway asks for less.
SHORTEST_PAUSE_S = 1.0

#: Turns that the rate limit of a target lets through at once after a pause.
BURST = 10.0
#: Statuses of a row for which a call was made, or may have been.
BEGUN = frozenset({"adding", "added", "flushing"})


@dataclass(frozen=True, slots=True)
class Handover:
    """One turn on its way to a gateway; `session` is its session's name there."""

    claim: Claim
    row: LedgerRow
    target: GatewayTarget
    session: str
    client: GatewayClient
    passage: Passage

    @property
    def conversation(self) -> str:
        """The session's name without the prefix, which the client adds."""
        return self.session.removeprefix(CHAT)


@dataclass(frozen=True, slots=True)
class GatewayStage:
    """Delivers turns, each to the target it was accepted for, by the rules of `gateway_machine`.

    While the gate of a target is shut (its circuit breaker is open, the gateway asked for a pause, or the rate limit
    is reached), its turns wait in the ledger, and that counts as no attempt. Turns of other targets go on.
    """

    database: Database
    deliveries: DeliveryWriter
    clients: GatewayClients
    settings: DeliverySettings
    retry_policy: RetryPolicy
    chance: Callable[[], float] = random.random
    stage: ClassVar[Stage] = Stage.GATEWAY

    @property
    def claim_size(self) -> ClaimSize:
        """The size of a claim: one turn a session, whose row alone records what was sent.

        Running calls get `stop_seconds` to end when the worker stops: the outcome of a cancelled call is unknown.
        """
        return ClaimSize(streams=self.settings.at_once, rows=1, grace_s=self.settings.stop_seconds)

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Deliver the first waiting turn of a session, or put it off."""
        claim = claims[0]
        row = claim.rows[0]
        if row.status in BEGUN:
            return await _finish_after_call(self._resume(claim, row))
        return await self._begin(claim, row)

    async def _resume(self, claim: Claim, row: LedgerRow) -> Worked:
        """Continue a delivery that a worker left; a call then under way has an unknown outcome and is not repeated."""
        to = await self.deliveries.destination(claim, row)
        session = name_in_audit(row)
        if row.status == "adding":
            return await self._finish(claim, row, machine.unknown_add(session, "unknown"))
        if row.status == "flushing":
            died = machine.fail_flush(session, "unknown", "the worker died while it waited")
            return await self._finish(claim, row, died)
        if to is None or to.target.unset_at:
            return await self._finish(claim, row, machine.fail_flush(session, "unset", UNSET))
        if not to.session:
            return await self._finish(claim, row, machine.fail_flush(session, "erased", "its session was erased"))
        return await self._resume_flush(claim, row, to)

    async def _resume_flush(self, claim: Claim, row: LedgerRow, to: Destination) -> Worked:
        """Flush a turn that was added, when its target's gate lets the call through."""
        try:
            client = self.clients.client(to.target)
        except TargetUnusable as error:
            unusable = machine.fail_flush(name_in_audit(row), "unusable_target", str(error), back="added")
            return await self._finish(claim, row, unusable)
        passage = await self._enter(to.target)
        if not passage.granted:
            return await self._put_off(claim, row, "added", passage.wait_s, to.target)
        return await self._flush(Handover(claim, row, to.target, to.session, client, passage))

    async def _begin(self, claim: Claim, row: LedgerRow) -> Worked:
        """Commit the status `adding`, then add the turn."""
        to = await self.deliveries.destination(claim, row)
        if to is None or to.target.unset_at:
            return await self._skip(claim, row, UNSET, "unset")
        turn = await self.deliveries.messages(claim, row)
        transcript = [machine.TranscriptMessage(m.role, m.content, m.event_date) for m in turn]
        sent = machine.build_delivery(transcript, to.target.user.user_id)
        if sent is None or not to.session:
            return await self._skip(claim, row, "the turn has no user text or no final answer")
        try:
            client = self.clients.client(to.target)
        except TargetUnusable as error:
            unusable = machine.fail_add(name_in_audit(row), "unusable_target", str(error), back="pending")
            return await self._finish(claim, row, unusable)
        passage = await self._enter(to.target)
        if not passage.granted:
            return await self._put_off(claim, row, "pending", passage.wait_s, to.target)
        await self.deliveries.step(claim, row.item_id, "adding")
        way = Handover(claim, row, to.target, to.session, client, passage)
        return await _finish_after_call(self._add(way, sent))

    async def _add(self, way: Handover, sent: tuple[GatewayMessage, GatewayMessage]) -> Worked:
        claim, row, session = way.claim, way.row, name_in_audit(way.row)
        # Without a URL, the target is this service itself: by the turn's id it does not store the turn a second time.
        turn_id = str(row.turn_id) if way.target.user.base_url is None else None
        try:
            error = await _make_call("add", way.client.add(way.conversation, sent, turn_id=turn_id))
        except InvalidRequestError:
            refused = machine.fail_add(session, "invalid_request", "it cannot be written as a request")
            return await self._finish(claim, row, refused)
        await self._report(way.target, error)
        if (pause_s := self._pause_s(error, way)) is not None:
            return await self._put_off(claim, row, "pending", pause_s, way.target)
        ending = machine.after_add(session, error, self.settings.retry)
        if ending.status != "added":
            return await self._finish(claim, row, ending)
        return await self._flush(way, ending)

    async def _flush(self, way: Handover, added: machine.AttemptOutcome | None = None) -> Worked:
        """Commit the status `flushing` together with the outcome of the add; then flush the turn."""
        audit = () if added is None else (added.event, added.payload)
        await self.deliveries.step(way.claim, way.row.item_id, "flushing", *audit)
        error = await _make_call("flush", way.client.flush(way.conversation))
        await self._report(way.target, error)
        if (pause_s := self._pause_s(error, way)) is not None:
            return await self._put_off(way.claim, way.row, "added", pause_s, way.target)
        ending = machine.after_flush(name_in_audit(way.row), error, self.settings.retry)
        return await self._finish(way.claim, way.row, ending)

    async def _enter(self, target: GatewayTarget) -> Passage:
        """Ask the target's gate, and wait for the rate limit if the wait is at most `PATIENCE_S`."""
        passage = await self.clients.gate(target).enter(PATIENCE_S)
        if passage.granted and passage.wait_s > 0:
            GATEWAY_WAITS.labels("turn").inc()
            await asyncio.sleep(passage.wait_s)
        return passage

    async def _report(self, target: GatewayTarget, error: GatewayError | None) -> None:
        await record_outcome(self.clients.gate(target), error)

    def _pause_s(self, error: GatewayError | None, way: Handover) -> float | None:
        """Return how many seconds a turn waits after a call that the gateway cannot have processed.

        None: the call counts as an attempt. 0: the pause of the open circuit breaker.
        """
        if error is None or self.settings.retry is not GatewayRetry.UNSENT:
            return None
        if machine.asks_for_time(error):
            return error.retry_after
        away = error.unsent and (way.passage.probing or self.clients.gate(way.target).failing)
        return 0.0 if away else None

    async def _put_off(self, claim: Claim, row: LedgerRow, status: str, wait_s: float, target: GatewayTarget) -> Worked:
        """Put off the turn, and all rows that wait for its target, without counting an attempt."""
        GATEWAY_WAITS.labels("shut").inc()
        wait = wait_s or self.clients.gate(target).shut_s
        wait = min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, wait))
        retry_in = timedelta(seconds=wait + SPREAD_S * self.chance())
        await put_off(self.database, claim, row.item_id, status, retry_in, target=target.target_id)
        return Worked([Outcome(row.item_id, status, None, None, retry_in)])

    async def _finish(self, claim: Claim, row: LedgerRow, ending: machine.AttemptOutcome) -> Worked:
        """Write the outcome, or the time of the next attempt: the row and its audit row in one transaction."""
        outcome = Outcome(row.item_id, ending.status, ending.category, ending.reason)
        if ending.back is not None and row.attempts < self.retry_policy.max_attempts:
            category, reason = ending.category or "", ending.reason or ""
            outcome = self.retry_policy.retry_row(row, category, reason, status=ending.back)
            await self.deliveries.end(claim, outcome)
        else:
            await self.deliveries.end(claim, outcome, ending.event, ending.payload)
        return Worked([outcome])

    async def _skip(self, claim: Claim, row: LedgerRow, reason: str, category: str | None = None) -> Worked:
        outcome = Outcome(row.item_id, "skipped", category, reason)
        await self.deliveries.end(claim, outcome)
        return Worked([outcome])


def name_in_audit(row: LedgerRow) -> str:
    """Return what an audit row calls a session: by its id here, so that no name outlives an erasure."""
    return str(row.session_id)


def gate_policy(settings: DeliverySettings) -> GatePolicy:
    """Return the policy of every target's gate: circuit breaker and rate limit."""
    return GatePolicy(
        threshold=settings.breaker_failures,
        cooldown_s=settings.breaker_seconds,
        rate=settings.turns_per_second,
        burst=BURST,
    )


async def _finish_after_call(work: Awaitable[Worked]) -> Worked:
    """Await work during which a call is made; raise OutcomeUnrecorded on errors, so that the row never looks unsent."""
    try:
        return await work
    except LeaseLost:
        raise
    except Exception as error:
        raise OutcomeUnrecorded("gateway", "a call was made and its outcome could not be written") from error


async def _make_call(operation: str, call: Awaitable[None]) -> GatewayError | None:
    """Make one call, time and count it; return its error, None when it succeeded."""
    started = time.monotonic()
    error: GatewayError | None = None
    with trace_operation(f"gateway {operation}", kind=SpanKind.CLIENT) as span:
        try:
            await call
        except GatewayError as caught:
            error = caught
            fail_span(span, caught.category)
    GATEWAY_SECONDS.labels(operation).observe(time.monotonic() - started)
    GATEWAY_CALLS.labels(operation, error.category if error else "ok").inc()
    return error
