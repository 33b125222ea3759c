"""Appending events that a stage or a command derived: offered at most once each, projected in the same transaction."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

APPEND_EVENTS = text("select afterturn.append_events(:host, cast(:events as jsonb))")


async def append_events(connection: AsyncConnection, host: UUID, events: Sequence[Mapping[str, Any]]) -> int | None:
    """Append events made by `offer`, in their order, inside the tenant's transaction; returns the last position.

    An event whose aggregate has that version already is the same fact again and changes nothing; None means that
    nothing was new. Writers that may meet on an aggregate offer such events sorted by subject, so that they cannot
    deadlock.
    """
    if not events:
        return None
    row = await connection.execute(APPEND_EVENTS, {"host": host, "events": orjson.dumps(events).decode()})
    position: int | None = row.scalar()
    return position
