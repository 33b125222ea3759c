"""What becomes of facts that a model says are to be deleted: proposals in the log, or denials that end them.

A proposal is a link, from the message that it follows from to the newest statement of the fact that holds: it ends with
either, and says nothing of its own. Only facts are meant that the same person had stated by then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.fact_states import PROPOSES
from store.derived.facts import MANY_VALUED
from store.ledger.ledger import LedgerRow
from store.log.catalog import EventType
from store.log.envelope import Origin, build_version
from store.memory.turn_messages import TurnMessage
from store.text.rules.model import ExtractedFact

HOLDING = text("""
    select t.nth, f.unit_id
      from unnest(cast(:fact_ids as text[]), cast(:subjects as text[]), cast(:keys as text[]), cast(:values as text[]),
                  cast(:said_at as timestamptz[])) with ordinality as t(fact_id, subject, key, value, said_at, nth),
           lateral (select f.unit_id from afterturn.fact_t f
                     where f.host_id = :host and f.bank_id = :bank and f.fact_id = t.fact_id
                       and f.subject = afterturn.folded(t.subject) and f.key = afterturn.folded(t.key)
                       and f.value = afterturn.folded(t.value) and f.valid_to is null and not f.denied
                       and f.consolidated_by is null and f.valid_from <= t.said_at and f.said <= :position
                     limit 1) f,
           lateral (select from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.unit_id = f.unit_id and u.active) u
     order by t.nth""")


@dataclass(frozen=True, slots=True)
class Deletions:
    """The denials of facts that a model says are to be deleted; `applied`: they are written, and end these facts."""

    denials: Sequence[ExtractedFact] = ()
    applied: bool = False


@dataclass(frozen=True, slots=True)
class MatchedDeletion:
    """A denial, and the fact that it is of."""

    denial: ExtractedFact
    fact: UUID


async def match_deletions(
    connection: AsyncConnection, host: UUID, row: LedgerRow, turn: Sequence[TurnMessage], named: Sequence[ExtractedFact]
) -> list[MatchedDeletion]:
    """Return those of these denials that are of a fact which holds and was stated by then. Inside the bank's lock."""
    if not named:
        return []
    said = [turn[one.ordinal] for one in named]
    found = await connection.execute(
        HOLDING,
        {
            "host": host,
            "bank": row.bank_id,
            "position": row.position,
            "fact_ids": [one.fact_id for one in named],
            "subjects": [one.subject or str(by.user_id) for one, by in zip(named, said, strict=True)],
            "keys": [one.value if one.fact_id in MANY_VALUED else one.key for one in named],
            "values": [one.value for one in named],
            "said_at": [by.event_date for by in said],
        },
    )
    return [MatchedDeletion(named[one.nth - 1], one.unit_id) for one in found]


def build_proposals(
    origin: Origin, turn: Sequence[TurnMessage], matched: Sequence[MatchedDeletion]
) -> list[Mapping[str, Any]]:
    """Return the events that link each message to the facts that it proposes to delete."""
    pairs = {(turn[one.denial.ordinal].unit_id, one.fact): one.denial.confidence for one in matched}
    return [
        build_version(origin, EventType.LINK_CREATED, (message, fact, PROPOSES), 1, weight=weight)
        for (message, fact), weight in pairs.items()
    ]
