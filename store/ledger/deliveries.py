"""Writes deliveries to an external gateway: each step with its audit row, before the next step begins.

An audit row holds names, categories, statuses and counts: no content, no credentials, no bodies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID
from weakref import WeakValueDictionary

import orjson
from sqlalchemy import Text, bindparam, cast, insert
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from store.coalescing import Coalescer
from store.database import Database
from store.errors import LeaseLost
from store.ledger.ledger import Claim, LedgerRow, Outcome
from store.memory.turn_messages import TurnMessage, read_messages
from store.schema import AUDIT_EVENT
from store.tenancy.gateway_targets import Destination, build_destination

#: Host, and moves (`_Move.as_json`).
STEPS = "select afterturn.delivery_steps($1, $2)"
ENDS = "select afterturn.delivery_ends($1, $2)"
#: Host, and the items of deliveries.
DESTINATIONS = """
    select d.item_id, (d.target).*, d.bank_name, d.session_name from afterturn.destinations($1, $2) d"""

NOTE = (
    insert(AUDIT_EVENT)
    .inline()
    .values(
        host_id=bindparam("host"),
        event=bindparam("kind"),
        bank_id=bindparam("bank"),
        session_id=bindparam("session"),
        turn_id=bindparam("turn"),
        payload=cast(bindparam("payload_json", type_=Text), JSONB),
    )
)


async def write_audit_row(
    connection: AsyncConnection,
    host: UUID,
    event: str,
    *,
    bank: UUID,
    session: UUID | None,
    payload: Mapping[str, Any],
    turn: UUID | None = None,
) -> None:
    """Write one audit row about a call of an external service, inside the tenant's transaction."""
    about = {"host": host, "kind": event, "bank": bank, "session": session, "turn": turn}
    await connection.execute(NOTE, {**about, "payload_json": orjson.dumps(payload).decode()})


@dataclass(frozen=True, slots=True)
class _Move:
    """One step of one delivery, or its end."""

    claim: Claim
    outcome: Outcome
    event: str | None
    payload: Mapping[str, Any]

    def as_json(self) -> dict[str, object]:
        """Return the move in the form that `delivery_steps` and `delivery_ends` take."""
        held = {"stream": str(self.claim.stream_id), "epoch": self.claim.epoch}
        return {**held, **self.outcome.as_json(), "event": self.event, "payload": self.payload}


class DeliveryWriter:
    """Writes the steps of deliveries; concurrent ones share a call and its commit.

    Belongs to one event loop.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # By host: one call is one transaction of one tenant.
        self._reads: WeakValueDictionary[UUID, Coalescer[LedgerRow, list[TurnMessage]]] = WeakValueDictionary()
        self._ways: WeakValueDictionary[UUID, Coalescer[LedgerRow, Destination | None]] = WeakValueDictionary()
        self._steps: WeakValueDictionary[UUID, Coalescer[_Move, bool]] = WeakValueDictionary()
        self._ends: WeakValueDictionary[UUID, Coalescer[_Move, bool]] = WeakValueDictionary()

    async def messages(self, claim: Claim, row: LedgerRow) -> list[TurnMessage]:
        """Return the messages of a delivery's turn in their order, without forgotten ones."""
        host = claim.host_id
        return await self._reads.setdefault(host, Coalescer(partial(self._read, host))).ask(row)

    async def destination(self, claim: Claim, row: LedgerRow) -> Destination | None:
        """Return the current destination of a turn; None where its row was opened for no target."""
        host = claim.host_id
        return await self._ways.setdefault(host, Coalescer(partial(self._destinations, host))).ask(row)

    async def step(
        self, claim: Claim, item: UUID, status: str, event: str | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Write an intermediate status and its audit row. Raises LeaseLost, having written nothing."""
        together = self._steps.setdefault(claim.host_id, Coalescer(partial(self._write, STEPS)))
        _check_held(held=await together.ask(_Move(claim, Outcome(item, status), event, payload or {})))

    async def end(
        self, claim: Claim, outcome: Outcome, event: str | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Write the outcome or the time of the next attempt with its audit row; release the claim. Raises LeaseLost."""
        together = self._ends.setdefault(claim.host_id, Coalescer(partial(self._write, ENDS)))
        _check_held(held=await together.ask(_Move(claim, outcome, event, payload or {})))

    async def _read(self, host: UUID, rows: Sequence[LedgerRow]) -> list[list[TurnMessage]]:
        found = await read_messages(self._database, host, [(row.bank_id, row.turn_id) for row in rows])
        return [found[row.turn_id] for row in rows]

    async def _destinations(self, host: UUID, rows: Sequence[LedgerRow]) -> list[Destination | None]:
        found = await self._database.fetch(DESTINATIONS, host, [row.item_id for row in rows])
        by_item = {one["item_id"]: build_destination(one) for one in found}
        return [by_item.get(row.item_id) for row in rows]

    async def _write(self, statement: str, moves: Sequence[_Move]) -> list[bool]:
        """Write moves of one host; return for each whether its claim was held."""
        moves_json = orjson.dumps([move.as_json() for move in moves]).decode()
        [(held,)] = await self._database.fetch(statement, moves[0].claim.host_id, moves_json)
        return [move.claim.epoch in held for move in moves]


def _check_held(*, held: bool) -> None:
    if not held:
        raise LeaseLost("the lease expired and another worker has the work")
