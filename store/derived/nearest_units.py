"""Which earlier units of a bank a unit is nearest to in meaning: vectors compared where they are stored.

All of a bank's vectors are compared, for many units in one pass over them: 0.14 us of the processor a pair. The index
by nearness is asked for each unit as recall asks it, and costs as much as a pass over four times what it reads (12 ms
for 25,000), so it serves banks beyond that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.recall.dense_arm import search_settings
from store.recall.settings import RecallSettings

#: Candidates of an index for the nearest; some may be later, or of the same turn.
LOOKED_AT = 100
#: A scan of this many times what an index reads is no slower.
ONE_PASS = 4

# The projection stage counts units; a bank it has not counted yet is a small one.
SIZE = text("""
    select s.units,
           case when s.units > greatest(cast(:exact_units as bigint), cast(:one_pass as bigint))
                then afterturn.lists_to_read(:bank, s.units, :read_units) end as lists
      from afterturn.bank_statistics_t s where s.host_id = :host and s.bank_id = :bank""")
_PAGE = """
    with page as materialized (
        select t.unit_id, t.position, t.turn_id, v.embedding
          from unnest(cast(:units as uuid[]), cast(:positions as bigint[]), cast(:turns as uuid[]))
                   as t(unit_id, position, turn_id),
               lateral (select v.embedding from afterturn.unit_vector_t v
                         where v.host_id = :host and v.bank_id = :bank and v.generation = :generation
                           and v.unit_id = t.unit_id and v.chunk = 0 offset 0) v
    ), near as materialized ("""
_NEAR = """
        select p.unit_id as later, p.position, p.turn_id, v.unit_id, -(v.embedding <#> p.embedding) as cosine"""
_IN_ALL = f"""{_NEAR}
          from afterturn.unit_vector_t v, page p
         where v.host_id = :host and v.bank_id = :bank and v.generation = :generation and v.chunk = 0
           and v.embedding <#> p.embedding <= -cast(:least as float8)"""
_IN_LISTS = f"""{_NEAR}
          from page p,
               lateral (select v.unit_id, v.embedding from afterturn.unit_vector_t v
                         where v.host_id = :host and v.bank_id = :bank and v.generation = :generation
                         order by v.embedding <#> p.embedding limit :looked_at) v
         where v.embedding <#> p.embedding <= -cast(:least as float8)"""  # noqa: S608 - put together from constants
# Equally near: what was said last. Vectors of reflections stand among those of units and join none.
_RANKED = """
    ), ranked as (
        select n.later, n.unit_id, n.cosine, u.aggregate_version,
               row_number() over (partition by n.later order by n.cosine desc, u.position desc, n.unit_id) as nth
          from near n,
               lateral (select u.position, u.aggregate_version from afterturn.agent_memory_unit_t u
                         where u.host_id = :host and u.bank_id = :bank and u.unit_id = n.unit_id and u.active
                           and u.position < n.position and (u.turn_id = n.turn_id) is not true offset 0) u
         where n.unit_id <> n.later
    )
    select r.later, r.unit_id, r.aggregate_version, r.cosine from ranked r where r.nth <= :most order by 1, r.nth"""
IN_ALL = text(_PAGE + _IN_ALL + _RANKED)
IN_LISTS = text(_PAGE + _IN_LISTS + _RANKED)


@dataclass(frozen=True, slots=True)
class Later:
    """A unit as its text was at `position` of the log, and the turn it stands in."""

    unit_id: UUID
    version: int
    position: int
    turn_id: UUID | None


@dataclass(frozen=True, slots=True)
class Near:
    """A pair of units of different turns, and the cosine of their vectors; `version` is the earlier one's."""

    later: UUID
    earlier: UUID
    version: int
    cosine: float


@dataclass(frozen=True, slots=True)
class Size:
    """How many vectors are compared for one unit of a bank, and in how many lists of an index (0: in none)."""

    compared: int
    lists: int


async def estimate_size(connection: AsyncConnection, host: UUID, bank: UUID, settings: RecallSettings) -> Size:
    """Say how large a search in this bank is."""
    one_pass = ONE_PASS * settings.read_units
    limits = {"exact_units": settings.exact_units, "read_units": settings.read_units, "one_pass": one_pass}
    row = (await connection.execute(SIZE, {"host": host, "bank": bank, **limits})).one_or_none()
    if row is None:
        return Size(0, 0)
    return Size(settings.read_units if row.lists else row.units, row.lists or 0)


@dataclass(frozen=True, slots=True)
class Nearness:
    """Up to `most` earlier units for each, none below the cosine `least`; vectors of one generation alone."""

    database: Database
    generation: int
    most: int
    least: float

    async def of(self, host: UUID, bank: UUID, lists: int, units: Sequence[Later]) -> list[Near]:
        """Return what these units of a bank are nearest to; a unit without a vector is near to nothing."""
        arguments = {
            "host": host,
            "bank": bank,
            "generation": self.generation,
            "units": [unit.unit_id for unit in units],
            "positions": [unit.position for unit in units],
            "turns": [unit.turn_id for unit in units],
            "least": self.least,
            "most": self.most,
        }
        async with self.database.tenant(host, search_settings(lists)) as connection:
            if lists:
                rows = await connection.execute(IN_LISTS, {**arguments, "looked_at": LOOKED_AT})
            else:
                rows = await connection.execute(IN_ALL, arguments)
            return [Near(*row) for row in rows]
