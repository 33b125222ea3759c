"""Expiry: from `expires_at` on no answer holds the unit or bank, before any worker acts.

The time is in the event, so that a replay on any day makes the same rows; readers compare it with the clock.
Maintenance then ends the unit or bank by an event, and later erases its text.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Exists, FromClause, Select, and_, bindparam, exists, or_
from sqlalchemy.ext.asyncio import AsyncConnection

from store.errors import TurnEnded
from store.schema import BANK, TIME, UNIT
from store.sql_constants import inline

#: The parameter of the time of the answer.
NOW = bindparam("now", type_=TIME)
#: A time at which nothing has expired yet.
BEFORE_ALL = datetime.min.replace(tzinfo=UTC)
#: The condition that a unit ended by its expiry before `:before` and has its text yet: for the index `unit_expired`.
ENDED_WITH_TEXT = and_(
    UNIT.c.expires_at.is_not(None),
    ~UNIT.c.active,
    UNIT.c.content != inline(""),
    UNIT.c.update_ts < bindparam("before", type_=TIME),
)
HAS_EXPIRED = "this bank has expired: create it again (POST /api/v1/banks), or change its `expires_at`"


def row_lasts(of: FromClause) -> ColumnElement[bool]:
    """Return the condition that a row of units or banks (a table, or an alias of one) has not expired at `:now`."""
    end: ColumnElement[Any] = of.c.expires_at
    return or_(end.is_(None), end > NOW)


def bank_lasts() -> ColumnElement[bool]:
    """Return the condition that the bank `bank` of `host` has not expired at `:now`."""
    return ~_bank_expired()


def _bank_expired() -> Exists:
    ending = BANK.alias("ending")
    return exists().where(
        ending.c.host_id == bindparam("host"), ending.c.bank_id == bindparam("bank"), ending.c.expires_at <= NOW
    )


#: The last column of the statement by which a writer takes its locks: whether its bank has expired at `:now`.
BANK_EXPIRED = _bank_expired().label("bank_expired")


async def lock_lasting_bank(
    connection: AsyncConnection, locks: Select[*tuple[Any, ...]], place: Mapping[str, Any]
) -> None:
    """Take a writer's locks, by a statement that ends with BANK_EXPIRED. Raises TurnEnded for an expired bank."""
    if (await connection.execute(locks, place)).one().bank_expired:
        raise TurnEnded(HAS_EXPIRED)
