"""The floor of an acknowledged turn, measured through the same pool as ours, directly on the driver.

It is a call that writes, without any logic, the rows which `append_turns` wrote for the same turns: they are read back,
assigned to another host, and inserted again from typed arrays.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.lab.bench.bench_database import BenchDatabase
from store.database import Database

#: The tables to which a turn adds rows, each with the condition for the rows of one turn.
ADDED_ROWS: Mapping[str, str] = {
    "event_store_t": "host_id = :host and bank_id = :bank and data->>'turnId' = cast(:turn as text)",
    "agent_memory_unit_t": "host_id = :host and bank_id = :bank and turn_id = cast(:turn as uuid)",
    "unit_word_t": """host_id = :host and bank_id = :bank and unit_id in (
        select unit_id from afterturn.agent_memory_unit_t
         where host_id = :host and bank_id = :bank and turn_id = cast(:turn as uuid))""",
    "turn_t": "host_id = :host and turn_id = cast(:turn as uuid)",
    "ledger_t": "host_id = :host and turn_id = cast(:turn as uuid)",
}
SESSION = "agent_session_history_t"
#: What the floor's rows have otherwise. Maintenance summarises no inactive session: its event would take the version of
#: a row that is yet to be copied.
CHANGED: Mapping[str, Mapping[str, Any]] = {SESSION: {"active": False}}

COLUMNS = text("""
    select attname from pg_attribute
     where attrelid = cast('afterturn.' || :table as regclass) and attnum > 0 and not attisdropped and attgenerated = ''
     order by attnum""")
# Copies the rows that must exist before a turn: the bank and its sessions.
PARENTS = {
    table: text(f"""
    insert into afterturn.{table}
    select (jsonb_populate_record(t, jsonb_build_object('host_id', cast(:floor as uuid)) || cast(:changed as jsonb))).*
      from afterturn.{table} t where t.host_id = :host
    on conflict do nothing""")  # noqa: S608 - one of two names
    for table in ("agent_memory_bank_t", SESSION)
}
# Arguments in the order of `_read_rows`.
BARE = "select pg_temp.bare($1, " + ", ".join(f"${n}" for n in range(2, len(ADDED_ROWS) + 3)) + ")"

Rows = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Floors:
    """The floor in one database; `host` is the host of its rows."""

    ground: BenchDatabase
    host: UUID

    async def prepare(self, database: Database, connections: int) -> None:
        """Create the function that writes rows on every connection of the pool."""
        async with self.ground.owner.begin() as connection:
            bare = await _define_bare_function(connection)
        async with AsyncExitStack() as lent:
            everyone = [await lent.enter_async_context(database.call()) for _ in range(connections)]
            await asyncio.gather(*(connection.execute(text(bare)) for connection in everyone))

    async def write(self, database: Database, rows: Rows) -> None:
        """Write the rows of a turn."""
        await database.fetch(BARE, *rows.values())

    async def adopt(self, host: UUID) -> None:
        """Copy bank and sessions of another host to the floor's host."""
        async with self.ground.owner.begin() as connection:
            for table, copy in PARENTS.items():
                changed = orjson.dumps(CHANGED.get(table, {})).decode()
                await connection.execute(copy, {"floor": self.host, "host": host, "changed": changed})

    async def rows(self, host: UUID, bank: UUID, session: UUID, turns: Sequence[UUID]) -> list[Rows]:
        """Return the rows that were written for turns of one session, as arguments of `write`."""
        async with self.ground.owner.connect() as connection:
            return [await self._read_rows(connection, host, bank, session, turn) for turn in turns]

    async def _read_rows(self, connection: AsyncConnection, host: UUID, bank: UUID, session: UUID, turn: UUID) -> Rows:
        place = {"host": host, "bank": bank, "session": session, "turn": str(turn)}
        of_session = "host_id = :host and bank_id = :bank and session_id = :session"
        found: dict[str, Any] = {"host": self.host}
        for table, which in (*ADDED_ROWS.items(), (SESSION, of_session)):
            select = text(f"select t from afterturn.{table} t where {which}")  # noqa: S608 - names and conditions above
            named = {name: value for name, value in place.items() if f":{name}" in which}
            records = (await connection.execute(select, named)).scalars()
            changed = {"host_id": self.host, **CHANGED.get(table, {})}
            found[table] = [_encode_row(record, changed) for record in records]
        return found


def _encode_row(record: Mapping[str, Any], changed: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a row as the driver takes it, with other values in some columns; the driver takes JSON as text."""
    row = {**record, **changed}
    return tuple(orjson.dumps(value).decode() if isinstance(value, dict) else value for value in row.values())


async def _define_bare_function(connection: AsyncConnection) -> str:
    """Return the definition of that function: an INSERT per table, and the update of the session's counters."""
    columns = {
        table: list((await connection.execute(COLUMNS, {"table": table})).scalars()) for table in (*ADDED_ROWS, SESSION)
    }
    quoted = {table: ", ".join(f'"{name}"' for name in names) for table, names in columns.items()}
    taken = ", ".join(f"p_{table} afterturn.{table}[]" for table in columns)
    inserts = "\n".join(
        f"insert into afterturn.{table} ({quoted[table]}) select {quoted[table]} from unnest(p_{table});"  # noqa: S608 - names of the catalog
        for table in ADDED_ROWS
    )
    assigned = ", ".join(
        f'"{name}" = n."{name}"' for name in columns[SESSION] if name not in ("host_id", "bank_id", "session_id")
    )
    return f"""
        create function pg_temp.bare(p_host uuid, {taken}) returns void
        language plpgsql set plan_cache_mode to force_generic_plan as $$
        begin
            perform set_config('afterturn.host', cast(p_host as text), true);
            {inserts}
            update afterturn.{SESSION} s set {assigned} from unnest(p_{SESSION}) n
             where s.host_id = n.host_id and s.bank_id = n.bank_id and s.session_id = n.session_id;
        end $$"""  # noqa: S608 - names of the catalog
