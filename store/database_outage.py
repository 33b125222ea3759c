"""Tells a database that cannot answer now from a statement that is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from embeddings.retry import Again
from store.errors import ResourceBusy, StatementTimeout

#: Classes of SQLSTATE that another try may not meet: connection, resources, operator's hand, system, rollback.
PASSING_CLASSES = ("08", "53", "57", "58", "40")
#: A standby after a failover.
PASSING_STATES = frozenset({"25006"})
#: SQLSTATE of a lock that was not to be had in time.
LOCK_NOT_AVAILABLE = "55P03"
#: SQLSTATE of a transaction that was ended because two waited for each other.
DEADLOCK = "40P01"
#: A statement was cancelled, nearly always because its time was over: the next try takes as long.
CANCELLED = "57014"


def state_of(error: BaseException) -> str:
    """Return the SQLSTATE of what the driver raised, wrapped or not; empty where the server did not give one."""
    raised = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(raised, "sqlstate", None) or "")


def again_after(*states: str) -> Again:
    """Return the rule of a retry that makes again what ended in one of these SQLSTATEs."""
    return lambda error: 0.0 if state_of(error) in states else None


def is_outage(error: BaseException) -> bool:
    """Say whether the database was out of reach or out of means: nothing is wrong with what was asked."""
    state = state_of(error)
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or not state or _is_passing(state)
    if isinstance(error, PostgresError):
        return _is_passing(state)
    # Opening a connection raises what the socket and the driver raise, unwrapped.
    return isinstance(error, PoolTimeout | OSError | TimeoutError | InterfaceError | InternalClientError)


def may_pass(error: BaseException) -> bool:
    """Say whether the same may go well a little later: an outage, or something that another transaction holds."""
    return isinstance(error, ResourceBusy) or state_of(error) == LOCK_NOT_AVAILABLE or is_outage(error)


@contextmanager
def lock_timeouts() -> Iterator[None]:
    """Turn a lock that was not to be had in time into ResourceBusy; the transaction it ended is the caller's."""
    try:
        yield
    except (DBAPIError, PostgresError) as error:
        if state_of(error) != LOCK_NOT_AVAILABLE:
            raise
    else:
        return
    raise ResourceBusy("another transaction holds what this needs: try again")


def timed_out(error: BaseException) -> bool:
    """Say whether a database that answers was given too much: a statement was cancelled when its time was over."""
    return isinstance(error, StatementTimeout) or state_of(error) == CANCELLED


def _is_passing(state: str) -> bool:
    return state != CANCELLED and (state.startswith(PASSING_CLASSES) or state in PASSING_STATES)
