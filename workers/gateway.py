"""The gateway stage: each turn is handed to a Memory Gateway at most once, in the order of its session."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from afterturn_client.errors import GatewayError, InvalidRequestError
from afterturn_client.gateway import GatewayClient, GatewayMessage
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from producers.gateway_recall import told
from store.database import Database
from store.delivery import Deliveries
from store.errors import LeaseLost
from store.gates import LONGEST_PAUSE_S, Gate, GatePolicy, Passage, gate_name, put_off
from store.ledger import Claim, LedgerRow, Outcome, Stage
from workers import gateway_machine as machine
from workers.errors import Untold
from workers.metrics import GATEWAY_BREAKER, GATEWAY_CALLS, GATEWAY_SECONDS, GATEWAY_WAITS
from workers.retry import Verdict
from workers.settings import GatewayRetry, GatewaySettings
from workers.stage_work import Shape, Worked

SESSION_NAME = text("""
    select session_name from afterturn.agent_session_history_t
     where host_id = :host and bank_id = :bank and session_id = :session""")

#: A turn whose turn to be sent comes within so many seconds waits for it; one that would wait longer is put off.
PATIENCE_S = 5.0
#: Rows that were put off come back one after the other within so many seconds, not all at once.
SPREAD_S = 2.0

#: No pause is shorter, whatever a gateway that asks for one says, in seconds.
SHORTEST_PAUSE_S = 1.0

#: Statuses of a row for which a call was made, or may have been.
BEGUN = frozenset({"adding", "added", "flushing"})


@dataclass(frozen=True, slots=True)
class Handover:
    """One turn on its way to the gateway."""

    claim: Claim
    row: LedgerRow
    session: str
    client: GatewayClient
    passage: Passage


@dataclass(frozen=True, slots=True)
class GatewayStage:
    """Delivers turns by the rules of `gateway_machine`; without a client, every turn is skipped.

    While the gate is shut (the gateway fails, asked to be left alone, or is called often enough already), turns wait in
    the ledger, and that counts as no attempt: nothing is claimed, and what was claimed is put off.
    """

    database: Database
    deliveries: Deliveries
    client: GatewayClient | None
    settings: GatewaySettings
    verdict: Verdict
    gate: Gate | None = None
    chance: Callable[[], float] = random.random
    stage: ClassVar[Stage] = Stage.GATEWAY

    @property
    def shape(self) -> Shape:
        """How much is under way: one turn of a session, since its row says the whole truth about what was sent.

        Of a call that is cut, nobody knows what became of it.
        """
        return Shape(streams=self.settings.at_once, rows=1, grace_s=self.settings.stop_seconds)

    def at_most(self, streams: int) -> int:
        """Return how many sessions to claim: none while the gate is known to be shut."""
        return streams if self.gate is None else self.gate.at_most(streams)

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Take the first turn of a session to its end, or as far as it goes now."""
        claim = claims[0]
        row = claim.rows[0]
        if row.status in BEGUN:
            return await _irrevocable(self._resume(claim, row))
        if self.client is None:
            return await self._skip(claim, row, "no gateway is configured")
        return await self._begin(claim, row, self.client)

    async def _resume(self, claim: Claim, row: LedgerRow) -> Worked:
        """Go on where a worker stopped: what was under way then is unknown for ever, and not sent again."""
        async with self.database.tenant(claim.host_id) as connection:
            session = await _session_name(connection, claim, row)
        if row.status == "adding":
            return await self._finish(claim, row, machine.unknown_add(session, "unknown"))
        if row.status == "flushing" or self.client is None or not session:
            return await self._finish(claim, row, machine.unknown_flush(session))
        passage = await self._enter()
        if not passage.granted:
            return await self._put_off(claim, row, "added", passage.wait_s)
        return await self._flush(Handover(claim, row, session, self.client, passage))

    async def _begin(self, claim: Claim, row: LedgerRow, client: GatewayClient) -> Worked:
        """Commit that the turn is being added, then add it."""
        turn = await self.deliveries.said(claim, row)
        sent = machine.delivery([machine.Said(m.role, m.content, m.event_date) for m in turn], self.settings.user_id)
        if sent is None:
            return await self._skip(claim, row, "the turn has no user text or no final answer")
        passage = await self._enter()
        if not passage.granted:
            return await self._put_off(claim, row, "pending", passage.wait_s)
        await self.deliveries.step(claim, row.item_id, "adding")
        return await _irrevocable(self._add(Handover(claim, row, turn[0].session_name, client, passage), sent))

    async def _add(self, way: Handover, sent: tuple[GatewayMessage, GatewayMessage]) -> Worked:
        claim, row, session = way.claim, way.row, way.session
        try:
            error = await _called("add", way.client.add(session, sent))
        except InvalidRequestError:
            return await self._finish(claim, row, machine.refused_add(session))
        await self._report(error)
        if (pause_s := self._pause_s(error, way.passage)) is not None:
            return await self._put_off(claim, row, "pending", pause_s)
        ending = machine.after_add(session, error, self.settings.retry)
        if ending.status != "added":
            return await self._finish(claim, row, ending)
        return await self._flush(way, ending)

    async def _flush(self, way: Handover, added: machine.Ending | None = None) -> Worked:
        """Commit that the turn is being flushed, and in the same breath how its add went; then flush it."""
        told = () if added is None else (added.event, added.payload)
        await self.deliveries.step(way.claim, way.row.item_id, "flushing", *told)
        error = await _called("flush", way.client.flush(way.session))
        await self._report(error)
        if (pause_s := self._pause_s(error, way.passage)) is not None:
            return await self._put_off(way.claim, way.row, "added", pause_s)
        return await self._finish(way.claim, way.row, machine.after_flush(way.session, error, self.settings.retry))

    async def _enter(self) -> Passage:
        """Ask the gate, and wait for one's turn if it comes soon."""
        if self.gate is None:
            return Passage(granted=True)
        passage = await self.gate.enter(PATIENCE_S)
        GATEWAY_BREAKER.set(self.gate.failing)
        if passage.granted and passage.wait_s > 0:
            GATEWAY_WAITS.labels("turn").inc()
            await asyncio.sleep(passage.wait_s)
        return passage

    async def _report(self, error: GatewayError | None) -> None:
        if self.gate is not None:
            await told(self.gate, error)
            GATEWAY_BREAKER.set(self.gate.failing)

    def _pause_s(self, error: GatewayError | None, passage: Passage) -> float | None:
        """Return how long a turn waits that met a gateway which is away or asked for time; None: it was its attempt."""
        if error is None or self.settings.retry is not GatewayRetry.UNSENT:
            return None
        if machine.asks_for_time(error):
            return error.retry_after
        away = error.unsent and self.gate is not None and (passage.probing or self.gate.failing)
        return 0.0 if away else None

    async def _put_off(self, claim: Claim, row: LedgerRow, status: str, wait_s: float) -> Worked:
        """Leave the turn in the ledger for later, as if it had not been looked at."""
        GATEWAY_WAITS.labels("shut").inc()
        wait = wait_s or (self.gate.shut_s if self.gate else 0.0)
        wait = min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, wait))
        retry_in = timedelta(seconds=wait + SPREAD_S * self.chance())
        await put_off(self.database, claim, row.item_id, status, retry_in)
        return Worked([Outcome(row.item_id, status, None, None, retry_in)])

    async def _finish(self, claim: Claim, row: LedgerRow, ending: machine.Ending) -> Worked:
        """Write how it ended, or when it is tried again: the row and its audit row in one transaction."""
        outcome = Outcome(row.item_id, ending.status, ending.category, ending.reason)
        if ending.back is not None and row.attempts < self.verdict.max_attempts:
            category, reason = ending.category or "", ending.reason or ""
            outcome = self.verdict.again(row, category, reason, status=ending.back)
            await self.deliveries.end(claim, outcome)
        else:
            await self.deliveries.end(claim, outcome, ending.event, ending.payload)
        return Worked([outcome])

    async def _skip(self, claim: Claim, row: LedgerRow, reason: str) -> Worked:
        outcome = Outcome(row.item_id, "skipped", None, reason)
        await self.deliveries.end(claim, outcome)
        return Worked([outcome])


