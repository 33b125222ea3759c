"""Tells whether a statement takes the place of an earlier one by the same person, by English rules. Pure.

"The standup is at ten" takes the place of "The standup is at nine": one subject, one verb that has one value at a
time, another value of the same kind. With a word of change ("now", "instead", "no longer") more verbs count. Two truths
that hold beside each other ("I like tea", "I like coffee"; two friends, two servers) are never taken for one: where it
is not clear that the subject is the same, the answer is no.
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import compress, takewhile
from types import MappingProxyType
from typing import NamedTuple

from store.text.known_texts import KnownTexts, digest_text
from store.text.rules.facts import MINED_ROLE, find_facts
from store.text.rules.gazetteer import word_list
from store.text.rules.german_changes import is_german, turn_german
from store.text.rules.model import ExtractedFact, MessageText
from store.text.rules.pattern_tables import read_table
from store.text.rules.told_changes import (
    CUES,
    ToldChange,
    cut_former,
    drop_came,
    drop_turned_out,
    find_phrase,
    read_now_chosen,
    read_told_change,
    reduce_words,
    turn_cleft,
    turn_named,
    turn_role,
)
from store.text.rules.told_values import (
    MOVES_AND_SETS,
    ToldValue,
    is_other_state,
    is_other_value,
    is_state,
    read_new_value,
    read_stated_value,
)
from store.text.rules.value_kinds import COUNTED, PLACED, PLACES, is_count, is_name, tell_kind, tell_kind_of
from store.text.rules.vocabulary import people_nouns
from store.text.terms import analyse_text

#: Most characters of a text, words of a sentence and sentences of a text that are read: longer texts tell stories.
MOST_CHARACTERS, MOST_WORDS, MOST_SENTENCES = 320, 32, 3
#: Most words of a value.
MOST_OF_VALUE = 5
#: Most words that a sentence takes back at its end.
MOST_OF_TAIL = 3
#: Fewest words of a sentence, of the common part of two sentences, and before a value.
SOME = 2
#: Share of the words taken back that the earlier sentence must hold.
DENIED_SHARE = 0.75
#: Facts of which a person has one at a time.
_ONE_VALUED = frozenset(
    {"user_home", "user_employer", "user_job", "user_birthday", "user_name", "user_favourite", "user_diet"}
    | {"user_marriage"}
)


class Change(IntEnum):
    """How clearly a sentence says that something has changed."""

    NONE = 0
    WEAK = 1  # "now": it may be new and true beside the old
    STRONG = 2  # "instead", "actually"


@dataclass(eq=False)
class Sentence:
    """A sentence without its words of change.

    `words` are in lower case without articles, `names` says which of them are written as names. `taken_back` are
    the words of a value that no longer holds ("instead of npm"); `negated`: the whole sentence says that something
    does not hold; `ended`: it says that something held before. `text` is the sentence as a speaker of this `name`
    wrote it, `kinds` are those of the facts of one value that it may tell: most sentences are compared by their
    words alone, so facts are read on demand. `told` is a change that it tells in words of its own; `came`: it says
    how something "ended up"; `clause`: it is a part of a sentence, which takes the place of another one only where
    it names its subject; `german`: it was German, of which not every verb is known.
    """

    words: tuple[str, ...] = field(repr=False)
    names: tuple[bool, ...] = field(repr=False)
    change: Change
    negated: bool
    ended: bool
    adds: bool
    taken_back: tuple[str, ...] = field(repr=False)
    text: str = field(repr=False)
    name: str | None = field(repr=False)
    kinds: frozenset[str]
    told: ToldChange | None = field(default=None, repr=False)
    came: bool = False
    clause: bool = False
    german: bool = False

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The index terms of its words."""
        return tuple(analyse_text(" ".join(self.words)).counts)

    @cached_property
    def facts(self) -> Mapping[tuple[str, str], str]:
        """The values of the facts of one value that it states, by identity."""
        stated = (fact for fact in self._found if fact.fact_id in _ONE_VALUED and not fact.denied)
        return {(fact.fact_id, fact.key): fact.value.casefold() for fact in stated}

    @cached_property
    def stated(self) -> frozenset[tuple[str, str]]:
        """The identities of all the facts that it states."""
        return frozenset((fact.fact_id, fact.key) for fact in self._found if not fact.denied)

    @cached_property
    def denied(self) -> frozenset[tuple[str, str, str]]:
        """The identities and values of the facts that it denies."""
        return frozenset((fact.fact_id, fact.key, fact.value.casefold()) for fact in self._found if fact.denied)

    @cached_property
    def stated_value(self) -> ToldValue | None:
        """The value that it says something has, if it is no denial."""
        return read_stated_value(self) if self.words and not self.negated else None

    @cached_property
    def new_value(self) -> ToldValue | None:
        """The value that it says something has now."""
        changed = self.change is not Change.NONE
        return read_new_value(self, changed=changed) if self.words and not self.negated else None

    @cached_property
    def others(self) -> tuple[bool, ...]:
        """Whether it speaks of another person by each of the pronouns that tell persons apart.

        Of those who move something ("they pushed the deadline") it does not speak.
        """
        moved = self.words[:1] == _MOVERS and not MOVES_AND_SETS.isdisjoint(self.words[1:2])
        words = self.words[1:] if moved else self.words
        return tuple(not foreign.isdisjoint(words) for foreign in _FOREIGN)

    @cached_property
    def _found(self) -> Sequence[ExtractedFact]:
        return find_facts(MessageText(MINED_ROLE, self.text, self.name), 0)


