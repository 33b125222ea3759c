"""Finds the nearest earlier units of a unit; the database compares the vectors.

All of a bank's vectors are compared, for many units in one pass over them: 0.14 us of processor time a pair. The vector
index is searched for each unit, as recall does, and costs as much as a pass over four times the vectors that it reads
(12 ms for 25,000), so it serves larger banks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CTE,
    BigInteger,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Select,
    Uuid,
    bindparam,
    column,
    func,
    select,
    text,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.recall.dense_arm import search_settings
from store.recall.settings import RecallSettings
from store.recall.stored_vectors import IN_GENERATION, VECTOR, measure_distance
from store.schema import UNIT, in_bank
from store.sql_constants import ZERO

#: Candidates of an index for the nearest; some may be later, or of the same turn.
LOOKED_AT = 100
#: Factor up to which a scan of all vectors is not slower than an index.
ONE_PASS = 4

# The number of units, as counted by the projection stage; a bank that is not counted yet is small.
SIZE = text("""
    select s.units,
           case when s.units > greatest(cast(:exact_units as bigint), cast(:one_pass as bigint))
                then afterturn.lists_to_read(:bank, s.units, :read_units) end as lists
      from afterturn.bank_statistics_t s where s.host_id = :host and s.bank_id = :bank""")
_EARLIER = UNIT.alias("u")
_FIRST_CHUNK = VECTOR.c.chunk == ZERO


def _build_page() -> CTE:
    """Return the expression of the units to search for, with their vectors."""
    asked = (
        func.unnest(
            bindparam("units", type_=ARRAY(Uuid)),
            bindparam("positions", type_=ARRAY(BigInteger)),
            bindparam("turns", type_=ARRAY(Uuid)),
        )
        .table_valued(column("unit_id", Uuid), column("position", BigInteger), column("turn_id", Uuid))
        .render_derived("t")
    )
    vector = (
        select(VECTOR.c.embedding)
        .where(IN_GENERATION, VECTOR.c.unit_id == asked.c.unit_id, _FIRST_CHUNK)
        .offset(ZERO)
        .lateral("v")
    )
    return select(asked, vector.c.embedding).join_from(asked, vector, true()).cte("page").prefix_with("materialized")


_PAGE = _build_page()


def _compare_with_page(of: FromClause) -> ColumnElement[float]:
    return measure_distance(of.c.embedding, _PAGE.c.embedding)


def _rank_nearest(near: Select[*tuple[Any, ...]]) -> Select[UUID, UUID, int, float]:
    """Return the query of the nearest earlier units of other turns, at most `most` for each.

    Of equally near units the latest comes first. Vectors of reflections belong to no unit and are left out.
    """
    found = near.cte("near").prefix_with("materialized")
    earlier = (
        select(_EARLIER.c.position, _EARLIER.c.aggregate_version)
        .where(
            in_bank(_EARLIER),
            _EARLIER.c.unit_id == found.c.unit_id,
            _EARLIER.c.active,
            _EARLIER.c.position < found.c.position,
            (_EARLIER.c.turn_id == found.c.turn_id).is_not(true()),
        )
        .offset(ZERO)
        .lateral("u")
    )
    nth = func.row_number().over(
        partition_by=found.c.later, order_by=[found.c.cosine.desc(), earlier.c.position.desc(), found.c.unit_id]
    )
    ranked = (
        select(found.c.later, found.c.unit_id, found.c.cosine, earlier.c.aggregate_version, nth.label("nth"))
        .join_from(found, earlier, true())
        .where(found.c.unit_id != found.c.later)
        .cte("ranked")
    )
    return (
        select(ranked.c.later, ranked.c.unit_id, ranked.c.aggregate_version, ranked.c.cosine)
        .where(ranked.c.nth <= bindparam("most", type_=Integer))
        .order_by(ranked.c.later, ranked.c.nth)
    )


def _select_near(of: FromClause) -> Select[*tuple[Any, ...]]:
    return select(
        _PAGE.c.unit_id.label("later"),
        _PAGE.c.position,
        _PAGE.c.turn_id,
        of.c.unit_id,
        (-_compare_with_page(of)).label("cosine"),
    ).where(_compare_with_page(of) <= -bindparam("least", type_=Double))


#: The query that compares all vectors of the bank.
IN_ALL = _rank_nearest(_select_near(VECTOR).join_from(VECTOR, _PAGE, true()).where(IN_GENERATION, _FIRST_CHUNK))
_LISTED = (
    select(VECTOR.c.unit_id, VECTOR.c.embedding)
    .where(IN_GENERATION)
    .order_by(_compare_with_page(VECTOR))
    .limit(bindparam("looked_at", type_=Integer))
    .lateral("listed")
)
#: The query that searches the vector index for each unit of the page.
IN_LISTS = _rank_nearest(_select_near(_LISTED).join_from(_PAGE, _LISTED, true()))


@dataclass(frozen=True, slots=True)
class SearchedUnit:
    """A unit to search for: its text as of `position` of the log, and its turn."""

    unit_id: UUID
    version: int
    position: int
    turn_id: UUID | None


@dataclass(frozen=True, slots=True)
class NearPair:
    """A pair of units of different turns, and the cosine of their vectors; `version` is the earlier one's."""

    later: UUID
    earlier: UUID
    version: int
    cosine: float


@dataclass(frozen=True, slots=True)
class Size:
    """The cost of a search: vectors compared for one unit of a bank, and lists of its index (0: no index)."""

    compared: int
    lists: int


async def estimate_size(connection: AsyncConnection, host: UUID, bank: UUID, settings: RecallSettings) -> Size:
    """Return the cost of a search in this bank."""
    one_pass = ONE_PASS * settings.read_units
    limits = {"exact_units": settings.exact_units, "read_units": settings.read_units, "one_pass": one_pass}
    row = (await connection.execute(SIZE, {"host": host, "bank": bank, **limits})).one_or_none()
    if row is None:
        return Size(0, 0)
    return Size(settings.read_units if row.lists else row.units, row.lists or 0)


@dataclass(frozen=True, slots=True)
class Nearness:
    """A search for up to `most` earlier units of each unit, with a cosine of `least` or more, in one generation."""

    database: Database
    generation: int
    most: int
    least: float

    async def of(self, host: UUID, bank: UUID, lists: int, units: Sequence[SearchedUnit]) -> list[NearPair]:
        """Return the nearest earlier units of these units of a bank; a unit without a vector has none."""
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
            return [NearPair(*row) for row in rows]
