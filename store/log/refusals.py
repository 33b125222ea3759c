"""Maps the database's refusals of an event to the store's errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from asyncpg.exceptions import PostgresError
from sqlalchemy.exc import DBAPIError

from store.authority import refusal_of_call
from store.errors import ConcurrencyError, EventRefused, MissingParent, QuotaExceeded, StoreError, VersionGap
from store.log.catalog import AGGREGATES

#: SQLSTATEs that `afterturn.refuse` raises.
STATES: dict[str, type[EventRefused]] = {"ZA001": VersionGap, "ZA002": MissingParent, "ZA003": ConcurrencyError}
#: SQLSTATEs that `afterturn.require_call` raises, as outcomes of a turn.
ENDED = {"ZA010": "revoked", "ZA011": "erased"}
TOO_MANY_BANKS = "ZQ002"
FOREIGN_KEY_VIOLATION = "23503"
UNIQUE_VIOLATION = "23505"


@contextmanager
def translate_refusals() -> Iterator[None]:
    """Turn the database's refusals within the block into EventRefused (its kinds), QuotaExceeded, and those of a call.

    Other errors pass unchanged. The driver's error quotes the event, so it is not kept as the cause.
    """
    try:
        yield
    except DBAPIError as error:
        if (refused := _parse_refusal(error.orig.__cause__ if error.orig else None)) is None:
            raise
    except PostgresError as error:
        if (refused := _parse_refusal(error)) is None:
            raise
    else:
        return
    raise refused


def _parse_refusal(cause: Any) -> StoreError | None:
    state = getattr(cause, "sqlstate", None)
    if state == TOO_MANY_BANKS:
        detail = orjson.loads(cause.detail)
        return QuotaExceeded(detail["limit"], detail["scope"], detail["allowed"])
    if state in ENDED:
        return refusal_of_call(ENDED[state])
    if state in STATES:
        detail = orjson.loads(cause.detail)
        return STATES[state](detail["aggregate"], detail["expected"], detail["actual"])
    if state == FOREIGN_KEY_VIOLATION:
        return MissingParent(_aggregate_in(cause.table_name))
    if state == UNIQUE_VIOLATION and cause.table_name == "event_store_t":
        return ConcurrencyError("event")
    return None


def _aggregate_in(table: str | None) -> str:
    return next((aggregate.value for aggregate, spec in AGGREGATES.items() if spec.table == table), "unknown")