class Marks(NamedTuple):
    """The hashes of what each sentence of a message needs, and of what all offer.

    A look at them tells that most messages do not take the place of each other: the one that does offers something of
    what each sentence of the other one needs.
    """

    needed: Sequence[frozenset[int]]
    offered: frozenset[int]


class Statement:
    """The statements of a message by a speaker of this name; marks alone tell most messages apart."""

    def __init__(self, text: str, name: str | None) -> None:
        self._text, self._name = text, name

    @cached_property
    def sentences(self) -> Sequence[Sentence]:
        """Its sentences; none of a long message, or of one with a sentence that does not state how things are."""
        return _read_sentences(self._text, self._name)

    @cached_property
    def told(self) -> Sequence[Sentence]:
        """Its sentences, and the clauses of those that have several: each may take the place of a statement."""
        return [*self.sentences, *(clause for one in self.sentences for clause in _read_clauses(one))]

    @cached_property
    def settled(self) -> ToldValue | None:
        """The value that it gives to the subject of the message before: "Make it Tuesday instead", "8 it is"."""
        found = _SETTLED.fullmatch(self._text)
        told = _read_sentences(f"It is {found['made'] or found['put']}", self._name) if found else ()
        value = told[0].stated_value if told else None
        return None if value is None or value.subject else value

    @cached_property
    def marks(self) -> Marks:
        """Its marks; those of a message that was read lately are known."""
        return _MARKS.find(self.digest, lambda: _find_marks(self.sentences, self.told))

    @property
    def is_read(self) -> bool:
        """Whether it has sentences that are read."""
        return bool(self.marks.needed)

    @cached_property
    def digest(self) -> bytes:
        """The digest of the message and its speaker's name."""
        name = self._name or ""
        return digest_text(f"{len(name)} {name}{self._text}")


