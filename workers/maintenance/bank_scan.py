"""Scans tenants and their banks, one bank a batch; a bank that fails does not delay the others.

The place between two batches names what was scanned last: "TENANT" or "TENANT BANK".
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import structlog

from store.database_outage import is_outage, state_of
from store.errors import ResourceBusy
from store.maintenance import FoundBank, PrunedBatch

log = structlog.get_logger(__name__)

FIRST = UUID(int=0)
#: Class of SQLSTATE of a transaction that was rolled back for the sake of another.
ROLLBACK = "40"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BankScan:
    """A scan of all tenants for banks with work.

    `next_host` returns the tenant after one, `find` a tenant's next bank with work after one, and `work` does a part of
    that work: it returns how much, or None where nothing is left to do.
    """

    next_host: Callable[[UUID | None], Awaitable[UUID | None]]
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
