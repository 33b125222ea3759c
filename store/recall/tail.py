"""The fresh tail: the newest texts that have no vector yet, read along with the question (law L4)."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import text

from store.recall.filters import filter_text

#: More characters than the sentence model reads.
CHARACTERS = 8192
#: Read however long it takes: what was just told, and what was answered.
LEAST = 2

# The session that asks comes first, newest message first: only its newest are looked at, for what is older comes with
# the bank's undone embeddings, newest first again: messages, and the pieces of documents. Facts have a place here for a
# question by kind alone: else what they were drawn from holds their words. Materialized, with limits: each part stays
# small for every plan.
_LACKS = """not exists (select from afterturn.unit_vector_t v
                              where v.host_id = :host and v.bank_id = :bank and v.generation = :generation
                                and v.unit_id = u.unit_id)"""
TAIL = text(f"""
    with own as materialized (
        select u.unit_id from afterturn.agent_memory_unit_t u
         where u.host_id = :host and u.bank_id = :bank and u.session_id = cast(:session as uuid) and u.seq is not null
         order by u.seq desc limit :chunks
    ), undone as materialized (
        select l.turn_id from afterturn.ledger_t l
         where l.host_id = :host and l.bank_id = :bank and l.stage = 'embedding' and l.undone
         order by l.position desc limit :chunks
    ), missing as materialized (
        select w.unit_id, bool_or(w.is_own) as is_own
          from (select unit_id, true as is_own from own
                 union all
                select u.unit_id, false
                  from undone l,
                       lateral (select u.unit_id from afterturn.agent_memory_unit_t u
                                 where u.host_id = :host and u.bank_id = :bank and u.turn_id = l.turn_id
                                   and (u.origin <> 'extraction' or cast(:kinds as text[]) is not null) and {_LACKS}
                                 order by u.position desc limit :chunks) u) w
         group by w.unit_id
    )
    select u.unit_id, left(u.content, :characters) as content, u.aggregate_version, m.is_own
      from missing m join afterturn.agent_memory_unit_t u
        on u.host_id = :host and u.bank_id = :bank and u.unit_id = m.unit_id
     where {_LACKS} and {filter_text("u")}
     order by m.is_own desc, u.position desc, u.seq desc
     limit :chunks""")  # noqa: S608 - put together from constants


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