_SENTENCE_END = re.compile(
    r"\s(?:(?<=[.!]\s)(?<!\bMr\.\s)(?<!\bMrs\.\s)(?<!\bMs\.\s)(?<!\bDr\.\s)(?<!\bSt\.\s)(?<!\bProf\.\s)\s*"
    # "Am 3. Mai" is one sentence.
    r"(?!(?<=\d\.\s)(?:Januar|Februar|M\u00e4rz|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b)"
    r"|(?<=\n)\n*)"
)
_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"[^\W_](?:[\w:.'\u2019@/-]*\w)?|,")
# Interjections that begin a sentence; those of them that correct: "No, the retro is on Thursday".
_CORRECTING = frozenset({"no", "nope", "sorry", "oops", "update", "nein", "nee", "ups"})
_INTERJECTIONS = (
    _CORRECTING
    | {"wait", "oh", "ok", "okay", "well", "hm", "hmm", "ah", "btw", "fyi", "yes", "yeah"}
    | {*("hey", "hi", "ach", "ja", "also", "hallo", "moin")}
)
# Words and phrases of sentences that do not state how things are now.
_UNSURE = word_list("change", "unsure")
_NOT_NOW = re.compile(
    r"\b(?:may be|(?:am|m|is|s|are|re|was|were|be|been|get|got|getting) used to|last year|in (?:19|20)\d\d)\b"
)
_ADDS = word_list("change", "adds")
_TABLE = read_table("changes")
_CONTRACTED: Mapping[str, Sequence[str]] = {said: meant.split() for said, meant in _TABLE["contracted"].items()}
# Words behind "is", not behind an owner: "dinner's at eight", not "Ana's phone".
_BEHIND_IS = frozenset(
    {"at", "on", "in", "now", "off", "gone", "been", "moved", "down", "up", "not", "still", "actually"}
)
_DROPPED = frozenset({"the", "a", "an", ","})
_STRONG, _WEAK, _ENDS = (
    tuple(tuple(one.split()) for one in _TABLE["phrases"][kind]) for kind in ("strong", "weak", "ends")
)
_CEASES = frozenset({"stopped", "quit", "ceased"})
_TAKES_BACK = (("instead", "of"), ("rather", "than"))
_NOT_SO = (",", "not")
_PHRASES = (*_STRONG, *_WEAK, *_ENDS, *_TAKES_BACK)
_DROPPED_OF_NEGATED = _DROPPED | {"not", "never", "do", "does"} | _CEASES
_SELF = frozenset({"i", "me", "my", "mine", "we", "us", "our", "ours"})
_PRONOUNS = frozenset({"i", "we", "you", "he", "she", "they", "it"})
# Kinds of values that only people and animals have.
_OF_PERSONS = frozenset({"job", "trait"})
# What these mean, another sentence tells.
_POINTING = frozenset({"it", "this", "that", "these", "those", "there"})
_FOREIGN = (frozenset({"he", "him", "his"}), frozenset({"she", "her", "hers"}), frozenset({"they", "them", "their"}))
_MOVERS = ("they",)
# Verbs between a person and the version of a thing that they use.
_HAS_VERSION = word_list("change", "using")
_AUXILIARIES = frozenset({"do", "does", "did", "am", "is", "are", "will", "be", "can", "have", "has"})
_COPULAS = frozenset({"is", "are", "am"})
_BEFORE_PLACE, _AIDS = PLACED | {"to"}, frozenset({"use", "prefer"})
_NAMING = frozenset({"called", "named"})
_VALUED, _CHOSEN = word_list("change", "valued"), word_list("change", "chosen")
_MANY = (people_nouns() | word_list("change", "many")) - word_list("change", "single")
_ATTITUDES, _PLANNED, _ONCE = (word_list("change", kind) for kind in ("attitude", "planned", "past"))
# A sentence that joins two things keeps one of them, and a past state stays past.
_NOT_ALONE = frozenset({"and", "or", "was", "were", "had", "did"})
_ARRANGEMENTS = frozenset({"order", "booking", "reservation", "subscription", "appointment", "whole", "entire"}) | {
    *("trip", "holiday", "flight", "visit", "tour", "show", "concert", "tickets")
}
_ARRANGING = frozenset(
    {"going", "flying", "travelling", "traveling", "visiting", "seeing", "tickets", "ticket", "trip"}
)
_ROLES = frozenset(analyse_text("owner lead manager maintainer chair").counts)
_FIRST, _KIN = frozenset({"i", "we"}), word_list("change", "kin")
_OURS = (("my",), ("our",))
_COLLECTING, _MONTHS, _ARRANGED = (word_list("change", kind) for kind in ("collecting", "month", "arranged"))
_TITLES = frozenset({"mr", "mrs", "ms", "dr", "prof", "st"})
_BEFORE_VALUE = PLACED | _TITLES | {"to", "for", "from"}
_BEHIND_VALUE = _BEFORE_VALUE | {",", "of", "as", "every", "each", "today", "now", "when", "after", "before"}
_CHANGED = re.compile(r"\b(?:" + "|".join(map(" ".join, _PHRASES)) + r"|stopped|quit|ceased)\b")
# A text without any of these words tells no change.
_OF_CHANGE = _CEASES | {max(phrase, key=len) for phrase in _PHRASES}
# Kinds of the facts of one value that a text with one of these words may state or deny; without any it tells none.
_MAY_TELL: Mapping[str, Sequence[str]] = {
    word: [kind for kind, others in _TABLE["may_tell"].items() if word in others.split()]
    for words in _TABLE["may_tell"].values()
    for word in words.split()
}
# A clause of its own beside another one, and the words by which a question asks for a fact of one value.
_OTHER_CLAUSE = re.compile(
    r"(?:[,;]|\b(?:and|but|plus))\s+(?:and\s+|but\s+)?"
    r"(?:(?:i|we|he|she|it|they)(?:['\u2019]\w{1,3})?|my|our|the|there|live|work|have|am|play|like|love|own|speak"
    r"|study)\s",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"\s*[,;]\s+(?:and |but |so )?|\s+(?:and|but|so)\s+(?=(?:i|we|my|our|it|they|the)\b)", re.IGNORECASE
)
_ASKS_FOR: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "user_home": word_list("change", "asked_home"),
        "user_employer": word_list("change", "asked_work"),
        "user_job": word_list("change", "asked_work"),
        "user_birthday": word_list("change", "asked_birthday"),
        "user_name": word_list("change", "asked_name"),
        "user_favourite": word_list("change", "asked_favourite"),
        "user_diet": word_list("change", "asked_diet"),
        "user_marriage": word_list("change", "asked_marriage"),
    }
)
# Marks of sentences beside the kinds of their facts: their first and last words, that the later states a change, any.
_BEGINS, _ENDS_ALIKE, _SAYS_CHANGE, _ANY = "begins", "ends", "says a change", "any"
# The marks of messages, about 2 KiB each, and of pairs of them whether the later one takes the place of the other.
_MARKS, _TAKES_PLACE = KnownTexts[Marks](2048), KnownTexts[bool](16_384)
_KEPT_BEFORE = frozenset({"and", "because", "since", "while", "when", "where", "who", "which", "that", "as"})


_SETTLED = re.compile(
    r"\W*(?:(?:ok(?:ay)?|actually|sorry|no|hm+|well|wait|alright|fine|yes|yeah|right|great|then)\b\W*){0,3}"
    r"(?:(?:let['\u2019]?s |please |we can |better )?make (?:it|that) (?P<made>[^.!?,;\n]{1,30}?)"
    r"|(?P<put>[^.!?,;\n]{1,30}?) it is)(?: (?:instead|then|please|now|actually|rather)){0,2}\W*",
    re.IGNORECASE,
)


