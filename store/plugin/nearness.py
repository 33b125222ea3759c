"""Finds the units near to a search: in large banks by their indexes, in others by comparing all vectors.

The best by words and nearness together are one query of it, `BEST`.

The banks of one search are compared on two connections at once: this is what a search of several namespaces costs most.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Numeric,
    Select,
    SmallInteger,
    Uuid,
    and_,
    any_,
    bindparam,
    cast,
    column,
    func,
    join,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.concurrent_calls import gather_or_cancel
from store.database import ONE_PLAN, Database
from store.driver_rows import DriverRow, fetch_rows
from store.page_bytes import cut_to_bytes
from store.plugin.marks import (
    BANKS,
    HOST,
    TEXTS,
    is_memory_of,
    is_pinned,
    memory_columns,
    order_found,
    unnest_banks,
)
from store.plugin.vectors import probe_lists
from store.recall.stored_vectors import IndexedVectors
from store.schema import UNIT, UNIT_VECTOR
from store.sql_constants import ONE, ZERO, inline
from store.vectors import HalfVector

#: Digits by which scores are compared. A vector that was just made differs from the stored one beyond them.
SCORE_DIGITS = 4

_UNIT, _VECTOR, _BANK = UNIT.alias("u"), UNIT_VECTOR.alias("v"), unnest_banks()
_ASKED = cast(bindparam("vector", type_=HalfVector()), HalfVector())
_NEAR, _WEIGHT = bindparam("near", type_=Double), bindparam("weight", type_=Double)
_LOOKED_AT, _OPENED = bindparam("looked_at", type_=Integer), bindparam("opened", type_=Integer)
_UNITS, _LIMIT = bindparam("units", type_=ARRAY(Uuid)), bindparam("limit", type_=Integer)
# Of unit vectors the inner product is the cosine, and `<#>` is its negative.
_DISTANCE: ColumnElement[float] = _VECTOR.c.embedding.op("<#>", return_type=Double())(_ASKED)
_COSINE = (-_DISTANCE).label("cosine")
_IN_GENERATION = and_(_VECTOR.c.host_id == HOST, _VECTOR.c.generation == bindparam("generation", type_=SmallInteger))


def _is_first_of(bank: FromClause) -> ColumnElement[bool]:
    """Return the condition that a vector is of the first chunk of a unit of this bank."""
    return and_(_IN_GENERATION, _VECTOR.c.chunk == ZERO, _VECTOR.c.bank_id == bank.c.bank_id)


def _unnest_units(units: ColumnElement[Any], numbers: str, number: str, name: str) -> FromClause:
    """Return units and the parameter `numbers` as rows of `unit_id` and a column named `number`."""
    rows = func.unnest(units, bindparam(numbers, type_=ARRAY(Double)))
    return rows.table_valued(column("unit_id", Uuid), column(number, Double)).render_derived(name)


# All vectors of a bank are compared ----------------------------------------------------------------------------------


def _select_near(*, of_memories: bool) -> Select[*tuple[Any, ...]]:
    """Select the nearest units, or memories alone, of each bank, by comparing all its vectors.

    Units below `near`, which are most, are filtered before the sort. It is exact: no index serves an order by a sum.
    """
    distance = (_DISTANCE + ZERO).label("distance")
    nearest = select(_VECTOR.c.bank_id, _VECTOR.c.unit_id, distance).where(_is_first_of(_BANK), -_DISTANCE >= _NEAR)
    if of_memories:
        is_named = and_(is_memory_of(_BANK.c.bank_id, _UNIT), _UNIT.c.unit_id == _VECTOR.c.unit_id)
        nearest = nearest.join_from(_VECTOR, _UNIT, is_named)
    found = nearest.order_by(distance).limit(_LOOKED_AT).lateral("n")
    cosine = (-found.c.distance).label("cosine")
    return select(found.c.bank_id, found.c.unit_id, cosine).join_from(_BANK, found, true())


NEAR, NEAR_MEMORIES = _select_near(of_memories=False), _select_near(of_memories=True)


# The best by words and nearness --------------------------------------------------------------------------------------


def _find_pinned() -> CTE:
    """Return the newest pinned memories of each bank."""
    pinned = (
        select(_UNIT.c.bank_id, _UNIT.c.unit_id)
        .where(is_memory_of(_BANK.c.bank_id, _UNIT), is_pinned(_UNIT))
        .order_by(_UNIT.c.mentioned_at.desc())
        .limit(bindparam("pins", type_=Integer))
        .lateral("p")
    )
    return select(pinned).join_from(_BANK, pinned, true()).cte("pinned").prefix_with("materialized")


def _group_by_bank(pinned: CTE) -> FromClause:
    """Return the units that share words, and the pinned memories, as an array for each bank."""
    of_banks = func.unnest(bindparam("of_banks", type_=ARRAY(Uuid)), _UNITS)
    words = of_banks.table_valued(column("bank_id", Uuid), column("unit_id", Uuid)).render_derived("w")
    each = union_all(select(words), select(pinned.c.bank_id, pinned.c.unit_id)).subquery("e")
    return select(each.c.bank_id, func.array_agg(each.c.unit_id).label("units")).group_by(each.c.bank_id).subquery("g")


def _measure_cosines(pinned: CTE) -> CTE:
    """Return the cosines of units measured before, of those that share words, and of pinned memories."""
    known = _unnest_units(bindparam("known", type_=ARRAY(Uuid)), "cosines", "cosine", "k")
    named = _group_by_bank(pinned)
    of_named = (
        select(_VECTOR.c.unit_id, _COSINE)
        .where(_is_first_of(named), _VECTOR.c.unit_id == any_(named.c.units))
        .offset(ZERO)
        .lateral("v")
    )
    each = union_all(select(known), select(of_named).join_from(named, of_named, true())).subquery("c")
    return select(each.c.unit_id, func.max(each.c.cosine).label("cosine")).group_by(each.c.unit_id).cte("cosines")


def _round_score(score: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a score as it is compared: a text that waits for its vector and an equal one with it have the same."""
    return cast(func.round(cast(score, Numeric), inline(SCORE_DIGITS)), Double)


