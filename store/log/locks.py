"""Advisory locks of a transaction, as columns of the statement that takes them, from left to right.

A writer of the log takes the log's lock first, then those of quota, bank and the bank's rows, always in this order, so
that writers do not deadlock.
"""

from typing import Any

from sqlalchemy import ColumnElement, Uuid, bindparam, func, select

#: Takes the shared lock that every writer of the log holds.
ENTER_LOG: ColumnElement[Any] = func.afterturn.enter_log()


def hold_lock(kind: str, of: str) -> ColumnElement[Any]:
    """Return the column that takes the exclusive lock of a kind on the id in the parameter `of`."""
    return func.pg_advisory_xact_lock(_build_key(kind, of))


def share_lock(kind: str, of: str) -> ColumnElement[Any]:
    """Return the column that takes the shared lock of a kind on the id in the parameter `of`."""
    return func.pg_advisory_xact_lock_shared(_build_key(kind, of))


def _build_key(kind: str, of: str) -> ColumnElement[int]:
    return func.afterturn.lock_key(kind, bindparam(of, type_=Uuid))


#: Enters the log in one bank: beside other writers of it, and alone.
SHARE_BANK = select(ENTER_LOG, share_lock("bank", "bank"))
HOLD_BANK = select(ENTER_LOG, hold_lock("bank", "bank"))