def read_statement(text: str, name: str | None = None) -> Statement:
    """Return the statements of a message by a speaker of this name.

    It is read on demand, up to MOST_CHARACTERS, in time in proportion to the text; that never raises.
    """
    return Statement("" if len(text) > MOST_CHARACTERS or "?" in text else text, name)


def takes_place(later: Statement, earlier: Statement) -> bool:
    """Return whether a later message leaves nothing of an earlier one: each of its sentences has a successor."""
    offered = later.marks.offered
    for needed in earlier.marks.needed:
        if needed.isdisjoint(offered):
            return False
    if not earlier.marks.needed:  # it states nothing that could be taken back
        return False
    return _TAKES_PLACE.find(later.digest + earlier.digest, lambda: _replaces_all(later.told, earlier.sentences))


def settles_otherwise(later: Statement, earlier: Statement) -> bool:
    """Return whether a message without a subject gives another value to the subject of the message just before it."""
    now = later.settled
    if now is None:
        return False
    values = (one.stated_value for one in earlier.sentences)
    return any(then is not None and _is_other_of_kind(now, then) for then in values)


def _is_other_of_kind(now: ToldValue, then: ToldValue) -> bool:
    """Return whether two values are of one kind and unit, where both tell it, and differ."""
    units = {value[1:] for value in (now.value, then.value) if value[1:]} if now.kind == "number" else set()
    return now.kind == then.kind != "other" and now.value != then.value and len(units) <= 1


def leaves_more(later: Statement, earlier: Statement, asked: AbstractSet[str]) -> bool:
    """Return whether an earlier message has a statement that a later one leaves, and the question asks for it.

    `asked` are the words of the question, in lower case. "I'm Mia, I live in Graz and I have two cats" is not outdated
    by "I moved to Vienna" where a question is about the cats.
    """
    taken = {
        identity
        for new in later.sentences
        for old in earlier.sentences
        for identity, value in old.facts.items()
        if new.facts.get(identity, value) != value or (*identity, value) in new.denied
    }
    more = any(_OTHER_CLAUSE.search(old.text) or not old.stated <= taken for old in earlier.sentences)
    if not more:
        return False
    if taken:
        return all(_ASKS_FOR[kind].isdisjoint(asked) for kind, _ in taken)
    return all(set(new.words).isdisjoint(asked - _SELF - _AUXILIARIES - _PRONOUNS) for new in later.sentences)


def _read_sentences(text: str, name: str | None) -> Sequence[Sentence]:
    if text.count(". ") + text.count("! ") > 2 * MOST_SENTENCES:
        return ()
    parts = [part for part in _SENTENCE_END.split(text.strip()) if part]
    if len(parts) > MOST_SENTENCES:
        return ()
    if any(len(_TOKEN.findall(part)) > MOST_WORDS for part in parts):
        return ()
    low = text.lower()
    words = set(_WORD.findall(low))
    if not _UNSURE.isdisjoint(words) or _NOT_NOW.search(low):
        return ()
    changed, tells = not _OF_CHANGE.isdisjoint(words), not words.isdisjoint(_MAY_TELL)
    read = (_read_sentence(part, name, changed=changed, tells=tells) for part in parts)
    return [one for one in read if one is not None]


def _read_clauses(sentence: Sentence) -> Sequence[Sentence]:
    """Return the clauses of a sentence that has several and tells a change, each as a sentence."""
    if not (sentence.change or sentence.told or sentence.negated) and MOVES_AND_SETS.isdisjoint(sentence.words):
        return ()
    parts = _CLAUSE.split(sentence.text)
    if len(parts) > 1 and len(_WORD.findall(parts[0])) < SOME:  # "Actually, make it two": the word of change stays
        parts[:2] = [f"{parts[0]}, {parts[1]}"]
    if len(parts) < SOME:
        return ()
    read = (_read_sentence(part, sentence.name, changed=True, tells=bool(sentence.kinds)) for part in parts)
    return [replace(one, clause=True) for one in read if one is not None]


def _find_marks(sentences: Sequence[Sentence], told: Sequence[Sentence]) -> Marks:
    offered = frozenset(hash(mark) for one in told for mark in _list_offered(one))
    return Marks([frozenset(map(hash, _list_needed(one))) for one in sentences], offered)


def _list_needed(old: Sentence) -> Iterator[Hashable]:
    """Yield marks, of which each sentence that replaces this one has at least one; none if no sentence can."""
    if old.ended:
        return
    yield from ((_BEGINS, old.words[:SOME]), (_ENDS_ALIKE, old.words[-SOME:]), _SAYS_CHANGE)
    yield from old.kinds
    if old.negated:
        yield _ANY


def _list_offered(new: Sentence) -> Iterator[Hashable]:
    yield from ((_BEGINS, new.words[:SOME]), (_ENDS_ALIKE, new.words[-SOME:]), _ANY)
    yield from new.kinds
    state = new.stated_value is not None and is_state(new.stated_value)
    if new.negated or new.taken_back or new.told or new.came or new.new_value or state:
        yield _SAYS_CHANGE


