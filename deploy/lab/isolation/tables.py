"""Checks that every tenant table holds test data, and that the log is unchanged."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import NullPool, literal, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.lab.isolation.fixture import IsolationFixture
from deploy.lab.removal import TABLES, tenant_table
from store.connections import create_owner_engine

#: Tables of a tenant that may be empty during the check, each with the reason.
MAY_BE_EMPTY = {
    "audit_event_t": "failed attempts and what operators did; nothing fails here",
    "bank_language_t": "only after a change of language; a code, no words of anybody's",
    "call_audit_t": "written by the API process behind its answers; read by operators alone",
    "claim_t": "work in flight",
    "gateway_target_t": "set by operators; where turns are handed to, no words of a tenant's",
    "forgotten_unit_t": "work to do, of units that ended",
    "imported_id_t": "only of imports from another tenant; pairs of ids, no words of anybody's",
    "open_turn_t": "for an hour, behind tokens of memory_run_turn, which is off by default",
    "pruned_turns_t": "counts, after the ledger was pruned",
    "quota_t": "limits, set by operators; numbers alone",
    "reading_t": "only where an extractor reads a second time",
    "session_message_t": "only of histories from elsewhere; no interface takes them",
    "snapshot_t": "exports and imports that operators asked for; ids and counts",
    "stale_entity_t": "work to do",
    "subscription_t": "how far readers of the log have come: positions",
    "term_t": "filled by the worker that carries words",
    "posting_t": "filled by the worker that carries words",
    "unit_word_t": "emptied by the worker that carries words",
}
LOG = text("""
    select e.bank_id, md5(string_agg(md5(e::text), '' order by e.position)) as digest
      from afterturn.event_store_t e
     where e.host_id = any(:hosts) and e.bank_id = any(:banks)
     group by e.bank_id""")


async def find_empty_tables(owner_url: str, hosts: Sequence[UUID]) -> list[str]:
    """Return the tenant tables without a row of these hosts, except those that may be empty."""
    async with create_owner_engine(owner_url, poolclass=NullPool).connect() as connection:
        tables = [str(row[0]) for row in await connection.execute(TABLES)]
        return [one for one in tables if one not in MAY_BE_EMPTY and not await _has_rows(connection, one, hosts)]


async def _has_rows(connection: AsyncConnection, table: str, hosts: Sequence[UUID]) -> bool:
    rows = tenant_table(table)
    query = select(literal(1)).select_from(rows).where(rows.c.host_id.in_(hosts)).limit(1)
    return (await connection.execute(query)).first() is not None


async def hash_bank_logs(owner_url: str, fixture: IsolationFixture) -> Mapping[UUID, str]:
    """Return a digest of each bank's log; every change of a bank adds an event to the log, or erases one."""
    async with create_owner_engine(owner_url, poolclass=NullPool).connect() as connection:
        found = await connection.execute(LOG, {"hosts": fixture.host_ids, "banks": fixture.bank_ids})
        return {row.bank_id: row.digest for row in found}
