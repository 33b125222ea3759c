"""Erases what is past its retention in a bank, page by page: turns older than a limit, and units that have ended.

Turns are taken in the order they were accepted, with their messages and what was derived from them. Documents,
directives and reflections of their own stay: they were written to be kept. The next erasure of a bank begins where the
last one ended.

A document passes the stages like a turn, as the only turn of a session of its own: such turns are skipped.
"""

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

from sqlalchemy import Row, and_, bindparam, func, select, text

from store.erasure.units import LockedBank, erase_units
from store.expiry import ENDED_WITH_TEXT
from store.schema import ERASURE, TIME, TURN, UNIT, in_bank

#: Turns of one transaction.
PAGE_TURNS = 50

_TURN = TURN.c
_OF_BANK = and_(
    _TURN.host_id == bindparam("host"), _TURN.bank_id == bindparam("bank"), _TURN.turn_id != _TURN.session_id
)
_BEHIND = _TURN.position > bindparam("reached")
_IS_OLD = _TURN.accepted_at < bindparam("before", type_=TIME)
REACHED = select(func.coalesce(func.max(ERASURE.c.upto), 0)).where(
    ERASURE.c.host_id == bindparam("host"), ERASURE.c.bank_id == bindparam("bank"), ERASURE.c.kind == "age"
)
#: Turns that one erasure takes at most; the next begins behind it.
MOST = 5000
# Old turns are read up to the first that is young, and no further.
OLD = select(_TURN.position, _IS_OLD.label("old")).where(_OF_BANK, _BEHIND).order_by(_TURN.position).limit(MOST)
TURNS = (
    select(_TURN.turn_id, _TURN.position)
    .where(_OF_BANK, _BEHIND, _TURN.position <= bindparam("upto"))
    .order_by(_TURN.position)
    .limit(PAGE_TURNS)
)
COUNT = select(func.count()).select_from(TURN).where(_OF_BANK, _IS_OLD, _TURN.position > REACHED.scalar_subquery())
UNITS = text("""
    select u.unit_id from unnest(cast(:turns as uuid[])) g(turn_id),
           lateral (select u.unit_id from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.turn_id = g.turn_id offset 0) u
     order by 1""")


async def find_old_turns(place: LockedBank, before: datetime) -> tuple[int, int]:
    """Return the log positions of the last erased and of the newest old turn; equal when no turn is old."""
    reached = int((await place.ask(REACHED))[0][0])
    rows = await place.ask(OLD, reached=reached, before=before)
    return reached, max([reached, *(row.position for row in takewhile(_is_old, rows))])


def _is_old(row: Row[Any]) -> bool:
    return bool(row.old)


async def count_old(place: LockedBank, before: datetime) -> int:
    """Return the number of old turns that are not erased yet."""
    return int((await place.ask(COUNT, before=before))[0][0])


async def erase_old(place: LockedBank) -> bool:
    """Erase the next old turns; return whether there are more."""
    erasure = place.erasure
    turns = await place.ask(TURNS, reached=erasure.reached, upto=erasure.upto)
    units = await place.ask(UNITS, turns=[row.turn_id for row in turns])
    await erase_units(place, [row.unit_id for row in units])
    if turns:
        erasure.reached = turns[-1].position
    return len(turns) == PAGE_TURNS


#: Units of one transaction.
PAGE_UNITS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT = UNIT.c
ENDED_UNITS = (
    select(_UNIT.unit_id)
    .where(in_bank(UNIT), ENDED_WITH_TEXT)
    .order_by(_UNIT.update_ts, _UNIT.unit_id)
    .limit(bindparam("limit"))
)


def convert_to_microseconds(moment: datetime) -> int:
    """Return a time as an erasure stores it: microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


async def has_ended(place: LockedBank, before: datetime) -> bool:
    """Return whether the bank has units that ended before this time and still have their text."""
    return bool(await place.ask(ENDED_UNITS, before=before, limit=1))


async def erase_ended(place: LockedBank) -> bool:
    """Erase the next units that had ended; return whether there are more."""
    before = _EPOCH + timedelta(microseconds=place.erasure.upto)
    units = [row.unit_id for row in await place.ask(ENDED_UNITS, before=before, limit=PAGE_UNITS)]
    await erase_units(place, units)
    return len(units) == PAGE_UNITS