def _read_sentence(text: str, name: str | None, *, changed: bool, tells: bool) -> Sentence | None:
    """Return a sentence; `changed` and `tells`: a word of change, or of a fact, is in it or in one beside it."""
    tokens = _TOKEN.findall(text)
    if len(tokens) < SOME:
        return None
    lows, names = _expand_contractions(tokens)
    lows, names, corrects = _drop_interjections(lows, names)
    if german := is_german(lows):
        lows, names = turn_german(lows, names)
    taken, change, told, ended, came = list[str](), Change.NONE, None, False, False
    if retold := not CUES.isdisjoint(lows):
        lows, names = drop_turned_out(lows, names)
        lows, names, ended = cut_former(lows, names)
        told = read_told_change(lows)
        lows, names, came = drop_came(lows, names)
    if not_so := _find_not_so(lows):
        taken, lows, names = lows[not_so + SOME :], lows[:not_so], names[:not_so]
    if (changed or retold or german) and _CHANGED.search(" ".join(lows)):
        back, lows, names = _cut_taken_back(lows, names)
        taken += back
        ended = ended or any(find_phrase(lows, one) >= 0 for one in _ENDS) or bool(_CEASES.intersection(lows))
        change, lows, names = _drop_change(lows, names)
        told = told or (read_now_chosen(lows) if change else None)
        lows, names = turn_cleft(lows, names)
    lows, names, role = turn_role(*turn_named(lows, names))
    change = max(change, Change.WEAK) if role or corrects else change
    negated = ended or "not" in lows or "never" in lows
    if negated:
        lows, names = _first_clause(lows, names)
    dropped = _DROPPED_OF_NEGATED if negated else _DROPPED
    kept = [named or low not in dropped for low, named in zip(lows, names, strict=True)]
    telling = _WORD.findall(text.lower()) if tells else ()
    return Sentence(
        tuple(compress(lows, kept)),
        tuple(compress(names, kept)),
        Change.STRONG if taken or came else change,
        negated,
        ended,
        not _ADDS.isdisjoint(lows),
        tuple(taken),
        text,
        name,
        frozenset(kind for word in telling for kind in _MAY_TELL.get(word, ())),
        told,
        came,
        german=german,
    )


def _drop_interjections(lows: list[str], names: list[bool]) -> tuple[list[str], list[bool], bool]:
    """Return a sentence without its interjections ("No, ..."), and whether these correct an earlier message."""
    corrects = False
    while len(lows) >= 2 * SOME and lows[1] == "," and lows[0] in _INTERJECTIONS:
        corrects = corrects or lows[0] in _CORRECTING
        lows, names = lows[SOME:], [False, *names[SOME + 1 :]]
    return lows, names, corrects


def _find_not_so(lows: Sequence[str]) -> int:
    """Return where the tail of "four tickets, not three" begins; 0 if there is none."""
    at = find_phrase(lows, _NOT_SO)
    return at if at >= SOME and at + SOME < len(lows) <= at + SOME + MOST_OF_TAIL else 0


def _drop_change(lows: list[str], names: list[bool]) -> tuple[Change, list[str], list[bool]]:
    """Return how clearly a sentence says that something has changed, and the sentence without the words that do."""
    change = Change.NONE
    for strength, phrases in ((Change.STRONG, _STRONG), (Change.WEAK, _WEAK), (Change.NONE, _ENDS)):
        for phrase in phrases:
            lows, names, found = _drop_phrase(lows, names, phrase)
            change = max(change, strength) if found else change
    return change, lows, names


def _expand_contractions(tokens: Sequence[str]) -> tuple[list[str], list[bool]]:
    lows, names = list[str](), list[bool]()
    for nth, token in enumerate(tokens):
        low = token.lower()
        named = bool(lows) and token != low and low not in _PRONOUNS
        if "'" in low or "\u2019" in low or low in _CONTRACTED:
            parts = _expand_contraction(low.replace("\u2019", "'"), tokens[nth + 1 : nth + 2])
            lows += parts
            names += [named] * len(parts)
        else:
            lows.append(low)
            names.append(named)
    return lows, names


def _expand_contraction(low: str, follows: Sequence[str]) -> Sequence[str]:
    if low.endswith("'s") and low not in _CONTRACTED and not _BEHIND_IS.isdisjoint(follows):  # "the rent's gone up"
        return low[:-2], "is"
    return _CONTRACTED.get(low) or ((low[:-3], "not") if low.endswith("n't") else (low,))


def _drop_phrase(lows: list[str], names: list[bool], phrase: Sequence[str]) -> tuple[list[str], list[bool], bool]:
    at = find_phrase(lows, phrase)
    if at < 0:
        return lows, names, False
    end = at + len(phrase)
    return lows[:at] + lows[end:], names[:at] + names[end:], True


