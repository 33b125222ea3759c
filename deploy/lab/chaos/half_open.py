"""A half-open session: it holds a lock in a transaction, has sent half of a statement, and sends nothing more."""

from typing import Any

import asyncpg
from sqlalchemy import make_url

from store.database import APPLICATION_NAME

LOCK = "select pg_advisory_xact_lock(afterturn.lock_key('bank', $1))"


async def open_half_open_session(url: str, bank: object) -> Any:
    """Return a session of the service's role that holds a bank's lock, `active` and waiting for its client."""
    place = make_url(url)
    session: Any = await asyncpg.connect(  # type: ignore[no-untyped-call]  # the driver leaves it without annotations
        host=place.host,
        port=place.port,
        user=place.username,
        password=str(place.password),
        database=place.database,
        ssl=False,
        server_settings={"application_name": APPLICATION_NAME},
    )
    await session.execute("begin")
    await session.execute("set local idle_in_transaction_session_timeout = '30s'")
    await session.fetch(LOCK, bank)
    # Parse and Flush of the extended protocol; Bind, Execute and Sync never come.
    session._transport.write(b"P" + _frame(b"\0select 1\0" + b"\0\0") + b"H" + _frame(b""))  # noqa: SLF001 - no driver sends half
    return session


def _frame(body: bytes) -> bytes:
    return (len(body) + 4).to_bytes(4, "big") + body
