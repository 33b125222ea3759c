"""Finds statements of an answer that a later one takes the place of, and puts the later one before them. Pure.

A message is former if the same speaker, for the same user, said later what leaves nothing of it (`rules/changes.py`),
or nothing that is asked for. Only the first units of an answer are compared, and only what people say: an agent's words
tell no change of mind. A pinned message is never former: its pin says that it holds.

A message of which a fact was forgotten by its own id stays, because a fact may have been read from it wrongly. It is
former where the question is about the clause of that fact, and not where only its other clauses answer.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from itertools import permutations
from uuid import UUID

from store.recall.pool import Candidate
from store.recall.query import Recalled
from store.text.known_texts import KnownTexts, digest_text
from store.text.rules.changes import Statement, leaves_more, read_statement, settles_otherwise, takes_place
from store.text.rules.facts import MINED_ROLE
from store.text.terms import analyse_text, split_words

#: The name in `RecallQuery.without` that leaves this out, and in explanations what it adds to the later statement.
NEWER = "newer"
#: Units of an answer, the best, that are compared with each other.
COMPARED = 24
#: Most messages from one to the next of its speaker: an agent's answer stands between.
NEXT = 2
#: Units of an answer, the best, of which the newer of two that are alike goes first; the share of the older one's score
#: that it needs, and how many terms, and what share of the shorter one's, both have.
FIRST, NEAR, SHARED, SHARED_PART = 5, 0.85, 2, 0.5
# The terms of messages, about 4 KiB each.
_TERMS = KnownTexts[frozenset[int]](2048)


def find_successors(units: Sequence[tuple[Candidate, datetime]], question: str = "") -> Mapping[int, Sequence[int]]:
    """Return the places of units that take the place of another one, the earliest first, by the place of that one.

    `units` stand in the order of the answer to the `question`, each with the time at which it was said last.
    """
    asked = frozenset(split_words(question))
    told = defaultdict[object, list[tuple[datetime, int]]](list)
    for place, (unit, said) in enumerate(units[:COMPARED]):
        if unit.role == MINED_ROLE and unit.whole:
            told[unit.user_id, unit.speaker].append((said, place))
    found = defaultdict[int, list[int]](list)
    for spoken in told.values():
        if len(spoken) > 1:
            read = {place: read_statement(units[place][0].text, units[place][0].name) for _, place in spoken}
            spoken.sort()
            for nth, (said, place) in enumerate(spoken, 1):
                if units[place][0].pinned or not read[place].is_read:
                    continue
                for at, later in spoken[nth:]:
                    if at <= said:
                        continue
                    settles = _follows(units[later][0], units[place][0]) and settles_otherwise(read[later], read[place])
                    if settles or _outdates(read[later], read[place], asked):
                        found[place].append(later)
    return found


def _outdates(later: Statement, earlier: Statement, asked: AbstractSet[str]) -> bool:
    return takes_place(later, earlier) and not leaves_more(later, earlier, asked)


def _follows(later: Candidate, earlier: Candidate) -> bool:
    """Return whether a message is the next one of its speaker in a session: at most an answer stands between."""
    if later.session_id is None or later.session_id != earlier.session_id or later.seq is None or earlier.seq is None:
        return False
    return 0 < later.seq - earlier.seq <= NEXT


def find_alike(units: Sequence[tuple[Candidate, datetime]]) -> Sequence[tuple[int, int]]:
    """Return the places of two statements of one person that share much of their words: the older's, the newer's.

    No rule saw whether the newer takes the place of the older one. Only the first of the answer are compared.
    """
    first = units[:FIRST]
    said = [
        place for place, (unit, _) in enumerate(first) if unit.role == MINED_ROLE and unit.whole and not unit.pinned
    ]
    pairs = [
        (older, newer)
        for older, newer in permutations(said, 2)
        if first[older][1] < first[newer][1] and _speak_alike(first[older][0], first[newer][0])
    ]
    terms = {place: _hash_terms(first[place][0].text) for place in {place for pair in pairs for place in pair}}
    return [(older, newer) for older, newer in pairs if _share_words(terms[older], terms[newer])]


def _hash_terms(text: str) -> AbstractSet[int]:
    """Return the hashes of a text's terms, which are known of texts that were compared lately."""
    return _TERMS.find(digest_text(text), lambda: frozenset(map(hash, analyse_text(text).counts)))


