"""Selects the fresh tail: the newest texts without a vector, which recall embeds while it searches (law L4)."""

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
    or_,
    select,
    true,
    union_all,
)

from store.ledger.stages import Stage
from store.recall.filters import KINDS, filter_conditions
from store.recall.stored_vectors import IN_GENERATION, VECTOR
from store.schema import LEDGER, UNIT, in_bank
from store.sql_constants import inline

#: Characters that are read of each text; more than the sentence model reads.
CHARACTERS = 8192
#: Undone rows of a bank from which on only the most urgent texts of a full tail are embedded.
BACKLOG = 1000
#: Texts that are embedded even beyond the time limit: the newest two, often a message and its answer.
LEAST = 2
#: Texts for which a machine without other calls takes more time than usual: what an agent says in some turns.
ENOUGH = 32
#: Milliseconds for a tail, and the most on a slow machine.
USUAL_MS, MOST_MS = 20.0, 150.0

_CHUNKS = bindparam("chunks", type_=Integer)


def _select_tail() -> Select[UUID, str, int, bool]:
    """Select the newest texts without a vector.

    Messages of the session that asks come first, the newest first; only its newest are examined, as older ones come
    with the bank's undone embeddings: messages and pieces of documents, the newest first. Facts are included only if
    the question filters by kind: otherwise the messages that they were extracted from hold their words. The parts are
    materialized with limits, so that each stays small in every plan.
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
        .where(in_bank(work), work.c.stage == inline(Stage.EMBEDDING), work.c.undone)
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
            or_(unit.c.origin != inline("extraction"), KINDS.is_not(None)),
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
class UnembeddedText:
    """A message, or a piece of a document, without a vector; `version` grows when its text is corrected.

    `own`: it belongs to the session that asks.
    """

    unit_id: UUID
    content: str = field(repr=False)
    version: int = 1
    own: bool = False


def select_urgent(tail: Sequence[UnembeddedText]) -> Sequence[UnembeddedText]:
    """Return the texts of a tail that are embedded under a large backlog: the own session's, and the newest others.

    One question could embed only a negligible part of the backlog.
    """
    others = [fresh for fresh in tail if not fresh.own]
    return [*(fresh for fresh in tail if fresh.own), *others[:LEAST]]


def select_affordable(
    tail: Sequence[UnembeddedText],
    question: str,
    budget_ms: float | None,
    estimate_ms: Callable[[Sequence[str]], float],
) -> Sequence[UnembeddedText]:
    """Return the beginning of the tail that can be embedded in time, the question's time included.

    That is within `budget_ms`. Without it, the time is USUAL_MS; on a machine that takes longer for ENOUGH texts, while
    no other call waits for the model, as long as it takes for these, at most MOST_MS. The result has at least LEAST
    texts. Texts are taken in order, so all texts that are left out are older than those that are embedded.
    """
    texts = [question, *(fresh.content for fresh in tail)]
    if budget_ms is None:
        is_idle = estimate_ms(()) <= 0
        budget_ms = max(USUAL_MS, min(estimate_ms(texts[: ENOUGH + 1]), MOST_MS)) if is_idle else USUAL_MS
    fits = bisect_right(range(len(texts)), budget_ms, key=lambda count: estimate_ms(texts[: count + 1]))
    return tail[: max(fits - 1, LEAST)]
