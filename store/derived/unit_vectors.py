"""Vectors of units and reflections: finds missing ones and writes each once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.readings import FollowUp, Unread, open_follow_ups
from store.ledger.ledger import LedgerRow
from store.ledger.stages import Stage
from store.log.envelope import Origin

#: How many characters of a text are read: more than the 256 tokens of a vector ever hold.
CHARACTERS_READ = 8192

# A turn's messages and the facts extracted from it later are separate work. A unit without a turn has its own id here.
MISSING = text("""
    select u.bank_id, u.unit_id, left(u.content, :characters) as content, u.aggregate_version
      from unnest(cast(:banks as uuid[]), cast(:turns as uuid[]), cast(:facts as boolean[])) as w(bank, turn, facts),
           lateral (select u.bank_id, u.unit_id, u.content, u.aggregate_version from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = w.bank and u.turn_id = w.turn and u.active
                       and (u.origin = 'extraction') = w.facts
                    union all
                    select u.bank_id, u.unit_id, u.content, u.aggregate_version from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = w.bank and u.unit_id = w.turn and u.turn_id is null
                       and u.active and not w.facts offset 0) u
     where (select true from afterturn.unit_vector_t v
             where v.host_id = :host and v.bank_id = u.bank_id and v.generation = :generation
               and v.unit_id = u.unit_id and v.chunk = 0) is null""")
# An erasure locks its bank exclusively: a writer that waits for it with a unit locked here would deadlock.
SHARE_BANKS = text("""
    select pg_advisory_xact_lock_shared(k.key)
      from (select distinct afterturn.lock_key('bank', b.bank) as key
              from unnest(cast(:banks as uuid[])) as b(bank) order by 1) k""")
# The unit is locked so that it cannot be forgotten before its vector exists and is deleted with it. Nothing is inserted
# for a text that was corrected meanwhile.
INSERT = text("""
    insert into afterturn.unit_vector_t (host_id, bank_id, unit_id, chunk, generation, embedding)
    select u.host_id, u.bank_id, u.unit_id, 0, cast(:generation as smallint), cast(:embedding as public.halfvec)
      from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.bank_id = :bank and u.unit_id = :unit and u.active
       and u.aggregate_version = :version for share
    on conflict do nothing""")
# Waits for the writer of a bank's reflections, which locks many of its entities together.
SHARE_ENTITIES = text("""
    select pg_advisory_xact_lock_shared(k.key)
      from (select distinct afterturn.lock_key('entities', b.bank) as key
              from unnest(cast(:banks as uuid[])) as b(bank) order by 1) k""")
INSERT_OF_REFLECTION = text("""
    insert into afterturn.unit_vector_t (host_id, bank_id, unit_id, chunk, generation, embedding)
    select r.host_id, r.bank_id, r.reflection_id, 0, cast(:generation as smallint),
           cast(:embedding as public.halfvec)
      from afterturn.agent_memory_reflection_t r
     where r.host_id = :host and r.bank_id = :bank and r.reflection_id = :unit and r.active
       and r.aggregate_version = :version for share
    on conflict do nothing""")
# Turns with a text that has no vector of a generation.
LACKING = text("""
    select t.turn_id, t.bank_id, t.session_id, t.position, t.accepted_at from afterturn.turn_t t
     where t.host_id = :host and t.position > :after and (cast(:bank as uuid) is null or t.bank_id = :bank)
       and exists (select from afterturn.agent_memory_unit_t u
                    where u.host_id = t.host_id and u.bank_id = t.bank_id and u.turn_id = t.turn_id and u.active
                      and not exists (select from afterturn.unit_vector_t v
                                       where v.host_id = u.host_id and v.bank_id = u.bank_id
                                         and v.generation = :generation and v.unit_id = u.unit_id and v.chunk = 0))
     order by t.position limit :limit""")
# Units without a turn, each treated as one, at the position of its last event.
LACKING_ALONE = text("""
    select u.unit_id, u.bank_id, u.bank_id, p.position, u.update_ts
      from afterturn.agent_memory_unit_t u,
           lateral (select case when u.aggregate_version = 1 then u.position else (
                           select max(e.position) from afterturn.event_store_t e
                            where e.host_id = :host and e.bank_id = u.bank_id
                              and e.aggregate_key = cast(u.unit_id as text)) end as position) p
     where u.host_id = :host and (cast(:bank as uuid) is null or u.bank_id = :bank) and u.turn_id is null and u.active
       and u.content <> '' and p.position > :after
       and not exists (select from afterturn.unit_vector_t v
                        where v.host_id = u.host_id and v.bank_id = u.bank_id and v.generation = :generation
                          and v.unit_id = u.unit_id and v.chunk = 0)
     order by p.position limit :limit""")


@dataclass(frozen=True, slots=True)
class UnitsToEmbed:
    """The units of a turn to embed: its messages, or the facts drawn from it.

    A unit that belongs to no turn has its own id as `turn_id`.
    """

    bank_id: UUID
    turn_id: UUID
    facts: bool


@dataclass(frozen=True, slots=True)
class Unembedded:
    """A unit (or `reflection`) without a vector of one generation; `content` is cut to what a vector can hold."""

    bank_id: UUID
    unit_id: UUID
    content: str = field(repr=False)
    version: int
    reflection: bool = False


async def read_missing(
    connection: AsyncConnection, host: UUID, generation: int, wanted: Sequence[UnitsToEmbed]
) -> list[Unembedded]:
    """Return the active units of these turns that have no vector of this generation."""
    arguments = {
        "host": host,
        "generation": generation,
        "characters": CHARACTERS_READ,
        "banks": [one.bank_id for one in wanted],
        "turns": [one.turn_id for one in wanted],
        "facts": [one.facts for one in wanted],
    }
    return [Unembedded(*row) for row in await connection.execute(MISSING, arguments)]


async def insert_vectors(
    connection: AsyncConnection,
    host: UUID,
    generation: int,
    units: Sequence[Unembedded],
    vectors: NDArray[np.float32],
) -> None:
    """Write the vectors (one row a unit, in order) of units whose text is unchanged and that have none yet."""
    if not units:
        return
    rows: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for unit, vector in zip(units, vectors, strict=True):
        place = {"host": host, "bank": unit.bank_id, "unit": unit.unit_id, "version": unit.version}
        rows[unit.reflection].append({**place, "generation": generation, "embedding": vector})
    await connection.execute(SHARE_BANKS, {"banks": sorted({unit.bank_id for unit in units})})
    if of_reflections := rows[True]:
        await connection.execute(SHARE_ENTITIES, {"banks": sorted({row["bank"] for row in of_reflections})})
        await connection.execute(INSERT_OF_REFLECTION, of_reflections)
    if rows[False]:
        await connection.execute(INSERT, rows[False])


def derive_reembedding_id(turn: UUID, generation: int, position: int) -> UUID:
    """Return the id of the ledger row by which all texts of a turn are embedded again, by another model.

    A reflection, whose id then stands for the turn's, has a later position with each change of its text.
    """
    return uuid5(turn, f"vectors:{generation}:{position}")


def corrected_id(turn: UUID, position: int) -> UUID:
    """Return the id of the ledger row by which a turn's texts without a vector are embedded, by any model.

    `position` is that of a correction, or of the log when their vectors were found to be missing.
    """
    return uuid5(turn, f"corrected:{position}")


async def find_turns_without_vectors(
    connection: AsyncConnection,
    host: UUID,
    generation: int,
    *,
    bank: UUID | None,
    after: int,
    limit: int,
) -> list[Unread]:
    """Return turns of a host or bank with a text that has no vector of this generation, in log order.

    Units that belong to no turn, as of a history that was written in bulk, are listed like turns.
    """
    arguments = {"host": host, "generation": generation, "bank": bank, "after": after, "limit": limit}
    found = [
        Unread(*row) for lacking in (LACKING, LACKING_ALONE) for row in await connection.execute(lacking, arguments)
    ]
    return sorted(found, key=lambda one: one.position)[:limit]


MISSING_REFLECTIONS = text("""
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
LACKING_REFLECTIONS = text("""
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


async def read_missing_reflections(
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
    return [Unembedded(*row) for row in await connection.execute(MISSING_REFLECTIONS, arguments)]


async def find_reflections_without_vectors(
    connection: AsyncConnection, host: UUID, generation: int, *, bank: UUID | None, after: int, limit: int
) -> list[Unread]:
    """Return reflections of a host or bank without a vector of this generation, in the form of turns."""
    arguments = {"host": host, "generation": generation, "bank": bank, "after": after, "limit": limit}
    return [Unread(*row) for row in await connection.execute(LACKING_REFLECTIONS, arguments)]
