"""The gateway stage: each turn is handed to a Memory Gateway at most once, in the order of its session."""

import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from afterturn_client.errors import GatewayError, InvalidRequestError
from afterturn_client.gateway import GatewayClient, GatewayMessage
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.delivery import Deliveries
from store.errors import LeaseLost
from store.ledger import Claim, LedgerRow, Outcome, Stage
from store.turn_units import messages
from workers import gateway_machine as machine
from workers.errors import Untold
from workers.metrics import GATEWAY_CALLS, GATEWAY_SECONDS
from workers.retry import Verdict
from workers.runner import Shape, Worked
from workers.settings import GatewaySettings

SESSION_NAME = text("""
    select session_name from afterturn.agent_session_history_t
     where host_id = :host and bank_id = :bank and session_id = :session""")

#: Statuses of a row for which a call was made, or may have been.
BEGUN = frozenset({"adding", "added", "flushing"})


@dataclass(frozen=True, slots=True)
class GatewayStage:
    """Delivers turns by the rules of `gateway_machine`; without a client, every turn is skipped."""

    database: Database
    deliveries: Deliveries
    client: GatewayClient | None
    settings: GatewaySettings
    verdict: Verdict
    stage: ClassVar[Stage] = Stage.GATEWAY
    #: One turn of a session at a time: its row's status must be the whole truth about what was sent.
    shape: ClassVar[Shape] = Shape(streams=16, rows=1)

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
        return await self._flush(claim, row, session, self.client)

    async def _begin(self, claim: Claim, row: LedgerRow, client: GatewayClient) -> Worked:
        """Commit that the turn is being added, then add it."""
        turn = (await messages(self.database, claim.host_id, row.bank_id, [row.turn_id]))[row.turn_id]
        sent = machine.delivery([machine.Said(m.role, m.content, m.event_date) for m in turn], self.settings.user_id)
        if sent is None:
            return await self._skip(claim, row, "the turn has no user text or no final answer")
        await self.deliveries.step(claim, row.item_id, "adding")
        return await _irrevocable(self._add(claim, row, turn[0].session_name, sent, client))

    async def _add(
        self,
        claim: Claim,
        row: LedgerRow,
        session: str,
        sent: tuple[GatewayMessage, GatewayMessage],
        client: GatewayClient,
    ) -> Worked:
        try:
            error = await _called("add", client.add(session, sent))
            ending = machine.after_add(session, error, self.settings.retry)
        except InvalidRequestError:
            ending = machine.refused_add(session)
        if ending.status != "added":
            return await self._finish(claim, row, ending)
        await self.deliveries.step(claim, row.item_id, "added", ending.event, ending.payload)
        return await self._flush(claim, row, session, client)

    async def _flush(self, claim: Claim, row: LedgerRow, session: str, client: GatewayClient) -> Worked:
        await self.deliveries.step(claim, row.item_id, "flushing")
        error = await _called("flush", client.flush(session))
        return await self._finish(claim, row, machine.after_flush(session, error, self.settings.retry))

    async def _finish(self, claim: Claim, row: LedgerRow, ending: machine.Ending) -> Worked:
        """Write how it ended, or when it is tried again: the row and its audit row in one transaction."""
        outcome = Outcome(row.item_id, ending.status, ending.category, ending.reason)
        if ending.back is not None and row.attempts < self.verdict.max_attempts:
            category, reason = ending.category or "", ending.reason or ""
            outcome = self.verdict.again(row, category, reason, ending.retry_after, ending.back)
            await self.deliveries.end(claim, outcome)
        else:
            await self.deliveries.end(claim, outcome, ending.event, ending.payload)
        return Worked([outcome])

    async def _skip(self, claim: Claim, row: LedgerRow, reason: str) -> Worked:
        outcome = Outcome(row.item_id, "skipped", None, reason)
        await self.deliveries.end(claim, outcome)
        return Worked([outcome])


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