def _fuse_scores(cosines: CTE) -> CTE:
    """Return the units that share words or are near, each with the weighted sum of both scores."""
    words = _unnest_units(_UNITS, "scores", "score", "w")
    by_words, by_nearness = func.coalesce(words.c.score, ZERO), func.coalesce(cosines.c.cosine, ZERO)
    score = _round_score((by_words + _WEIGHT * func.greatest(ZERO, by_nearness)) / (_WEIGHT + ONE))
    return (
        select(func.coalesce(words.c.unit_id, cosines.c.unit_id).label("unit_id"), score.label("score"))
        .select_from(join(words, cosines, words.c.unit_id == cosines.c.unit_id, full=True))
        .where(or_(words.c.score > ZERO, cosines.c.cosine >= _NEAR))
        .cte("fused")
        .prefix_with("materialized")
    )


def _open_best(fused: CTE, pinned: CTE) -> FromClause:
    """Return the memories among the pinned and the best units: rows are read until `limit` memories are found."""
    pins = select(pinned.c.unit_id)
    first = select(fused).where(fused.c.unit_id.in_(pins)).subquery("f")
    others = select(fused).where(fused.c.unit_id.not_in(pins)).order_by(fused.c.score.desc())
    best = others.fetch(_OPENED, with_ties=True).subquery("b")
    opened = _open_memories(best).order_by(best.c.score.desc()).fetch(_LIMIT, with_ties=True).subquery("o")
    found = union_all(_open_memories(first), select(opened)).subquery("a")
    memory = [found.c[one.name] for one in memory_columns(_UNIT)]
    best_of_all = select(*memory, found.c.score).order_by(*order_found(found)).limit(_LIMIT)
    return cut_to_bytes(best_of_all, order_found, TEXTS).cte("found")


def _open_memories(ranked: FromClause) -> Select[*tuple[Any, ...]]:
    """Select the memories among ranked units, each by one probe of an index."""
    unit = (
        select(_UNIT).where(is_memory_of(any_(BANKS), _UNIT), _UNIT.c.unit_id == ranked.c.unit_id).limit(ONE)
    ).lateral("u")
    return select(*memory_columns(unit), ranked.c.score).join_from(ranked, unit, true())


def _select_best() -> Select[*tuple[Any, ...]]:
    """Select the best memories by words and nearness; `cut` in each row, or in one without a memory: there are more."""
    pinned = _find_pinned()
    fused = _fuse_scores(_measure_cosines(pinned))
    found = _open_best(fused, pinned)
    is_cut = select(func.count()).select_from(fused).scalar_subquery() > _OPENED
    told = select(is_cut.label("cut")).subquery("t")
    return select(told.c.cut, found).join_from(told, found, true(), isouter=True)


BEST = _select_best()


# An index of lists is read -------------------------------------------------------------------------------------------


@cache
def select_near_in_lists(vectors: IndexedVectors) -> Select[*tuple[Any, ...]]:
    """Select the nearest units of a bank, approximately: the IVFFlat index on these vectors serves this order."""
    distance = vectors.measure_distance(_VECTOR)
    return (
        select(_VECTOR.c.unit_id, _VECTOR.c.chunk, (-distance).label("cosine"))
        .where(_VECTOR.c.host_id == HOST, vectors.contain(_VECTOR), _VECTOR.c.bank_id == bindparam("bank", type_=Uuid))
        .order_by(distance)
        .limit(_LOOKED_AT)
    )


