"""Advisory locks of a transaction, held until it ends: columns of the statement that takes them, from left to right.

A writer of the log enters it first, then locks quota, bank and the bank's rows, always in this order: so writers do not
deadlock.
"""

from typing import Any

from sqlalchemy import ColumnElement, Uuid, bindparam, func

#: Held by every writer of the log, shared.
ENTER_LOG: ColumnElement[Any] = func.afterturn.enter_log()


def hold_lock(kind: str, of: str) -> ColumnElement[Any]:
    """Return the lock of this kind, held alone, on the id that the parameter `of` gives."""
    return func.pg_advisory_xact_lock(_build_key(kind, of))


def share_lock(kind: str, of: str) -> ColumnElement[Any]:
    """Return the same, shared with who shares it, too."""
    return func.pg_advisory_xact_lock_shared(_build_key(kind, of))


def _build_key(kind: str, of: str) -> ColumnElement[int]:
    return func.afterturn.lock_key(kind, bindparam(of, type_=Uuid))
