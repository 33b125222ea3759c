"""Finds reflections to embed; their vectors stand in the table of units' vectors, under the reflection's own id.

A new or changed reflection opens a row of the embedding stage in the transaction that writes it. The projectors delete
the vector of its former text, as they do with units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.readings import FollowUp, Unread, open_follow_ups
from store.derived.unit_vectors import CHARACTERS_READ, Unembedded, derive_reembedding_id
from store.ledger.ledger import LedgerRow
from store.ledger.stages import Stage
from store.log.envelope import Origin

MISSING = text("""
    select r.bank_id, r.reflection_id, left(r.content, :characters) as content, r.aggregate_version, true
      from unnest(cast(:banks as uuid[]), cast(:reflections as uuid[])) as w(bank, reflection),
           lateral (select r.* from afterturn.agent_memory_reflection_t r
                     where r.host_id = :host and r.bank_id = w.bank and r.reflection_id = w.reflection and r.active
                    offset 0) r
     where r.content <> '' and (
           select true from afterturn.unit_vector_t v
            where v.host_id = :host and v.bank_id = r.bank_id and v.generation = :generation
              and v.unit_id = r.reflection_id and v.chunk = 0) is null""")
# Reflections in the form of turns; the position is that of a reflection's last event.
LACKING = text("""
    select r.reflection_id, r.bank_id, r.reflection_id, e.position, r.update_ts
      from afterturn.agent_memory_reflection_t r,
           lateral (select max(e.position) as position from afterturn.event_store_t e
                     where e.host_id = :host
                       and e.bank_id = r.bank_id and e.aggregate_key = cast(r.reflection_id as text)) e
     where r.host_id = :host and r.active and r.content <> '' and e.position > :after
       and (cast(:bank as uuid) is null or r.bank_id = :bank)
       and not exists (select from afterturn.unit_vector_t v
                        where v.host_id = r.host_id and v.bank_id = r.bank_id and v.generation = :generation
                          and v.unit_id = r.reflection_id and v.chunk = 0)
     order by e.position limit :limit""")


@dataclass(frozen=True, slots=True)
class ChangedReflection:
    """A new or changed reflection, and the turn of its newest statement."""

    reflection_id: UUID
    turn_id: UUID


def derive_row_id(reflection: UUID, position: int) -> UUID:
    """Return the id of the ledger row by which a reflection is embedded in its state at `position`."""
    return uuid5(reflection, f"vector:{position}")


def find_reflection(row: LedgerRow, generation: int) -> UUID | None:
    """Return the reflection that a row of the embedding stage is for; None when it is for a turn's texts.

    Such a row has the reflection's id in place of a session's.
    """
    ids = derive_row_id(row.session_id, row.position), derive_reembedding_id(row.session_id, generation, row.position)
    return row.session_id if row.item_id in ids else None


async def open_rows(
    connection: AsyncConnection, origin: Origin, drawn: Sequence[ChangedReflection], position: int
) -> None:
    """Open embedding rows for these reflections, in the transaction that appended their events up to `position`."""
    ids = [(one, derive_row_id(one.reflection_id, position)) for one in drawn]
    rows = [
        FollowUp(Stage.EMBEDDING, item, item, origin.bank, one.reflection_id, one.turn_id, position, origin.at)
        for one, item in ids
    ]
    await open_follow_ups(connection, origin.host, rows)


async def read_missing(
    connection: AsyncConnection, host: UUID, generation: int, wanted: Sequence[tuple[UUID, UUID]]
) -> list[Unembedded]:
    """Return those of the wanted reflections (bank, reflection) that live and have no vector of this generation."""
    if not wanted:
        return []
    arguments = {
        "host": host,
        "generation": generation,
        "characters": CHARACTERS_READ,
        "banks": [bank for bank, _ in wanted],
        "reflections": [reflection for _, reflection in wanted],
    }
    return [Unembedded(*row) for row in await connection.execute(MISSING, arguments)]


async def read_lacking(
    connection: AsyncConnection, host: UUID, generation: int, *, bank: UUID | None, after: int, limit: int
) -> list[Unread]:
    """Return reflections of a host or bank without a vector of this generation, in the form of turns."""
    arguments = {"host": host, "generation": generation, "bank": bank, "after": after, "limit": limit}
    return [Unread(*row) for row in await connection.execute(LACKING, arguments)]