def _cut_taken_back(lows: list[str], names: list[bool]) -> tuple[list[str], list[str], list[bool]]:
    """Return the words that a sentence takes back ("instead of npm"), and the sentence without them."""
    for phrase in _TAKES_BACK:
        at = find_phrase(lows, phrase)
        if at >= 0:
            taken = list(takewhile(lambda low: low != "," and low not in _KEPT_BEFORE, lows[at + len(phrase) :]))
            end = at + len(phrase) + len(taken)
            return taken, lows[:at] + lows[end:], names[:at] + names[end:]
    return [], lows, names


def _first_clause(lows: list[str], names: list[bool]) -> tuple[list[str], list[bool]]:
    """Return the clause that is negated: up to the comma behind the negation."""
    begins = next((at for at, low in enumerate(lows) if low in {"not", "never"}), 0)
    end = next((at for at, low in enumerate(lows) if low == "," and at > max(begins, 1)), len(lows))
    return lows[:end], names[:end]


def _replaces_all(new: Sequence[Sentence], old: Sequence[Sentence]) -> bool:
    return all(any(_replaces_sentence(one, former) for one in new) for former in old)


def _replaces_sentence(new: Sentence, old: Sentence) -> bool:
    """Return whether a sentence takes the place of an earlier one of the same speaker."""
    if old.ended or (new.words == old.words and new.negated == old.negated):
        return False
    of_facts = not new.kinds.isdisjoint(old.kinds)
    if of_facts and not new.denied.isdisjoint((*identity, value) for identity, value in old.facts.items()):
        return True
    if (new.adds and not new.ended) or _speaks_of_others(new, old):
        return False
    if of_facts and any(old.facts.get(identity, value) != value for identity, value in new.facts.items()):
        return True
    return _takes_place_by_words(new, old)


def _takes_place_by_words(new: Sentence, old: Sentence) -> bool:
    if new.negated and not old.negated:
        return _denies_sentence(new, old)
    if new.negated != old.negated:
        return _drop_auxiliaries(new.words) == _drop_auxiliaries(old.words)
    if new.taken_back:
        return _takes_back(new, old)
    if new.told is not None and _tells_change(new, new.told, old):
        return True
    if new.came:
        new, old = _reduce_sentence(new), _reduce_sentence(old)
    return (not (new.clause or new.german or old.german) and _gives_other_value(new, old)) or _tells_other_value(
        new, old
    )


def _tells_other_value(new: Sentence, old: Sentence) -> bool:
    """Return whether a sentence gives another value to the subject of an earlier one."""
    then, now = old.stated_value, new.stated_value
    if then is None:
        return False
    other = new.new_value is not None and is_other_value(new.new_value, then)
    return other or (now is not None and is_other_state(now, then))


def _reduce_sentence(one: Sentence) -> Sentence:
    words, names = reduce_words(one.words, one.names)
    return replace(one, words=words, names=names)


def _tells_change(new: Sentence, told: ToldChange, old: Sentence) -> bool:
    """Return whether a sentence tells a change of the earlier statement, and of nothing else."""
    if len(old.words) < SOME:
        return False
    verb = old.words[SOME - 1] if old.words[0] in _FIRST else ""
    once = verb in _ONCE or (verb.endswith("ed") and not (told.left and verb in _ARRANGED))
    if once or not (_NOT_ALONE | _ATTITUDES).isdisjoint(old.words):
        return False
    if not told.about <= set(old.terms):
        return False
    if (told.off and _is_for_then(told, old)) or (told.version and _has_other_version(new, told, old)):
        return True
    if told.left:
        arranged = verb in _ARRANGED or (told.off and not _ARRANGING.isdisjoint(old.words))
        return (arranged and _is_called_off(told, old)) or (not told.off and _leaves_value(new, told, old))
    return _chooses_otherwise(new, told, old)


def _has_other_version(new: Sentence, told: ToldChange, old: Sentence) -> bool:
    """Return whether an earlier sentence tells another version of a thing ("we use Postgres 14"), and nothing more."""
    version, thing = told.version or ("", ())
    before, value, behind = _find_version(old.words, thing, version)
    if not before or value == version or new.words[:1] == _MOVERS:
        return False
    first = before[0] in _FIRST
    own = _HAS_VERSION.issuperset(before[1:]) if first else before[0] in _SELF and before[-1] in _COPULAS
    return (own or _list_more(before) <= told.about) and _list_more(behind) <= told.about


def _find_version(words: Sequence[str], thing: Sequence[str], version: str) -> tuple[Sequence[str], str, Sequence[str]]:
    """Return the version of a thing among words, and the words before and behind both; nothing if there is none.

    A number stands behind the thing ("Postgres 14"), other words before it ("the basic plan").
    """
    at = find_phrase(words, thing)
    end = at + len(thing)
    end += words[end : end + 1] == ("version",)
    if at > 0 and _is_numbered(version) and words[end:] and _is_numbered(words[end]):
        return words[:at], words[end], words[end + 1 :]
    if at > 1 and _is_numbered(version) == _is_numbered(words[at - 1]) and words[at - 1] not in _SELF:
        return words[: at - 1], words[at - 1], words[end:]
    return (), "", ()


