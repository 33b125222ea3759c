"""Records which extractor version has read which turn, together with its results.

The rules' first reading of a turn is its extraction row in the ledger. Further readings (a model besides the rules, a
newer version over history) are recorded here, so that a model is not asked twice for one turn although its ledger rows
are pruned; the findings of two readings are not compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.ledger.stages import Stage

BEGIN = text("""
    insert into afterturn.reading_t (host_id, turn_id, version, bank_id) values (:host, :turn, :version, :bank)
    on conflict do nothing returning turn_id""")
OPEN = text("""
    insert into afterturn.ledger_t
        (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, accepted_at, bytes)
    select cast(:host as uuid), w.stage, w.item, w.stream, w.bank, w.session, w.turn, w.position, w.accepted_at,
           case when w.reads_texts then coalesce((
               select sum(u.bytes) from afterturn.agent_memory_unit_t u
                where u.host_id = :host and u.bank_id = w.bank and u.turn_id = w.turn and u.origin <> 'extraction'), 0)
           else 0 end
      from unnest(cast(:stages as text[]), cast(:items as uuid[]), cast(:streams as uuid[]), cast(:banks as uuid[]),
                  cast(:sessions as uuid[]), cast(:turns as uuid[]), cast(:positions as bigint[]),
                  cast(:accepted_at as timestamptz[]), cast(:reads_texts as boolean[]))
           as w(stage, item, stream, bank, session, turn, position, accepted_at, reads_texts)
    on conflict do nothing returning item_id""")
# Facts of a turn, whichever version found them.
KNOWN = text("""
    select u.metadata->>'fact_id' as fact_id, u.metadata->>'key' as key, u.metadata->>'value' as value
      from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.bank_id = :bank and u.turn_id = :turn and u.origin = 'extraction'
       and (u.active or :ended)""")
FIRST = text("""
    select min(u.position) from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.bank_id = :bank and u.unit_id = any(cast(:units as uuid[]))""")
# Turns that a version has not read, and for which no ledger row is open; documents' chunks count like turns.
LACKING = text("""
    select t.turn_id, t.bank_id, t.session_id, t.position, t.accepted_at from afterturn.turn_t t
     where t.host_id = :host and t.position > :after and (cast(:bank as uuid) is null or t.bank_id = :bank)
       and (select true from afterturn.reading_t r
             where r.host_id = t.host_id and r.turn_id = t.turn_id and r.version = :version) is null
     order by t.position limit :limit""")


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A further ledger row for a turn; `item` is its id, `stream` what a worker claims to do it.

    `reads_texts`: its work reads the turn's texts, so their bytes count for the size of a claim.
    """

    stage: Stage
    item: UUID
    stream: UUID
    bank: UUID
    session: UUID
    turn: UUID
    position: int
    accepted_at: datetime
    reads_texts: bool = False


async def record_reading(connection: AsyncConnection, host: UUID, bank: UUID, turn: UUID, version: str) -> bool:
    """Record that a version has read a turn, in the transaction that writes its findings. False: it was recorded."""
    arguments = {"host": host, "bank": bank, "turn": turn, "version": version}
    return (await connection.execute(BEGIN, arguments)).first() is not None


async def open_follow_ups(connection: AsyncConnection, host: UUID, wanted: Sequence[FollowUp]) -> int:
    """Open follow-up rows for turns of a host, each once; return how many are new."""
    if not wanted:
        return 0
    arguments = {
        "stages": [one.stage.value for one in wanted],
        "items": [one.item for one in wanted],
        "streams": [one.stream for one in wanted],
        "banks": [one.bank for one in wanted],
        "sessions": [one.session for one in wanted],
        "turns": [one.turn for one in wanted],
        "positions": [one.position for one in wanted],
        "accepted_at": [one.accepted_at for one in wanted],
        "reads_texts": [one.reads_texts for one in wanted],
    }
    return len((await connection.execute(OPEN, {"host": host, **arguments})).all())


async def read_known_facts(
    connection: AsyncConnection, host: UUID, bank: UUID, turn: UUID, *, ended: bool
) -> list[tuple[str, str, str]]:
    """Return id, key and value of the facts of a turn; with `ended` also of those that have ended."""
    rows = await connection.execute(KNOWN, {"host": host, "bank": bank, "turn": turn, "ended": ended})
    return [(row.fact_id or "", row.key or "", row.value or "") for row in rows]


async def find_first_position(connection: AsyncConnection, host: UUID, bank: UUID, units: Sequence[UUID]) -> int | None:
    """Return the lowest log position of these units; None when none of them exists."""
    found = await connection.execute(FIRST, {"host": host, "bank": bank, "units": list(units)})
    position: int | None = found.scalar()
    return position


@dataclass(frozen=True, slots=True)
class Unread:
    """A turn that an extractor version has not read."""

    turn: UUID
    bank: UUID
    session: UUID
    position: int
    accepted_at: datetime


async def read_unread_turns(
    connection: AsyncConnection, host: UUID, version: str, *, bank: UUID | None, after: int, limit: int
) -> list[Unread]:
    """Return at most `limit` turns of a host or bank that a version has not read, after a position, in log order."""
    arguments = {"host": host, "version": version, "bank": bank, "after": after, "limit": limit}
    return [Unread(*row) for row in await connection.execute(LACKING, arguments)]