def _speak_alike(one: Candidate, other: Candidate) -> bool:
    return (one.user_id, one.speaker) == (other.user_id, other.speaker)


def _share_words(one: AbstractSet[int], other: AbstractSet[int]) -> bool:
    return len(one & other) >= max(SHARED, SHARED_PART * min(len(one), len(other)))


def put_newer_of_alike_first(items: Sequence[Recalled], alike: Sequence[tuple[UUID, UUID]]) -> Sequence[Recalled]:
    """Return the items with the newer of two that are alike, and score about the same, before the older one.

    All are among the first of the answer: these stay the first, in another order.
    """
    known = {item.unit_id: item for item in items}
    near = [
        (older, newer)
        for older, newer in alike
        if not (known[older].successors or known[newer].successors) and known[newer].score >= NEAR * known[older].score
    ]
    if not near:
        return items
    for older, newer in sorted(near, key=lambda pair: (known[pair[1]].occurred_at, pair[1])):
        known[newer] = _raise_above(known[newer], known[older].score)
    return sorted(known.values(), key=lambda item: (-item.score, item.unit_id))


def put_newer_first(items: Sequence[Recalled]) -> Sequence[Recalled]:
    """Return the items with each one before those whose place it takes, with a score just above theirs; best first."""
    known = {item.unit_id: item for item in items}
    pairs = [(known[unit], old.unit_id) for old in items for unit in old.successors if unit in known]
    if not pairs:
        return items
    for newer, older in sorted(pairs, key=lambda pair: (pair[0].occurred_at, pair[0].unit_id)):
        known[newer.unit_id] = _raise_above(known[newer.unit_id], known[older].score)
    return sorted(known.values(), key=lambda item: (-item.score, item.unit_id))


def list_with_successors(kept: Sequence[int], successors: Mapping[int, Sequence[int]]) -> list[int]:
    """Return places of an answer's units with those that take the place of one of them, in order."""
    return sorted({*kept, *(later for place in kept for later in successors.get(place, ()))})


def _raise_above(item: Recalled, score: float) -> Recalled:
    if item.score > score:
        return item
    raised = math.nextafter(score, math.inf)
    moved = item.explain and {**item.explain.moved, NEWER: raised - item.score}
    explain = item.explain and moved and replace(item.explain, moved=moved)
    return replace(item, score=raised, explain=explain or item.explain)


#: Stands for a value that was forgotten.
_FORGOTTEN = "\ufffc"
#: What divides a message into clauses, each of which may state a fact.
_CLAUSE_END = re.compile(r"[.!?;\n]+(?=\s|$)|,? \b(?:and|but|while|because)\b ")


def asks_for_withdrawn(text: str, withdrawn: str, question: str) -> bool:
    """Return whether a question is about clauses with values that were forgotten (a line each), as much as the others.

    A message without another clause is about nothing else; so is one whose text does not hold the value as it is.
    """
    told = " ".join(text.casefold().split())
    for value in sorted(withdrawn.casefold().splitlines(), key=len, reverse=True):
        # Its own dots ("Dr. Nys") end no clause.
        told = told.replace(value, _FORGOTTEN) if value else told
    clauses = [clause for clause in _CLAUSE_END.split(told) if clause.strip()]
    others = [clause for clause in clauses if _FORGOTTEN not in clause]
    forgotten = [clause for clause in clauses if _FORGOTTEN in clause]
    if not others or not forgotten:
        return True
    asked = analyse_text(question).counts.keys()
    of_fact, of_rest = (
        len(asked & analyse_text(" ".join(said)).counts.keys()) for said in ([*forgotten, withdrawn], others)
    )
    return of_fact >= of_rest
