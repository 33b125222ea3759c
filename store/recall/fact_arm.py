"""Runs the arm of facts: a question for a fact about oneself finds the messages that state it, in any words.

"Where do I work?" shares no word with "I'm a nurse at Riverside Hospital", and other messages may be nearer in meaning.
"""

from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.said_facts import ONE_BANK, read_said_facts
from store.driver_rows import fetch_rows
from store.memory.held_facts import settle_said
from store.recall.asked_facts import AskedFacts, find_asked_facts
from store.recall.filters import own_session
from store.recall.state import ArmResult, RecallState, rank_by_scores
from store.schema import ID_LIKE

#: Most messages that the arm finds, those of the newest facts.
MESSAGES = 8
#: Each older fact's message counts this share of the next newer one: of two homes the last is the current one.
OLDER = 0.9
NAME = "facts"

# The newest messages of the facts of a kind that hold, of subjects that meet a condition.
_OF_KIND = """
    (select s.unit_id, f.fact_id, f.subject, f.key, f.value, f.valid_from, f.position
       from afterturn.fact_t f,
            lateral (select u.source_memory_ids from afterturn.agent_memory_unit_t u
                      where u.host_id = f.host_id and u.bank_id = f.bank_id and u.unit_id = f.unit_id and u.active
                      limit 1) u,
            lateral (select m.unit_id from afterturn.agent_memory_unit_t m
                      where m.host_id = f.host_id and m.bank_id = f.bank_id and m.unit_id = any(u.source_memory_ids)
                        and m.active and (cast(:user as uuid) is null or m.user_id = :user)
                      limit 1) s
      where f.host_id = :host and f.bank_id = :bank and f.fact_id = k.fact_id and f.valid_to is null
        and not f.denied and (cast(:key as text) is null or f.key = :key) and {subjects}
      order by f.valid_from desc, f.position desc limit :messages)"""
_STATING = """
    select f.unit_id, f.fact_id, f.subject, f.key, f.value
      from unnest(cast(:fact_ids as text[])) with ordinality k(fact_id, nth), lateral ({of_kind}) f
     order by k.nth, f.valid_from desc, f.position desc limit :messages"""


def _select_stating(*subjects: str) -> TextClause:
    return text(_STATING.format(of_kind=" union all ".join(_OF_KIND.format(subjects=some) for some in subjects)))


_OF_NAMED, _OF_USERS = (f"f.subject {is_like} '{ID_LIKE}'" for is_like in ("not like", "like"))
#: The messages that state facts of a user, and of subjects that have a name.
STATING = _select_stating("f.subject = cast(:user as text)", _OF_NAMED)
#: The same of a question without a user: those of anybody.
STATING_OF_ALL = _select_stating(_OF_NAMED, _OF_USERS)


class FactArm:
    """The arm of facts: messages that state what the question asks about the asking person; most ask for none."""

    name = NAME
    weight = 1.0
    needs_vector = False

    async def find(self, connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Return the messages of the newest facts first; those of facts that no worker has written yet, too."""
        query = state.query
        asked = find_asked_facts(state.question.text)
        units = []
        # Facts hold now: what held at an earlier moment is found by words and meaning alone.
        if asked is not None and query.as_of is None and query.known_at is None:
            units = await _read_stating(connection, state, asked)
        return rank_by_scores({unit: OLDER**nth for nth, unit in enumerate(units)})


async def _read_stating(connection: AsyncConnection, state: RecallState, asked: AskedFacts) -> list[UUID]:
    place = state.place
    said = await read_said_facts(
        connection,
        ONE_BANK,
        {**place, "now": state.now},
        state.retention,
        session=own_session(state.query, state.bank),
        user=state.query.user,
    )
    told, denied = settle_said(said)
    waiting = [
        one.said
        for one in reversed(told)
        if not one.ended and one.said.identity.fact_id in asked.fact_ids and asked.key in (None, one.said.identity.key)
    ]
    ended = {(one.identity.fact_id, one.identity.subject, one.identity.key, one.value) for one in denied}
    wanted = {"fact_ids": list(asked.fact_ids), "key": asked.key, "user": state.query.user}
    stating = STATING_OF_ALL if state.query.user is None else STATING
    rows = await fetch_rows(connection, stating, {**place, **wanted, "messages": MESSAGES})
    stored = [row.unit_id for row in rows if (row.fact_id, row.subject, row.key, row.value) not in ended]
    return list(dict.fromkeys([*(one.source for one in waiting), *stored]))[:MESSAGES]
