"""Quotas: limits of size and rate of a tenant or bank, set by the operator, checked by every write."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import orjson
from asyncpg.exceptions import PostgresError
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.retry import AT_ONCE, Retry
from store import identity
from store.authority import refusal_of_call
from store.database import Database
from store.database_outage import retry_after_states, state_of
from store.errors import QuotaExceeded, RateLimited, StoreError, TurnEnded
from store.expiry import HAS_EXPIRED
from store.log.refusals import translate_refusals
from store.schema import QUOTA

T = TypeVar("T")

#: SQLSTATE of a quota that another writer used up between check and charge, and how often a write is repeated then.
USED_UP = "ZQ001"
LOOK_AGAIN = Retry(AT_ONCE, attempts=20)

SET = text("select afterturn.set_quota(:host, :scope, :bank, cast(:limits as jsonb), :now)")
CHARGE = text("select afterturn.charge_bytes(:host, array[:host, :bank]::uuid[], :bytes)")
RECOUNT = text("select afterturn.recount_quota(:host, :now)")
_QUOTA = QUOTA.c
SHOW = select(
    _QUOTA.bank_name,
    _QUOTA.max_turns,
    _QUOTA.max_bytes,
    _QUOTA.max_banks,
    _QUOTA.turns_per_minute,
    _QUOTA.turns,
    _QUOTA.bytes,
    _QUOTA.banks,
).order_by(_QUOTA.bank_name.nulls_first())


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """The limits of a host or bank; None: without limit. `max_banks` applies to a whole host only.

    Bytes are those that callers wrote, in UTF-8, for what is still remembered: messages with their parts and metadata,
    single memories, documents, directives, links, each version of a corrected or pinned unit, names, metadata and
    vectors of plugin namespaces, recall jobs until they expire, and open turns until they are stored or pruned.
    """

    max_turns: int | None = None
    max_bytes: int | None = None
    max_banks: int | None = None
    turns_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of a host (`bank` None) or of a bank, and its usage."""

    bank: str | None
    limits: QuotaLimits
    turns: int
    bytes: int
    banks: int


class Quotas:
    """Sets and shows quotas, as the operator."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def set(self, host: str, bank: str | None, limits: QuotaLimits) -> None:
        """Set all limits of a host or bank, and count its usage; without any limit the quota is removed."""
        host_id = identity.host_id(host)
        given = {name: value for name, value in asdict(limits).items() if value is not None}
        arguments = {
            "host": host_id,
            "scope": host_id if bank is None else identity.bank_id(host_id, bank),
            "bank": bank,
            "limits": orjson.dumps(given).decode(),
            "now": self._clock(),
        }
        async with self._database.operator() as connection:
            await connection.execute(SET, arguments)

    async def show(self, host: str) -> list[Quota]:
        """Return the quotas of a host, its own first."""
        async with self._database.operator() as connection:
            rows = await connection.execute(SHOW.where(_QUOTA.host_id == identity.host_id(host)))
            return [Quota(row[0], QuotaLimits(*row[1:5]), *row[5:]) for row in rows]


async def retry_on_quota(write: Callable[[], Awaitable[T]]) -> T:
    """Run a write that is charged at its end; repeat it where another writer used up the quota meanwhile."""
    try:
        return await LOOK_AGAIN.call(write, retry_after_states(USED_UP))
    except (DBAPIError, PostgresError) as error:
        if state_of(error) != USED_UP:
            raise
    raise RateLimited("turns", "host", 0, 1)


async def charge_quota(connection: AsyncConnection, host: UUID, bank: UUID, size: int) -> None:
    """Charge a host's and a bank's quota for the bytes of this transaction, as its last statement.

    The transaction took the quota's lock shared, before the bank's. After QuotaExceeded it must write nothing.
    """
    with translate_refusals():
        await connection.execute(CHARGE, {"host": host, "bank": bank, "bytes": size})


async def run_within_quota(database: Database, host: UUID, now: datetime, write: Callable[[], Awaitable[T]]) -> T:
    """Run a write that is charged; where a quota is full, recount the usage and run it once more.

    Raises QuotaExceeded.
    """
    try:
        return await write()
    except QuotaExceeded:
        if not await recount_quota(database, host, now):
            raise
    return await write()


async def recount_quota(database: Database, host: UUID, now: datetime) -> bool:
    """Recount a host's usage, at most once a minute; return whether that was done."""
    async with database.call() as connection:
        return bool((await connection.execute(RECOUNT, {"host": host, "now": now})).scalar_one())


def refusal_of(outcome: str) -> StoreError | None:
    """Return the error of an outcome, None for one without.

    Outcomes with an error: `over LIMIT SCOPE ALLOWED SECONDS`, `revoked`, `erased`, and `expired`, for a bank.
    """
    if outcome == "expired":
        return TurnEnded(HAS_EXPIRED)
    if not outcome.startswith("over "):
        return refusal_of_call(outcome)
    _, limit, scope, allowed, wait = outcome.split(" ")
    if int(wait):
        return RateLimited(limit, scope, int(allowed), int(wait))
    return QuotaExceeded(limit, scope, int(allowed))
