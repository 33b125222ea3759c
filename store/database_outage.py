"""Classifies errors of the database: outages and held locks, after which a retry may succeed, and wrong statements."""

from collections.abc import Iterator
from contextlib import contextmanager

from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from embeddings.retry import Again
from store.errors import ResourceBusy, StatementTimeout

#: Classes of SQLSTATE after which a retry may succeed: connection, resources, operator intervention, system, rollback.
PASSING_CLASSES = ("08", "53", "57", "58", "40")
#: SQLSTATE of a write on a standby, as after a failover.
PASSING_STATES = frozenset({"25006"})
#: SQLSTATE of a lock that could not be taken in time.
LOCK_NOT_AVAILABLE = "55P03"
#: SQLSTATE of a transaction that was ended because two waited for each other.
DEADLOCK = "40P01"
#: SQLSTATE of a cancelled statement, nearly always after a timeout: a retry would take as long.
CANCELLED = "57014"


def state_of(error: BaseException) -> str:
    """Return the SQLSTATE of a driver's error, wrapped or not; empty where the server gave none."""
    raised = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(raised, "sqlstate", None) or "")


def retry_after_states(*states: str) -> Again:
    """Return the retry rule that repeats an operation at once after an error with one of these SQLSTATEs."""
    return lambda error: 0.0 if state_of(error) in states else None


def is_outage(error: BaseException) -> bool:
    """Return whether the database was out of reach or out of resources, so that the statement itself may be right."""
    state = state_of(error)
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or not state or _is_passing(state)
    if isinstance(error, PostgresError):
        return _is_passing(state)
    # Opening a connection raises what the socket and the driver raise, unwrapped.
    return isinstance(error, PoolTimeout | OSError | TimeoutError | InterfaceError | InternalClientError)


def may_pass(error: BaseException) -> bool:
    """Return whether a retry may succeed: after an outage, or a lock that another transaction holds."""
    return isinstance(error, ResourceBusy) or state_of(error) == LOCK_NOT_AVAILABLE or is_outage(error)


@contextmanager
def lock_timeouts() -> Iterator[None]:
    """Turn a lock timeout within the block into ResourceBusy; the caller's transaction has then failed."""
    try:
        yield
    except (DBAPIError, PostgresError) as error:
        if state_of(error) != LOCK_NOT_AVAILABLE:
            raise
    else:
        return
    raise ResourceBusy("another transaction holds what this needs: try again")


def is_statement_timeout(error: BaseException) -> bool:
    """Return whether a statement was cancelled because it took too long, although the database answers."""
    return isinstance(error, StatementTimeout) or state_of(error) == CANCELLED


def _is_passing(state: str) -> bool:
    return state != CANCELLED and (state.startswith(PASSING_CLASSES) or state in PASSING_STATES)
