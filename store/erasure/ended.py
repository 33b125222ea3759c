"""Erases expired units of a bank after their retention, page by page."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import bindparam, select

from store.erasure.units import LockedBank, erase_units
from store.schema import UNIT, in_bank
from store.sql_constants import inline

#: Units of one transaction.
PAGE_UNITS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_UNIT = UNIT.c
# Uses the index `unit_expired`, which holds expired units with a text; erased ones have none.
UNITS = (
    select(_UNIT.unit_id)
    .where(
        in_bank(UNIT),
        _UNIT.expires_at.is_not(None),
        ~_UNIT.active,
        _UNIT.content != inline(""),
        _UNIT.update_ts < bindparam("before"),
    )
    .order_by(_UNIT.update_ts, _UNIT.unit_id)
    .limit(bindparam("limit"))
)


def convert_to_microseconds(moment: datetime) -> int:
    """Return a time as an erasure stores it: microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


async def has_ended(place: LockedBank, before: datetime) -> bool:
    """Return whether the bank has units that ended before this time and still have their text."""
    return bool(await place.ask(UNITS, before=before, limit=1))


async def erase_ended(place: LockedBank) -> bool:
    """Erase the next units that had ended; return whether there are more."""
    before = _EPOCH + timedelta(microseconds=place.erasure.upto)
    units = [row.unit_id for row in await place.ask(UNITS, before=before, limit=PAGE_UNITS)]
    await erase_units(place, units)
    return len(units) == PAGE_UNITS
