"""Builds the queries of the dense arm: the nearest of all vectors of a bank, or of some lists of its IVFFlat index.

Their rows have `unit_id`, `cosine`, and `drawn`: whether the row is known to be a reflection; PLAIN and OF_SESSION
do not tell. The queries of an index (`search_lists`) name their generation as a constant, as its predicate does.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    CompoundSelect,
    Double,
    FromClause,
    Integer,
    Select,
    SelectBase,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    false,
    func,
    or_,
    select,
    true,
    union_all,
)

from store.recall.candidate_queries import ends_in_question
from store.recall.filters import filter_conditions
from store.recall.reflections import IS_ASKED_FOR
from store.recall.reflections import NEAREST as MOST_REFLECTIONS
from store.recall.stored_vectors import IN_GENERATION, VECTOR, IndexedVectors, measure_distance
from store.schema import REFLECTION, UNIT, in_bank, same_bank
from store.sql_constants import ONE, ZERO, inline

_CANDIDATES, _LOOKED_AT = bindparam("candidates", type_=Integer), bindparam("looked_at", type_=Integer)
_UNIT = UNIT.alias("u")
_PASSES = filter_conditions(_UNIT)
_DISTANCE = measure_distance(VECTOR.c.embedding)
_COSINE, _DRAWN, _NOT_DRAWN = (-_DISTANCE).label("cosine"), true().label("drawn"), false().label("drawn")


def _with_unit(vectors: FromClause) -> FromClause:
    return vectors.join(_UNIT, same_bank(vectors, _UNIT, "unit_id"))


def _find_vector(unit_id: ColumnElement[Any]) -> FromClause:
    """Return the cosine of each vector of a unit or a reflection, by one probe of an index."""
    return select(VECTOR.c.unit_id, _COSINE).where(IN_GENERATION, VECTOR.c.unit_id == unit_id).offset(ZERO).lateral("v")


def _select_nearest(*, filtered: bool = False) -> Select[*tuple[Any, ...]]:
    """Select all vectors, the nearest first; `filtered`: those of units that pass the filters.

    Each distance is measured once, in a query of its own, whose order no index serves.
    """
    measured = select(VECTOR.c.unit_id, _DISTANCE.label("distance")).where(IN_GENERATION)
    if filtered:
        measured = measured.select_from(_with_unit(VECTOR)).where(_PASSES)
    near = measured.offset(ZERO).subquery("v")
    found = select(near.c.unit_id, (-near.c.distance).label("cosine"), _NOT_DRAWN)
    return found.order_by(near.c.distance, near.c.unit_id)


_NEAREST = _select_nearest()
PLAIN = _NEAREST.limit(_CANDIDATES)


# With a filter -------------------------------------------------------------------------------------------------------


def _select_reflections() -> Select[*tuple[Any, ...]]:
    """Select the nearest reflections.

    Reflections are no units, so no filter applies here: their source facts are filtered when the pool is loaded.
    """
    reflection = REFLECTION.alias("r")
    near = _find_vector(reflection.c.reflection_id)
    return (
        select(near.c.unit_id, near.c.cosine, _DRAWN)
        .join_from(reflection, near, true())
        .where(in_bank(reflection), reflection.c.active, IS_ASKED_FOR)
        .order_by(near.c.cosine.desc(), near.c.unit_id)
        .limit(inline(MOST_REFLECTIONS))
    )


_REFLECTIONS = _select_reflections()
FILTERED = union_all(_select_nearest(filtered=True).limit(_CANDIDATES), _REFLECTIONS)


def _select_of_session() -> Select[*tuple[Any, ...]]:
    """Select the nearest units of one session.

    They are few, and have an index for messages and another for other units.
    """
    of_session = and_(in_bank(_UNIT), _UNIT.c.session_id == bindparam("only_session", type_=Uuid))
    here = union_all(
        select(_UNIT.c.unit_id).where(of_session, _UNIT.c.seq.is_not(None), _PASSES),
        select(_UNIT.c.unit_id).where(of_session, _UNIT.c.seq.is_(None), _PASSES),
    )
    unit = here.cte("here").prefix_with("materialized")
    near = _find_vector(unit.c.unit_id)
    return (
        select(near.c.unit_id, near.c.cosine, _NOT_DRAWN)
        .join_from(unit, near, true())
        .order_by(near.c.cosine.desc(), near.c.unit_id)
        .limit(_CANDIDATES)
    )


OF_SESSION = _select_of_session()


# In an agent's memory ------------------------------------------------------------------------------------------------


def _only_asks() -> ColumnElement[bool]:
    """Return the condition that a unit is a short line of an agent, or a short question of a user without a name."""
    size = func.octet_length(_UNIT.c.content)
    return or_(
        and_(
            _UNIT.c.role == any_(bindparam("agents", type_=ARRAY(Text))),
            size <= bindparam("line_bytes", type_=Integer),
        ),
        and_(
            _UNIT.c.role == inline("user"),
            _UNIT.c.name.is_(None),
            size <= bindparam("question_bytes", type_=Integer),
            ends_in_question(_UNIT.c.content),
        ),
    )


def _beside_agent(nearest: Select[*tuple[Any, ...]]) -> CompoundSelect[*tuple[Any, ...]]:
    """Return the query of the nearest units in an agent's memory, where statements come before questions.

    Earlier questions of the user, and short lines of the agent that repeat them, are often nearer to a question than
    its answer is: they fill the places that statements leave. Units of the one speaker whom the question names get the
    bonus of the ranking rule here already: of the sentences that list a person's deeds few are near the question.
    Reflections, which are no units, come in addition: those of other subjects are left out when the pool is loaded.
    """
    near = nearest.limit(_LOOKED_AT).subquery("n")
    is_named = func.coalesce(_UNIT.c.name, _UNIT.c.role) == bindparam("named", type_=Text)
    unit = (
        select(_only_asks().label("only_asks"), is_named.label("is_named"), false().label("drawn"))
        .where(in_bank(_UNIT), _UNIT.c.unit_id == near.c.unit_id)
        .limit(ONE)
        .lateral("u")
    )
    more = case((unit.c.is_named, bindparam("named_more", type_=Double)), else_=ZERO)
    placed = (
        select(near.c.unit_id, near.c.cosine, unit.c.only_asks, (near.c.cosine + more).label("place"))
        # A vector without a unit is a reflection's.
        .add_columns(func.coalesce(unit.c.drawn, true()).label("drawn"))
        .join_from(near, unit, true(), isouter=True)
        .cte("placed")
        .prefix_with("materialized")
    )
    rows = select(placed.c.unit_id, placed.c.cosine, placed.c.drawn)
    told = rows.where(~placed.c.drawn).order_by(placed.c.only_asks, placed.c.place.desc(), placed.c.unit_id)
    drawn = rows.where(placed.c.drawn).order_by(placed.c.cosine.desc(), placed.c.unit_id)
    return union_all(told.limit(_CANDIDATES), drawn.limit(inline(MOST_REFLECTIONS)))


TOLD_AGENT = _beside_agent(_NEAREST)


# In the lists of an index --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListQueries:
    """The queries of one generation's index: all units, those that pass a filter, an agent's memory."""

    plain: Select[*tuple[Any, ...]]
    filtered: SelectBase
    told_agent: SelectBase


@cache
def search_lists(vectors: IndexedVectors) -> ListQueries:
    """Return the queries that read lists of the index on these vectors."""
    distance = vectors.measure_distance(VECTOR)
    near = (
        select(VECTOR.c.host_id, VECTOR.c.bank_id, VECTOR.c.unit_id, (-distance).label("cosine"))
        .where(in_bank(VECTOR), vectors.contain(VECTOR))
        .order_by(distance)
        .limit(_LOOKED_AT)
        .cte("near")
        .prefix_with("materialized")
    )
    in_lists = select(near.c.unit_id, near.c.cosine, _NOT_DRAWN).order_by(near.c.cosine.desc())
    plain = in_lists.limit(_CANDIDATES)
    # Filters are applied to the nearest: if fewer than one in ten pass, more may lie in lists that were not probed.
    filtered = union_all(plain.select_from(_with_unit(near)).where(_PASSES), _REFLECTIONS)
    return ListQueries(plain, filtered, _beside_agent(in_lists))