def gate_of(database: Database, settings: GatewaySettings, *use: str) -> Gate:
    """Return the gate before the gateway these settings name: one for each address, user and use made of it."""
    policy = GatePolicy(
        threshold=settings.breaker_failures,
        cooldown_s=settings.breaker_seconds,
        rate=settings.turns_per_second,
        burst=settings.burst,
    )
    return Gate(database, gate_name("gateway", settings.base_url, settings.user_id, *use), policy)


async def _irrevocable(work: Awaitable[Worked]) -> Worked:
    """Do what comes after a call has begun: no accident may make the row look as if nothing had been sent."""
    try:
        return await work
    except LeaseLost:
        raise
    except Exception as error:
        raise Untold("gateway", "a call was made and its outcome could not be written") from error


async def _session_name(connection: AsyncConnection, claim: Claim, row: LedgerRow) -> str:
    arguments = {"host": claim.host_id, "bank": row.bank_id, "session": row.session_id}
    # A session that was erased meanwhile has no name any more.
    return str((await connection.execute(SESSION_NAME, arguments)).scalar_one() or "")


async def _called(operation: str, call: Awaitable[None]) -> GatewayError | None:
    """Make one call, time and count it; its error is a value, since nothing about it is unexpected."""
    started = time.monotonic()
    error: GatewayError | None = None
    try:
        await call
    except GatewayError as caught:
        error = caught
    GATEWAY_SECONDS.labels(operation).observe(time.monotonic() - started)
    GATEWAY_CALLS.labels(operation, error.category if error else "ok").inc()
    return error