def _is_numbered(word: str) -> bool:
    return is_count(word.removeprefix("v"))


def _list_more(words: Sequence[str]) -> AbstractSet[str]:
    return analyse_text(" ".join(words)).counts.keys() - _HAS_VERSION


def _is_for_then(told: ToldChange, old: Sentence) -> bool:
    """Return whether the earlier sentence tells the time of the thing called off: "the concert is on Friday"."""
    then = old.stated_value
    return then is not None and then.kind in COUNTED and set(analyse_text(" ".join(told.left)).counts) == then.subject


def _leaves_value(new: Sentence, told: ToldChange, old: Sentence) -> bool:
    """Return whether the earlier sentence gives its subject the value that was left: "our bookkeeper is Mr. Kern"."""
    at, here = find_phrase(old.words, told.left), find_phrase(new.words, told.left)
    end = at + len(told.left)
    of_subject = at > 0 and old.words[end : end + 1] and old.words[end] in _COPULAS
    if at < 0 or of_subject or (end < len(old.words) and old.words[end] not in _BEHIND_VALUE | _COPULAS):
        return False
    if at == 0:
        return here > 0 and new.names[here] and old.words[end + 1 : end + 2] in _OURS and _KIN.isdisjoint(old.words)
    if here > 0 and new.names[here : here + len(told.left)] != old.names[at:end]:
        return False
    before = old.words[:at]
    copula = before[-1] in _COPULAS
    if not (copula or before[-1] in _BEFORE_VALUE or (before[0] in _FIRST and at >= SOME)):
        return False
    foreign = people_nouns().intersection(old.words) - set(new.words)
    if foreign and not (
        (copula or old.words[1] in _ARRANGED) and all(old.names[at:end]) and _KIN.isdisjoint(old.words)
    ):
        return False
    own = not _SELF.isdisjoint(before)
    return own or (bool(told.about) and set(_list_subject(before, copula=copula)) - _ROLES <= told.about)


def _is_called_off(told: ToldChange, old: Sentence) -> bool:
    """Return whether the earlier sentence arranged the thing called off: "the Hertz car", "the sofa order"."""
    left = set(analyse_text(" ".join(word for word in told.left if word not in _ARRANGEMENTS)).counts)
    return bool(left) and left <= set(analyse_text(" ".join(old.words[SOME:])).counts)


def _list_subject(before: Sequence[str], *, copula: bool) -> Iterator[str]:
    """Yield the terms of a subject, of the words before a value; a preposition has the verb before it."""
    yield from analyse_text(" ".join(before[: -1 if copula else -SOME])).counts


def _chooses_otherwise(new: Sentence, told: ToldChange, old: Sentence) -> bool:
    """Return whether an earlier sentence states another choice for the same: "for the table", "the table will be"."""
    foreign = analyse_text(" ".join(people_nouns().intersection(old.words))).counts.keys() - set(new.terms)
    if not told.about or foreign or set(told.chosen) <= set(old.words):
        return False
    at = find_phrase(new.words, told.chosen)
    kind = tell_kind(new, at, told.chosen) if at >= 0 else ""
    stated = [
        tell_kind(old, nth, (word,))
        for nth, word in enumerate(old.words)
        if nth and told.about.isdisjoint(analyse_text(word).counts)
    ]
    if kind not in PLACES:
        return kind in stated
    planned = not _PLANNED.isdisjoint(old.words)
    return PLACES.issuperset(stated) and (planned or (kind == "name" and "name" in stated))


def _speaks_of_others(new: Sentence, old: Sentence) -> bool:
    """Return whether one of the sentences is about another person by a pronoun than the other one."""
    return new.others != old.others


def _denies_sentence(new: Sentence, old: Sentence) -> bool:
    """Return whether a negated sentence says that an earlier one does not hold.

    The earlier one begins with the denied words: "my sister works at Nordwind" is not denied by "I no longer work at
    Nordwind".
    """
    if not new.words or not old.words:
        return False
    if not new.ended:
        return _drop_auxiliaries(new.words) == _drop_auxiliaries(old.words)
    exact = {word for word, named in zip(new.words, new.names, strict=True) if named or word[0].isdigit()}
    if not exact.issubset(old.words):
        return False
    mine, other = new.terms, old.terms
    if not mine or not other or other[0] not in mine or (new.words[0] not in _PRONOUNS and mine[0] not in other):
        return False
    shared = sum(term in other for term in mine)
    if shared < SOME:
        same = set(mine) == set(other) or set(_drop_auxiliaries(new.words)) <= set(_drop_auxiliaries(old.words))
        return shared == len(mine) and same
    return shared >= DENIED_SHARE * len(mine)


def _drop_auxiliaries(words: Sequence[str]) -> list[str]:
    return [word for word in words if word not in {"do", "does"}]


