"""Resolves aliases and misspelt names in a question to speakers.

The question is rewritten with the speakers' names, and all later steps see the rewritten question.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.called_names import LEAST, read_aliases
from store.driver_rows import fetch_rows
from store.off_loop import run_off_loop
from store.recall.question import ROLES, Question
from store.recall.state import RecallState
from store.text.rules.called_names import ADDRESSED, OWN
from store.text.spelling import find_meant, may_be_misspelt
from store.text.terms import question_terms, split_words

#: The name in `RecallQuery.without` that leaves this step out.
NAMES = "names"
#: Units above which a word is not taken for misspelt.
RARE = 2
#: How a question asks for the user who asks.
ASKER = "the user"
#: Most sessions, and first messages of each, among whose speakers a misspelt name is looked for.
SESSIONS, FIRST = 200, 4

SPEAKERS = text("""
    select distinct m.name
      from (select h.session_id from afterturn.agent_session_history_t h
             where h.host_id = :host and h.bank_id = :bank and h.active limit :sessions) s,
           lateral (select u.name from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.session_id = s.session_id and u.active
                       and u.seq is not null order by u.seq limit :first) m
     where m.name is not null""")


def name_marks(question: Question) -> list[str]:
    """Return the index terms that show whether a speaker of the bank is called by a name of the question."""
    return [mark + name for name in question.names for mark in (ADDRESSED, OWN)]


async def resolve_names(
    connection: AsyncConnection, state: RecallState, frequency: Mapping[str, int]
) -> Mapping[str, str]:
    """Return the speakers that names of the question mean, by name, inside the tenant's transaction.

    `frequency`: document frequencies of the question's terms and of the marks of its names. Nothing is read if no
    speaker is called by one of the names and none of them is rare in the bank. A name that is the asking user's id, and
    that no text of the bank has, means this user: "Where does Ann live?" of the user "ann".
    """
    known = set(chain.from_iterable(split_words(one) for one in state.speakers if one.lower() not in ROLES))
    terms = {name: question_terms(name, state.question.rules) for name in state.question.names if name not in known}
    called = {name: words for name, words in terms.items() if words and _is_called(name, frequency)}
    asker = "".join(split_words(state.query.asker or ""))
    found = {name: ASKER for name in terms if name == asker and not any(frequency.get(one) for one in terms[name])}
    if called:
        found |= await read_aliases(connection, state.host, state.bank, called, state.now)
    left = (name for name in terms if name not in found and may_be_misspelt(name))
    rare = [name for name in left if _is_rare(terms[name], frequency)]
    if rare:
        speakers = await _read_speakers(connection, state)
        effort = len(rare) * sum(map(len, speakers))
        meant = await run_off_loop(effort, lambda: {name: find_meant(name, speakers) for name in rare})
        found |= {name: speaker for name, speaker in meant.items() if speaker is not None}
    return found


def _is_called(name: str, frequency: Mapping[str, int]) -> bool:
    return frequency.get(ADDRESSED + name, 0) + LEAST * frequency.get(OWN + name, 0) >= LEAST


def _is_rare(terms: Iterable[str], frequency: Mapping[str, int]) -> bool:
    stands = [frequency.get(term, 0) for term in terms]
    return bool(stands) and max(stands) <= RARE


async def _read_speakers(connection: AsyncConnection, state: RecallState) -> Collection[str]:
    """Return speakers of the bank: those of units with the question's words, and those of some sessions."""
    place = {**state.place, "sessions": SESSIONS, "first": FIRST}
    named = {row[0] for row in await fetch_rows(connection, SPEAKERS, place)}
    return named | {one for one in state.speakers if one.lower() not in ROLES}
