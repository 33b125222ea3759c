"""Deliveries to a foreign gateway, step by step: each is written, with its audit row, before the next is taken.

An audit row holds names, categories, statuses and counts: no content, no credentials, no bodies.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.errors import LeaseLost
from store.ledger import Claim, Outcome

STEP = text("""
    select afterturn.delivery_step(:host, :stream, :epoch, :item, :status, :event, cast(:payload as jsonb))""")
END = text("""
    select afterturn.delivery_end(:host, :stream, :epoch, :item, :status, :category, :reason,
                                  cast(:retry_at as timestamptz), :event, cast(:payload as jsonb))""")
PUT_OFF = text("""
    select afterturn.put_off(:host, 'gateway', :stream, :epoch, array[cast(:item as uuid)], :status,
                             cast(:retry_at as timestamptz))""")
NOTE = text("""
    insert into afterturn.audit_event_t (host_id, event, bank_id, session_id, turn_id, payload)
    values (:host, :event, :bank, :session, :turn, cast(:payload as jsonb))""")


async def note(
    connection: AsyncConnection,
    host: UUID,
    event: str,
    *,
    bank: UUID,
    session: UUID | None,
    payload: Mapping[str, Any],
    turn: UUID | None = None,
) -> None:
    """Write one audit row about a call to somebody else's service, inside the tenant's transaction."""
    about = {"host": host, "event": event, "bank": bank, "session": session, "turn": turn}
    await connection.execute(NOTE, {**about, "payload": orjson.dumps(payload).decode()})


class Deliveries:
    """Writes the steps of deliveries, each in one call that is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def step(
        self, claim: Claim, item: UUID, status: str, event: str | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Write an intermediate status, and what is to be told of it. Raises LeaseLost, having written nothing."""
        await self._call(STEP, claim, item, {"status": status, **_told(event, payload)})

    async def end(
        self, claim: Claim, outcome: Outcome, event: str | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Write how it ended, or when it is tried again, and give the claim back. Raises LeaseLost."""
        ending = {
            "status": outcome.status,
            "category": outcome.category,
            "reason": outcome.reason,
            "retry_at": outcome.retry_at,
        }
        await self._call(END, claim, outcome.item_id, {**ending, **_told(event, payload)})

    async def put_off(self, claim: Claim, item: UUID, status: str, until: datetime) -> None:
        """Leave the row as it was, this attempt not counted, and give the claim back. Raises LeaseLost."""
        await self._call(PUT_OFF, claim, item, {"status": status, "retry_at": until})

    async def _call(self, statement: TextClause, claim: Claim, item: UUID, arguments: Mapping[str, Any]) -> None:
        whose = {"host": claim.host_id, "stream": claim.stream_id, "epoch": claim.epoch, "item": item}
        async with self._database.call() as connection:
            if not (await connection.execute(statement, {**whose, **arguments})).scalar():
                raise LeaseLost("the lease ran out and the work was given to somebody else")


def _told(event: str | None, payload: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"event": event, "payload": orjson.dumps(payload or {}).decode()}
