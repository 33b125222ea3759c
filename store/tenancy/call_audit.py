"""The call audit: key, interface, operation, duration and result. Never content or session names.

Rows are written in batches, as the operator and outside of any call; they are pruned by `call_audit_t.at`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import orjson
from afterturn_client.contract.operators import Call, CallList
from sqlalchemy import ColumnElement, RowMapping, func, or_, select

from store.database import Database
from store.schema import API_KEY, CALL_AUDIT, HOST

#: The host of calls without a valid key; these are summed up (producers/service/auditing.py).
NO_HOST = UUID(int=0)
#: The lowest HTTP status of a refusal.
FIRST_REFUSAL = 400

# One statement with one JSON argument for many calls: a statement per call takes five times as long.
WRITE = """
    insert into afterturn.call_audit_t
           (host_id, at, door, key_id, actor, operation, status, code, took_ms, request_id, rows)
    select c.host_id, c.at, c.door, c.key_id, c.actor, c.operation, c.status, c.code, c.took_ms, c.request_id, c.rows
      from json_populate_recordset(cast(null as afterturn.call_audit_t), cast($1::text as json)) c"""
_CALL = CALL_AUDIT.c
READ = (
    select(
        _CALL.at,
        _CALL.door,
        _CALL.operation,
        _CALL.took_ms,
        _CALL.key_id,
        _CALL.actor,
        _CALL.status,
        _CALL.code,
        _CALL.request_id,
        _CALL.rows,
        HOST.c.name.label("tenant"),
        API_KEY.c.label.label("key_label"),
    )
    .outerjoin_from(CALL_AUDIT, HOST, HOST.c.host_id == _CALL.host_id)
    .outerjoin(API_KEY, API_KEY.c.key_id == _CALL.key_id)
    .order_by(_CALL.at.desc(), _CALL.call_id.desc())
)


class Interface(StrEnum):
    """The interface that a call came in by."""

    HTTP = "http"
    GATEWAY = "gateway"
    MCP = "mcp"
    OPERATOR = "operator"
    CONSOLE = "console"


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """One call: `operation` is a route's template or a command's name; `code` the error code of a refused call.

    `actor`: the account that ran an operator's command. `rows`: how many rows the command changed, or how many calls
    without a valid key are summed up.
    """

    at: datetime
    door: Interface
    operation: str
    took_ms: float
    host_id: UUID = NO_HOST
    key_id: UUID | None = None
    actor: str | None = None
    status: int | None = None
    code: str | None = None
    request_id: UUID | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class CallFilter:
    """A filter of calls: by host, key, interface and operation; refused ones only; since a time."""

    host: UUID | None = None
    key: UUID | None = None
    door: Interface | None = None
    operation: str | None = None
    refused: bool = False
    since: timedelta | None = None


class CallAudit:
    """Writes and reads calls, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, calls: Sequence[AuditedCall]) -> None:
        """Write these calls in one statement."""
        await self._database.operator_fetch(WRITE, orjson.dumps(calls, default=str).decode())

    async def read(self, call_filter: CallFilter, limit: int) -> CallList:
        """Return at most `limit` calls, the newest first, with the names of their tenants and keys that still exist."""
        async with self._database.operator() as connection:
            rows = (await connection.execute(READ.where(*_build_conditions(call_filter)).limit(limit + 1))).mappings()
            found = [_describe_call(row) for row in rows]
        return CallList(calls=tuple(found[:limit]), has_more=len(found) > limit)


def _describe_call(row: RowMapping) -> Call:
    told: dict[str, Any] = dict(row)
    request = told["request_id"]
    return Call(**{**told, "took_ms": round(told["took_ms"], 2), "request_id": request and request.hex})


def _build_conditions(call_filter: CallFilter) -> Iterator[ColumnElement[bool]]:
    if call_filter.host is not None:
        yield _CALL.host_id == call_filter.host
    if call_filter.key is not None:
        yield _CALL.key_id == call_filter.key
    if call_filter.door is not None:
        yield _CALL.door == call_filter.door.value
    if call_filter.operation is not None:
        yield _CALL.operation == call_filter.operation
    if call_filter.refused:
        yield or_(_CALL.code.is_not(None), _CALL.status >= FIRST_REFUSAL)
    if call_filter.since is not None:
        yield _CALL.at >= func.now() - call_filter.since
