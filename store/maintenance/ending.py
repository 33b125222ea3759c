"""Ends expired units and banks by an event, and finds those whose text is to be erased after the retention.

Readers skip an expired unit already; the event removes its words, vectors and mentions and updates reflections.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Uuid, and_, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.derived import bank_state
from store.expiry import NOW
from store.log.append import append_events, order_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer
from store.log.locks import ENTER_LOG, hold_lock
from store.maintenance.pruning import PrunedBatch, find_next_host
from store.schema import BANK, TIME, UNIT
from store.sql_constants import inline

#: Units that are ended in one transaction.
UNITS = 200

# Bank-wide, as when a document is forgotten: no writer may mention or link a unit that ends here meanwhile.
LOCK = select(ENTER_LOG, func.afterturn.lock_quota(bindparam("host", type_=Uuid)), hold_lock("bank", "bank"))
_BANK, _UNIT = BANK.c, UNIT.c
_OF_HOST = _UNIT.host_id == bindparam("host")
_BANKS_OF_HOST = and_(_BANK.host_id == bindparam("host"), _BANK.bank_name != inline(""))
# By the indexes of rows with an expiry, which are empty where nothing expires.
_ENDING_BANKS = and_(_BANKS_OF_HOST, _BANK.expires_at <= NOW, _BANK.active)
_ENDING_UNITS = and_(_OF_HOST, _UNIT.expires_at <= NOW, _UNIT.active)
ENDING_BANK = (
    select(_BANK.bank_id, _BANK.aggregate_version.label("version"))
    .where(_ENDING_BANKS)
    .order_by(_BANK.expires_at, _BANK.bank_id)
    .limit(1)
)
ENDING_UNITS = (
    select(_UNIT.unit_id, _UNIT.bank_id, _UNIT.aggregate_version.label("version"))
    .where(_ENDING_UNITS)
    .order_by(_UNIT.bank_id, _UNIT.unit_id)
)
ENDING_UNITS_OF_BANK = ENDING_UNITS.where(_UNIT.bank_id == bindparam("bank")).limit(UNITS)
COUNT = select(
    select(func.count()).select_from(UNIT).where(_ENDING_UNITS).scalar_subquery()
    + select(func.count()).select_from(BANK).where(_ENDING_BANKS).scalar_subquery()
)
_BEFORE = bindparam("before", type_=TIME)
ENDED_BANK = (
    select(_BANK.bank_name)
    .where(_BANKS_OF_HOST, _BANK.expires_at.is_not(None), ~_BANK.active, _BANK.update_ts < _BEFORE)
    .order_by(_BANK.bank_id)
    .limit(1)
)
ENDED_UNITS_BANK = (
    select(_UNIT.bank_id)
    .where(
        _OF_HOST,
        _UNIT.expires_at.is_not(None),
        ~_UNIT.active,
        _UNIT.content != inline(""),
        _UNIT.update_ts < _BEFORE,
    )
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Ended:
    """A bank (by its name) that ended past its retention and still has its text, or a bank with such units."""

    bank_name: str | None
    units_of: UUID | None


class ExpiryTask:
    """Ends expired units and banks by events, tenant by tenant."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def step(self, place: str | None) -> PrunedBatch:
        """End an expired bank, or expired units of one, of the tenant after `place`; repeats a tenant with more."""
        host = await self.next_host(place)
        if host is None:
            return PrunedBatch(0, None)
        ended = await self._end_bank(host) or await self._end_units(host)
        return PrunedBatch(ended, (place or str(UUID(int=0))) if ended else str(host))

    async def end_in_bank(self, host: UUID, bank: UUID) -> int:
        """End at most `UNITS` expired units of one bank; return how many were. Raises ResourceBusy."""
        place = {"host": host, "now": self._clock(), "bank": bank}
        async with self._database.tenant(host) as connection:
            if not (await connection.execute(ENDING_UNITS_OF_BANK, place)).all():
                return 0
            await connection.execute(LOCK, {"host": host, "bank": bank})
            rows = (await connection.execute(ENDING_UNITS_OF_BANK, place)).all()
            units = {row.unit_id: row.version for row in rows}
            return await _append_ends(connection, self._origin(host, bank), units) if units else 0

    async def count(self) -> int:
        """Return how many units and banks have expired and not been ended yet."""
        number, place = 0, None
        while (host := await self.next_host(place)) is not None:
            async with self._database.tenant(host) as connection:
                number += (await connection.execute(COUNT, {"host": host, "now": self._clock()})).scalar_one()
            place = str(host)
        return number

    async def next_host(self, place: str | None) -> UUID | None:
        """Return the tenant after a place; None after the last one."""
        async with self._database.operator() as connection:
            found: UUID | None = await connection.scalar(find_next_host(UUID(place) if place else None))
        return found

    async def ended(self, host: UUID, before: datetime) -> Ended | None:
        """Return a tenant's bank, or bank with units, that ended before this time and still has its text, else None."""
        place = {"host": host, "before": before}
        async with self._database.tenant(host) as connection:
            name = (await connection.execute(ENDED_BANK, place)).scalar()
            units = None if name else (await connection.execute(ENDED_UNITS_BANK, place)).scalar()
        return Ended(name, units) if name or units else None

    async def _end_bank(self, host: UUID) -> int:
        place = {"host": host, "now": self._clock()}
        async with self._database.tenant(host) as connection:
            found = (await connection.execute(ENDING_BANK, place)).one_or_none()
            if found is None:
                return 0
            await connection.execute(LOCK, {"host": host, "bank": found.bank_id})
            again = (await connection.execute(ENDING_BANK, place)).one_or_none()
            if again is None or again.bank_id != found.bank_id:
                return 0
            origin = self._origin(host, again.bank_id)
            await append_events(
                connection, host, [build_offer(origin, EventType.BANK_DELETED, (), {}, nth=str(again.version + 1))]
            )
        return 1

    async def _end_units(self, host: UUID) -> int:
        place = {"host": host, "now": self._clock()}
        async with self._database.tenant(host) as connection:
            found = (await connection.execute(ENDING_UNITS.limit(1), place)).one_or_none()
            if found is None:
                return 0
            await connection.execute(LOCK, {"host": host, "bank": found.bank_id})
            rows = (await connection.execute(ENDING_UNITS_OF_BANK, {**place, "bank": found.bank_id})).all()
            return await _append_ends(
                connection, self._origin(host, found.bank_id), {row.unit_id: row.version for row in rows}
            )

    def _origin(self, host: UUID, bank: UUID) -> Origin:
        return Origin(host, bank, identity.user_id(host, None), self._clock())


async def _append_ends(connection: AsyncConnection, origin: Origin, units: dict[UUID, int]) -> int:
    ends = [
        build_offer(origin, EventType.UNIT_DELETED, (unit,), {"unitId": str(unit)}, nth=str(version + 1))
        for unit, version in units.items()
    ]
    position = await append_events(connection, origin.host, order_events(ends))
    if position is None:
        return 0
    await bank_state.request_recount(connection, origin, position)
    return len(ends)