@cache
def select_memories_in_lists(vectors: IndexedVectors) -> Select[*tuple[Any, ...]]:
    """Select the memories of the asked kinds among the nearest units."""
    near = select_near_in_lists(vectors).cte("near").prefix_with("materialized")
    return (
        select(_UNIT.c.unit_id, near.c.chunk, near.c.cosine)
        .join_from(near, _UNIT, _UNIT.c.unit_id == near.c.unit_id)
        .where(near.c.chunk == ZERO, is_memory_of(bindparam("bank", type_=Uuid), _UNIT))
        .order_by(near.c.cosine.desc())
        .limit(bindparam("most", type_=Integer))
    )


#: Units read from an index for each memory that is wanted. If fewer than one in ten is a memory, all vectors of the
#: namespace are compared.
LOOKED_AT = 10
#: Units of any kind read first for each memory that is compared.
FIRST_LOOKED_AT = 2
#: Connections that compare the banks of one search: with two, a search of three of 10,000 units takes 12 % less time.
LANES = 2


@dataclass(frozen=True, slots=True)
class BankSize:
    """A bank's number of units, and how many lists of its index are probed; None: all vectors are compared."""

    units: int
    lists: int | None


@dataclass(frozen=True, slots=True)
class NearUnits:
    """Cosines of the units near to a search; `are_cut`: there are more."""

    cosines: Mapping[UUID, float] = field(default_factory=dict, repr=False)
    are_cut: bool = False

    @classmethod
    def join(cls, parts: Iterable["NearUnits"]) -> "NearUnits":
        """Return the units of all parts."""
        cosines, are_cut = dict[UUID, float](), False
        for part in parts:
            cosines |= part.cosines
            are_cut |= part.are_cut
        return cls(cosines, are_cut)


@dataclass(frozen=True, slots=True)
class NearSearch:
    """A search by meaning: the most units wanted of each bank, and the parameters of its statements.

    `of_memories`: memories alone are looked for, by comparing all vectors where an index gives too few.
    """

    most: int
    of_memories: bool
    arguments: Mapping[str, Any] = field(repr=False)

    async def run(self, connection: AsyncConnection, banks: Mapping[UUID, BankSize]) -> NearUnits:
        """Return the units of these banks that are near, on one connection, in its transaction."""
        by_index = list[NearUnits]()
        whole = list[UUID]()
        for bank, size in banks.items():
            near = None if size.lists is None else await self._read_lists(connection, bank, size.lists)
            if near is None:
                whole.append(bank)
            else:
                by_index.append(near)
        return NearUnits.join([*by_index, await self._compare(connection, whole)])

    async def run_in_lanes(self, database: Database, banks: Mapping[UUID, BankSize]) -> NearUnits:
        """Return the units of these banks that are near; no connection may be held meanwhile."""
        lanes = [dict(some) for lane in range(LANES) if (some := list(banks.items())[lane::LANES])]
        return NearUnits.join(await gather_or_cancel(*(self._run_lane(database, lane) for lane in lanes)))

    async def _run_lane(self, database: Database, banks: Mapping[UUID, BankSize]) -> NearUnits:
        async with database.tenant(self.arguments["host"], ONE_PLAN) as connection:
            return await self.run(connection, banks)

    async def _read_lists(self, connection: AsyncConnection, bank: UUID, lists: int) -> NearUnits | None:
        """Return the nearest units of a large bank by its index; None if that gives too few."""
        vectors = IndexedVectors(self.arguments["generation"], len(self.arguments["vector"]))
        statement, looked_at = select_near_in_lists(vectors), self.most * FIRST_LOOKED_AT
        least = looked_at
        if self.of_memories:
            statement, looked_at, least = select_memories_in_lists(vectors), self.most * LOOKED_AT, self.most
        async with probe_lists(connection, lists):
            about = {**self.arguments, "bank": bank, "looked_at": looked_at, "most": self.most}
            rows = await fetch_rows(connection, statement, about)
        if len(rows) < least:
            return None
        cosines = {row.unit_id: float(row.cosine) for row in rows if row.chunk == 0}
        return NearUnits(cosines, rows[-1].cosine >= self.arguments["near"])

    async def _compare(self, connection: AsyncConnection, banks: Sequence[UUID]) -> NearUnits:
        """Return the nearest units of these banks, of each up to a limit, by comparing all their vectors."""
        if not banks:
            return NearUnits()
        looked_at = self.most * (1 if self.of_memories else FIRST_LOOKED_AT)
        statement = NEAR_MEMORIES if self.of_memories else NEAR
        rows: Sequence[DriverRow] = await fetch_rows(
            connection, statement, {**self.arguments, "banks": banks, "looked_at": looked_at}
        )
        of_banks = Counter(row.bank_id for row in rows)
        return NearUnits(
            {row.unit_id: float(row.cosine) for row in rows}, max(of_banks.values(), default=0) >= looked_at
        )