def _takes_back(new: Sentence, old: Sentence) -> bool:
    """Return whether a sentence takes back words of an earlier one, and repeats all the rest of it."""
    taken, said = analyse_text(" ".join(new.taken_back)).counts.keys(), set(old.terms)
    return taken <= said and bool(said - taken) and said - taken <= set(new.terms)


def _gives_other_value(new: Sentence, old: Sentence) -> bool:
    """Return whether two sentences differ in one place, and one value stands there at a time."""
    before = _count_same(new.words, old.words)
    room = min(len(new.words), len(old.words)) - before
    after = min(room, _count_same(new.words[::-1], old.words[::-1]))
    mine, other = new.words[before : len(new.words) - after], old.words[before : len(old.words) - after]
    if not mine or not other or max(len(mine), len(other)) > MOST_OF_VALUE or not set(mine).isdisjoint(other):
        return False
    opening, ending = new.words[:before], new.words[len(new.words) - after :]
    placed = [[word for word in value[1:] if word in PLACED] for value in (mine, other)]
    subject = opening[-2] if len(opening) >= SOME and opening[-1] in _COPULAS else ""
    kinds = tell_kind_of(subject, new, before, mine), tell_kind_of(subject, old, before, other)
    apart = kinds[0] != kinds[1] and not _OF_PERSONS.isdisjoint(kinds)
    if apart or placed[0] != placed[1] or not _POINTING.isdisjoint(opening[:1]):
        return False
    if new.change is Change.STRONG:
        first = not opening and is_name(new, before, mine) and len(ending) >= SOME
        stated = first or _has_verb(opening) or _is_order(new, opening)
        same = not new.came or _is_same_deed(opening, mine, ending, kinds)
        return stated and same and not _is_counted(kinds)
    where = bool(new.change) and len(opening) > SOME and opening[-1] in _BEFORE_PLACE
    where = where and (not ending or kinds[0] == "name")
    if not (where or _has_verb(opening)) or kinds[0] != kinds[1]:
        return False
    if new.change is Change.WEAK and kinds[0] != "trait":
        return _is_now_other(opening, mine, other, ending, kinds[0])
    return _has_one_value(opening, kinds[0])


def _is_now_other(
    opening: Sequence[str], mine: Sequence[str], other: Sequence[str], ending: Sequence[str], kind: str
) -> bool:
    """Return whether a value that holds "now" holds in place of another one, not beside it."""
    if kind == "number":  # "three dogs now" says nothing of two cats
        things = [{word for word in value if not is_count(word)} for value in (mine, other)]
        return not all(things) or not things[0].isdisjoint(things[1])
    if opening[0] in _PRONOUNS and len(opening) <= SOME + 1 and not ending:
        if opening[1] in _COPULAS and kind not in COUNTED | {"name"}:  # "on the train", "on the list"
            return False
        if opening[1] in _AIDS:
            return False
    return _COLLECTING.isdisjoint(opening) or ("take" in opening and len(ending) >= SOME)


def _is_same_deed(opening: Sequence[str], value: Sequence[str], ending: Sequence[str], kinds: tuple[str, str]) -> bool:
    """Return whether what "ended up" so is the deed that was planned, with another value; a verb alone is no deed."""
    return len(opening) > SOME and kinds[0] == kinds[1] and (kinds[0] != "other" or (len(value) == 1 and not ending))


def _is_counted(kinds: tuple[str, str]) -> bool:
    """Return whether one of two values is a number or a time of a kind of its own."""
    return kinds[0] != kinds[1] and not COUNTED.isdisjoint(kinds)


def _count_same(one: Sequence[str], other: Sequence[str]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _has_verb(opening: Sequence[str]) -> bool:
    """Return whether the words before a value hold their verb: what differs is no subject."""
    if len(opening) < SOME or opening[-1] in _PRONOUNS | {"my", "our"}:
        return False
    return any(word in _PRONOUNS or word in _AUXILIARIES or word in _VALUED for word in opening)


def _is_order(new: Sentence, opening: Sequence[str]) -> bool:
    """Return whether the sentence is an order ("pay with the card"), which begins with its verb."""
    return len(opening) >= SOME and not new.names[0] and opening[0] not in _SELF | PLACED | _MANY


def _has_one_value(opening: Sequence[str], kind: str) -> bool:
    """Return whether the words before a value take one value at a time, without a word of change."""
    if opening[0] in {"one", "some", "many"} or not _MANY.isdisjoint(opening):
        return False
    before = _BEFORE_VALUE | _MONTHS
    verb = next((at for at in range(len(opening) - 1, -1, -1) if opening[at] not in before), 0)
    if opening[verb] in _NAMING:
        return verb > 0 and opening[verb - 1] in _COPULAS
    if opening[verb] in _VALUED:
        return kind in COUNTED or opening[0] in _PRONOUNS
    if opening[verb] not in _COPULAS or verb == 0 or opening[verb - 1] in _PRONOUNS:
        return False
    return kind != "other" or not _CHOSEN.isdisjoint(opening[:verb]) or opening[-1] in PLACED
