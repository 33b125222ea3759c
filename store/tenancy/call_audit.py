"""Who called which interface, for what, how long it took and how it ended. Never content, nor names of sessions.

Rows are written in batches, as the operator and outside of any call; they are pruned by `call_audit_t.at`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import text

from store.database import Database

#: The host of calls without a valid key; these are summed up (producers/service/auditing.py).
NO_HOST = UUID(int=0)
#: HTTP statuses from here on are refusals.
FIRST_REFUSAL = 400

WRITE = text("""
    insert into afterturn.call_audit_t
           (host_id, at, door, key_id, actor, operation, status, code, took_ms, request_id, rows)
    select * from unnest(
        cast(:host_id as uuid[]), cast(:at as timestamptz[]), cast(:door as text[]), cast(:key_id as uuid[]),
        cast(:actor as text[]), cast(:operation as text[]), cast(:status as int[]), cast(:code as text[]),
        cast(:took_ms as real[]), cast(:request_id as uuid[]), cast(:rows as bigint[]))""")
READ = text("""
    select c.at, c.door, c.operation, c.took_ms, c.host_id, c.key_id, c.actor, c.status, c.code, c.request_id, c.rows,
           h.name as host, k.label
      from afterturn.call_audit_t c
      left join afterturn.host_t h using (host_id)
      left join afterturn.api_key_t k on k.key_id = c.key_id
     where (cast(:host as uuid) is null or c.host_id = :host)
       and (cast(:key as uuid) is null or c.key_id = :key)
       and (cast(:door as text) is null or c.door = :door)
       and (cast(:operation as text) is null or c.operation = :operation)
       and (not :refused or c.code is not null or c.status >= :first_refusal)
       and (cast(:since as interval) is null or c.at >= now() - cast(:since as interval))
     order by c.at desc, c.call_id desc limit :limit""")


class Interface(StrEnum):
    """Where a call came in."""

    HTTP = "http"
    GATEWAY = "gateway"
    MCP = "mcp"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Call:
    """One call: `operation` is a route's template or a command's name; `code` how it was refused, if it was.

    `actor` is who was logged in where an operator's command was run. `rows`: how many rows that changed, or how many
    calls without a valid key are summed up.
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
class Recorded:
    """A call as it was kept, with the names of its host and key, where they still are."""

    call: Call
    host: str | None
    key_label: str | None


@dataclass(frozen=True, slots=True)
class Sought:
    """Which calls: of a host, a key, a door, an operation; only refused ones; not longer ago than `since`."""

    host: UUID | None = None
    key: UUID | None = None
    door: Interface | None = None
    operation: str | None = None
    refused: bool = False
    since: timedelta | None = None


_COLUMNS = tuple(one.name for one in fields(Call))


class CallAudit:
    """Writes and reads calls, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, calls: Sequence[Call]) -> None:
        """Write calls in one statement."""
        columns: dict[str, Any] = {name: [getattr(call, name) for call in calls] for name in _COLUMNS}
        columns["door"] = [call.door.value for call in calls]
        async with self._database.operator() as connection:
            await connection.execute(WRITE, columns)

    async def read(self, sought: Sought, limit: int) -> tuple[list[Recorded], bool]:
        """Return at most `limit` calls, the newest first, and whether there are more."""
        arguments = {
            "host": sought.host,
            "key": sought.key,
            "door": sought.door and sought.door.value,
            "operation": sought.operation,
            "refused": sought.refused,
            "first_refusal": FIRST_REFUSAL,
            "since": sought.since,
            "limit": limit + 1,
        }
        async with self._database.operator() as connection:
            rows = (await connection.execute(READ, arguments)).all()
        found = [Recorded(Call(row.at, Interface(row.door), *row[2:11]), row.host, row.label) for row in rows[:limit]]
        return found, len(rows) > limit
