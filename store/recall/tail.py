"""The fresh tail: the newest texts that have no vector yet, read along with the question (law L4)."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import (
    Integer,
    Select,
    Uuid,
    and_,
    bindparam,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
    union_all,
)

from store.recall.filters import KINDS, filter_conditions
from store.recall.stored_vectors import IN_GENERATION, VECTOR
from store.schema import LEDGER, UNIT, in_bank

#: More characters than the sentence model reads.
CHARACTERS = 8192
#: Read however long it takes: what was just told, and what was answered.
LEAST = 2

_CHUNKS = bindparam("chunks", type_=Integer)


def _select_tail() -> Select[UUID, str, int, bool]:
    """Select the newest texts without a vector.

    The session that asks comes first, newest message first: only its newest are looked at, for what is older comes
    with the bank's undone embeddings, newest first again: messages, and the pieces of documents. Facts have a place
    here for a question by kind alone: else what they were drawn from holds their words. Materialized, with limits:
    each part stays small for every plan.
    """
    unit, work = UNIT.alias("u"), LEDGER.alias("l")
    lacks_vector = ~exists().where(IN_GENERATION, VECTOR.c.unit_id == unit.c.unit_id)
    own = (
        select(unit.c.unit_id)
        .where(in_bank(unit), unit.c.session_id == bindparam("session", type_=Uuid), unit.c.seq.is_not(None))
        .order_by(unit.c.seq.desc())
        .limit(_CHUNKS)
        .cte("own")
        .prefix_with("materialized")
    )
    undone = (
        select(work.c.turn_id)
        .where(in_bank(work), work.c.stage == literal_column("'embedding'"), work.c.undone)
        .order_by(work.c.position.desc())
        .limit(_CHUNKS)
        .cte("undone")
        .prefix_with("materialized")
    )
    of_turn = (
        select(unit.c.unit_id)
        .where(
            in_bank(unit),
            unit.c.turn_id == undone.c.turn_id,
            or_(unit.c.origin != literal_column("'extraction'"), KINDS.is_not(None)),
            lacks_vector,
        )
        .order_by(unit.c.position.desc())
        .limit(_CHUNKS)
        .lateral("u")
    )
    either = union_all(
        select(own.c.unit_id, true().label("is_own")),
        select(of_turn.c.unit_id, false()).join_from(undone, of_turn, true()),
    ).subquery("w")
    missing = (
        select(either.c.unit_id, func.bool_or(either.c.is_own).label("is_own"))
        .group_by(either.c.unit_id)
        .cte("missing")
        .prefix_with("materialized")
    )
    content = func.left(unit.c.content, bindparam("characters", type_=Integer)).label("content")
    return (
        select(unit.c.unit_id, content, unit.c.aggregate_version, missing.c.is_own)
        .join_from(missing, unit, and_(in_bank(unit), unit.c.unit_id == missing.c.unit_id))
        .where(lacks_vector, filter_conditions(unit))
        .order_by(missing.c.is_own.desc(), unit.c.position.desc(), unit.c.seq.desc())
        .limit(_CHUNKS)
    )


TAIL = _select_tail()


@dataclass(frozen=True, slots=True)
class Fresh:
    """A message, or a piece of a document, without a vector; `version` grows when its text is corrected.

    `own`: it was said in the session that asks.
    """

    unit_id: UUID
    content: str = field(repr=False)
    version: int = 1
    own: bool = False


def select_urgent(tail: Sequence[Fresh]) -> Sequence[Fresh]:
    """Return what is read of a tail although far more waits than it holds: the own session's, and the newest others.

    One question could read only a negligible part of the rest.
    """
    others = [fresh for fresh in tail if not fresh.own]
    return [*(fresh for fresh in tail if fresh.own), *others[:LEAST]]


def select_affordable(
    tail: Sequence[Fresh], question: str, budget_ms: float, estimate_ms: Callable[[Sequence[str]], float]
) -> Sequence[Fresh]:
    """Return the beginning of the tail that fits the time, question included; never less than the LEAST newest.

    Texts are taken in order, so what is left out is told by one fact: it is older than what was read.
    """
    texts = [question, *(fresh.content for fresh in tail)]
    fits = bisect_right(range(len(texts)), budget_ms, key=lambda count: estimate_ms(texts[: count + 1]))
    return tail[: max(fits - 1, LEAST)]
