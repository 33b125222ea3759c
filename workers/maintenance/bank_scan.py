"""Scans tenants and their banks or sessions, batch by batch; a bank that fails does not delay the others.

The place between two batches names what was scanned last: "TENANT", "TENANT BANK" or "TENANT BANK SESSION".
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import structlog

from store.database_outage import is_outage, state_of
from store.errors import ResourceBusy
from store.maintenance import FoundBank, PrunedBatch
from store.memory.session_summaries import SessionPlace

log = structlog.get_logger(__name__)

FIRST = UUID(int=0)
#: Class of SQLSTATE of a transaction that was rolled back for the sake of another.
ROLLBACK = "40"

Result = TypeVar("Result")
NextHost = Callable[[UUID | None], Awaitable[UUID | None]]
BankSession = tuple[UUID, UUID]


@dataclass(frozen=True, slots=True)
class BankScan:
    """A scan of all tenants for banks with work.

    `next_host` returns the tenant after one, `find` a tenant's next bank with work after one, and `work` does a part of
    that work: it returns how much, or None where nothing is left to do.
    """

    next_host: NextHost
    find: Callable[[UUID, UUID], Awaitable[FoundBank | None]]
    work: Callable[[UUID, FoundBank], Awaitable[int | None]]

    async def step(self, place: str | None) -> PrunedBatch:
        """Work on the next bank after a place. Raises only what would stop every bank: an outage of the database."""
        host, after = _parse_place(place)
        if after is None:
            host, after = await self.next_host(host), FIRST
        if host is None:
            return PrunedBatch(0, None)
        found, failed = await _try_step(self.find(host, after))
        if found is None:
            return PrunedBatch(0, str(host), failed)
        removed, failed = await _try_step(self.work(host, found))
        if removed is None:
            return PrunedBatch(0, f"{host} {found.bank_id}", failed)
        # The same place again: a bank's work may take many batches.
        return PrunedBatch(removed, f"{host} {after}")

    async def find_all(self) -> AsyncIterator[tuple[UUID, FoundBank]]:
        """Yield every bank with work, and its tenant before it."""
        host = None
        while (host := await self.next_host(host)) is not None:
            after = FIRST
            while (found := await self.find(host, after)) is not None:
                yield host, found
                after = found.bank_id


@dataclass(frozen=True, slots=True)
class SessionScan:
    """A scan of all tenants for sessions with work.

    `list_sessions` returns a tenant's next page of sessions after one, `find` those of a page with work, and `work`
    does a part of that work: it returns how much, and whether to look at the page again.
    """

    next_host: NextHost
    list_sessions: Callable[[UUID, BankSession], Awaitable[Sequence[BankSession]]]
    find: Callable[[UUID, Sequence[BankSession]], Awaitable[Sequence[SessionPlace]]]
    work: Callable[[Sequence[SessionPlace]], Awaitable[tuple[int, bool]]]

    async def step(self, place: str | None) -> PrunedBatch:
        """Work on the next page of sessions after a place."""
        host, *after = (UUID(one) for one in place.split()) if place else (None,)
        if not after:
            host, after = await self.next_host(host), [FIRST, FIRST]
        if host is None:
            return PrunedBatch(0, None)
        page = await self.list_sessions(host, (after[0], after[1]))
        if not page:
            return PrunedBatch(0, str(host))
        done, again = await self.work(await self.find(host, page))
        bank, session = after if again else page[-1]
        return PrunedBatch(done, f"{host} {bank} {session}")

    async def count(self) -> int:
        """Return how many sessions have work."""
        return await count_all(self.next_host, self._count_tenant)

    async def _count_tenant(self, host: UUID) -> int:
        number, after = 0, (FIRST, FIRST)
        while page := await self.list_sessions(host, after):
            number, after = number + len(await self.find(host, page)), page[-1]
        return number


async def count_all(next_host: NextHost, count: Callable[[UUID], Awaitable[int]]) -> int:
    """Return the sum of what is counted of every tenant."""
    number, host = 0, None
    while (host := await next_host(host)) is not None:
        number += await count(host)
    return number


def _parse_place(place: str | None) -> tuple[UUID | None, UUID | None]:
    host, _, bank = (place or "").partition(" ")
    return UUID(host) if host else None, UUID(bank) if bank else None


async def _try_step(doing: Awaitable[Result | None]) -> tuple[Result | None, str | None]:
    """Return the result, or None and the kind of the error; a bank that another transaction holds is no error."""
    try:
        return await doing, None
    except ResourceBusy:
        return None, None  # the next run tries again
    except Exception as error:
        if is_outage(error) and not state_of(error).startswith(ROLLBACK):
            raise
        log.warning("maintenance_of_a_bank_failed", error=type(error).__name__)
        return None, type(error).__name__
