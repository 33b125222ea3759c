"""Audit rows: what was asked of foreign doors and how it ended, never what was said."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.ledger import LedgerRow

RECORD = text("""
    insert into afterturn.audit_event_t (host_id, event, bank_id, session_id, turn_id, payload)
    values (:host, :event, :bank, :session, :turn, cast(:payload as jsonb))""")


async def record(
    connection: AsyncConnection, host: UUID, row: LedgerRow, event: str, payload: Mapping[str, Any]
) -> None:
    """Write one audit row about a turn, inside the tenant's transaction that writes what it tells of.

    `payload` holds names, categories, statuses and counts: no content, no credentials, no bodies.
    """
    arguments = {
        "host": host,
        "event": event,
        "bank": row.bank_id,
        "session": row.session_id,
        "turn": row.turn_id,
        "payload": orjson.dumps(payload).decode(),
    }
    await connection.execute(RECORD, arguments)
