"""Ends expired units and banks by an event, and finds those whose text is to be erased after the retention.

Readers skip an expired unit already; the event removes its words, vectors and mentions and updates reflections.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, CompoundSelect, Uuid, and_, bindparam, func, null, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.derived import bank_state
from store.expiry import ENDED_WITH_TEXT, NOW
from store.log.append import append_events, order_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_version
from store.log.locks import ENTER_LOG, hold_lock
from store.maintenance.pruning import FoundBank
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
ENDING_BANK = select(_BANK.bank_id, _BANK.aggregate_version.label("version")).where(
    _ENDING_BANKS, _BANK.bank_id == bindparam("bank")
)
ENDING_UNITS = (
    select(_UNIT.unit_id, _UNIT.aggregate_version.label("version"))
    .where(_ENDING_UNITS, _UNIT.bank_id == bindparam("bank"))
    .order_by(_UNIT.unit_id)
    .limit(UNITS)
)
COUNT = select(
    select(func.count()).select_from(UNIT).where(_ENDING_UNITS).scalar_subquery()
    + select(func.count()).select_from(BANK).where(_ENDING_BANKS).scalar_subquery()
)
_ENDED_BANKS = and_(
    _BANKS_OF_HOST, _BANK.expires_at.is_not(None), ~_BANK.active, _BANK.update_ts < bindparam("before", type_=TIME)
)


def _select_next(banks: ColumnElement[bool], units: ColumnElement[bool]) -> CompoundSelect[Any]:
    """Return the query of the first bank after `after` that is one of `banks`, or has one of `units`."""
    after = bindparam("after", type_=Uuid)
    named = select(_BANK.bank_id, _BANK.bank_name).where(banks, _BANK.bank_id > after)
    holding = select(_UNIT.bank_id, null().label("bank_name")).where(units, _UNIT.bank_id > after)
    return (
        union_all(*(select(one.order_by("bank_id").limit(1).subquery()) for one in (named, holding)))
        .order_by("bank_id", "bank_name")
        .limit(1)
    )


NEXT_ENDING = _select_next(_ENDING_BANKS, _ENDING_UNITS)
NEXT_ENDED = _select_next(_ENDED_BANKS, and_(_OF_HOST, ENDED_WITH_TEXT))


class ExpiryTask:
    """Ends expired units and banks by events, bank by bank."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def find_ending(self, host: UUID, after: UUID) -> FoundBank | None:
        """Return a tenant's next bank after one that has expired, or has such units, and was not ended yet."""
        return await self._find(NEXT_ENDING, host, after, now=self._clock())

    async def find_ended(self, host: UUID, after: UUID, before: datetime) -> FoundBank | None:
        """Return a tenant's next bank after one that ended before a time, or has such units, and has their text yet."""
        return await self._find(NEXT_ENDED, host, after, before=before)

    async def end(self, host: UUID, found: FoundBank) -> int:
        """End an expired bank, or at most `UNITS` expired units of one; return how many. Raises ResourceBusy."""
        return await (
            self.end_in_bank(host, found.bank_id) if found.bank_name is None else self._end_bank(host, found.bank_id)
        )

    async def end_in_bank(self, host: UUID, bank: UUID) -> int:
        """End at most `UNITS` expired units of one bank; return how many were. Raises ResourceBusy."""
        place = {"host": host, "now": self._clock(), "bank": bank}
        async with self._database.tenant(host) as connection:
            if not (await connection.execute(ENDING_UNITS, place)).all():
                return 0
            await connection.execute(LOCK, {"host": host, "bank": bank})
            rows = (await connection.execute(ENDING_UNITS, place)).all()
            units = {row.unit_id: row.version for row in rows}
            return await _append_ends(connection, self._origin(host, bank), units) if units else 0

    async def count(self, host: UUID) -> int:
        """Return how many units and banks of a tenant have expired and not been ended yet."""
        async with self._database.tenant(host) as connection:
            return int((await connection.execute(COUNT, {"host": host, "now": self._clock()})).scalar_one())

    async def _find(self, query: CompoundSelect[Any], host: UUID, after: UUID, **moment: datetime) -> FoundBank | None:
        async with self._database.tenant(host) as connection:
            row = (await connection.execute(query, {"host": host, "after": after, **moment})).one_or_none()
        return None if row is None else FoundBank(row.bank_id, row.bank_name)

    async def _end_bank(self, host: UUID, bank: UUID) -> int:
        place = {"host": host, "now": self._clock(), "bank": bank}
        async with self._database.tenant(host) as connection:
            await connection.execute(LOCK, {"host": host, "bank": bank})
            found = (await connection.execute(ENDING_BANK, place)).one_or_none()
            if found is None:
                return 0
            deleted = build_version(self._origin(host, bank), EventType.BANK_DELETED, (), found.version + 1)
            await append_events(connection, host, [deleted])
        return 1

    def _origin(self, host: UUID, bank: UUID) -> Origin:
        return Origin(host, bank, identity.user_id(host, None), self._clock())


async def _append_ends(connection: AsyncConnection, origin: Origin, units: dict[UUID, int]) -> int:
    ends = [build_version(origin, EventType.UNIT_DELETED, (unit,), version + 1) for unit, version in units.items()]
    position = await append_events(connection, origin.host, order_events(ends))
    if position is None:
        return 0
    await bank_state.request_recount(connection, origin, position)
    return len(ends)
