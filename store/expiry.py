"""Expiry: a unit or bank is in no answer from `expires_at` on, before any worker acts.

The end stands in the event, so that a replay on any day makes the same rows; what has ended is decided by a clock when
something is read. Maintenance then ends it by an event, and later has its text erased.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, FromClause, bindparam, exists, or_

from store.schema import BANK, TIME

#: The moment of the answer.
NOW = bindparam("now", type_=TIME)
#: A moment at which nothing has ended yet.
BEFORE_ALL = datetime.min.replace(tzinfo=UTC)
#: Whether a unit or a bank of that alias has not ended at `:now`.
LASTS = "({of}.expires_at is null or {of}.expires_at > cast(:now as timestamptz))"
#: Whether the bank `:bank` has not; of one that is not there nothing is said.
BANK_LASTS = """not exists (
    select from afterturn.agent_memory_bank_t ending
     where ending.host_id = :host and ending.bank_id = :bank and ending.expires_at <= cast(:now as timestamptz))"""


def row_lasts(of: FromClause) -> ColumnElement[bool]:
    """Say the same of a table of units or banks, or an alias of it, in an expression."""
    end: ColumnElement[Any] = of.c.expires_at
    return or_(end.is_(None), end > NOW)


def bank_lasts() -> ColumnElement[bool]:
    """Say whether the bank `bank` of `host` has not ended, in an expression."""
    ending = BANK.alias("ending")
    return ~exists().where(
        ending.c.host_id == bindparam("host"), ending.c.bank_id == bindparam("bank"), ending.c.expires_at <= NOW
    )
