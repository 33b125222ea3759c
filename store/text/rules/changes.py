"""Tells whether a statement takes the place of an earlier one by the same person, by English rules. Pure.

"The standup is at ten" takes the place of "The standup is at nine": one subject, one verb that has one value at a
time, another value of the same kind. With a word of change ("now", "instead", "no longer") more verbs count. Two truths
that hold beside each other ("I like tea", "I like coffee"; two friends, two servers) are never taken for one: where it
is not clear that the subject is the same, the answer is no.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import takewhile
from types import MappingProxyType

from store.text.rules.facts import find_facts
from store.text.rules.gazetteer import word_list
from store.text.rules.model import MessageText
from store.text.terms import analyse_text

#: Most characters of a text, words of a sentence and sentences of a text that are read: what is longer tells a story.
MOST_CHARACTERS, MOST_WORDS, MOST_SENTENCES = 320, 32, 3
#: Most words of a value.
MOST_OF_VALUE = 5
#: Fewest words of a sentence, of what two sentences share, and of what stands before a value.
SOME = 2
#: Share of what a sentence takes back that the earlier one must have said.
DENIED_SHARE = 0.75
#: Facts of which a person has one at a time.
_ONE_VALUED = frozenset(
    {"user_home", "user_employer", "user_job", "user_birthday", "user_name", "user_favourite"},
)


class Change(IntEnum):
    """How clearly a sentence says that something has changed."""

    NONE = 0
    WEAK = 1  # "now": it may be new and true beside the old
    STRONG = 2  # "instead", "actually"


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence without its words of change.

    `words` are in lower case without articles, `names` says which of them are written as names. `taken_back` are the
    words of what is said to hold no more ("instead of npm"); `negated`: the whole sentence says that something does not
    hold, `ended`: that it did before. `facts` are the facts of one value that it states, by identity, `denied` those
    that it denies, with their values.
    """

    words: tuple[str, ...] = field(repr=False)
    names: tuple[bool, ...] = field(repr=False)
    change: Change
    negated: bool
    ended: bool
    adds: bool
    taken_back: tuple[str, ...] = field(repr=False)
    facts: Mapping[tuple[str, str], str] = field(repr=False)
    denied: frozenset[tuple[str, str, str]] = field(repr=False)

    @property
    def terms(self) -> tuple[str, ...]:
        """The index terms of its words."""
        return tuple(analyse_text(" ".join(self.words)).counts)


_SENTENCE_END = re.compile(r"(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bProf\.)(?<=[.!])\s+|\n+")
_TOKEN = re.compile(r"[^\W_](?:[\w:.'\u2019-]*\w)?|,")
_NOT_STATED = re.compile(
    r"\b(?:if|unless|whether|would|could|might|may be|maybe|perhaps|probably|should|wish|hope|imagine|suppose|thinks?"
    r"|guess|said|says|told|asked|used to|last year|ago)\b|\bin (?:19|20)\d\d\b",
    re.IGNORECASE,
)
_ADDS = word_list("change", "adds")
_CONTRACTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "i'm": ("i", "am"),
        "we're": ("we", "are"),
        "they're": ("they", "are"),
        "he's": ("he", "is"),
        "she's": ("she", "is"),
        "it's": ("it", "is"),
        "let's": ("we",),
        "can't": ("can", "not"),
        "won't": ("will", "not"),
        "i've": ("i", "have"),
        "we've": ("we", "have"),
        "i'll": ("i", "will"),
        "we'll": ("we", "will"),
    }
)
_ARTICLES = frozenset({"the", "a", "an"})
_STRONG = (
    ("we", "changed", "our", "minds"),
    ("i", "changed", "my", "mind"),
    ("from", "now", "on"),
    ("change", "of", "plan"),
    ("after", "all"),
    ("instead",),
    ("actually",),
    ("correction",),
)
_WEAK = (("these", "days"), ("as", "of", "today"), ("by", "now"), ("now",), ("currently",), ("again",), ("nowadays",))
_ENDS = (
    ("no", "longer"),
    ("any", "more"),
    ("anymore",),
    ("any", "longer"),
)
_CEASES = frozenset({"stopped", "quit", "ceased"})
_TAKES_BACK = (("instead", "of"), ("rather", "than"))
_SELF = frozenset({"i", "me", "my", "mine", "we", "us", "our", "ours"})
_PRONOUNS = frozenset({"i", "we", "you", "he", "she", "they", "it"})
_FOREIGN = (frozenset({"he", "him", "his"}), frozenset({"she", "her", "hers"}), frozenset({"they", "them", "their"}))
_AUXILIARIES = frozenset({"do", "does", "did", "am", "is", "are", "will", "be", "can", "have", "has"})
_COPULAS = frozenset({"is", "are", "am"})
_PLACED = word_list("change", "placed")
_NAMING = frozenset({"called", "named"})
_VALUED, _CHOSEN = word_list("change", "valued"), word_list("change", "chosen")
_MANY = (word_list("people", "person") | word_list("people", "animal") | word_list("change", "many")) - word_list(
    "change", "single"
)
_COLLECTING, _MOVES = word_list("change", "collecting"), word_list("change", "moves")
_MONTHS, _DAYS, _COUNTS = (word_list("change", kind) for kind in ("month", "day", "count"))
_CLOCK = re.compile(r"\d{1,2}[:.]\d\d|\d{1,2}(?:am|pm)|noon|midnight")
_TITLES = frozenset({"mr", "mrs", "ms", "dr", "prof", "st"})
_BEFORE_VALUE = _PLACED | _TITLES | {"to", "for", "from"}
_COUNTED = frozenset({"number", "day", "date", "clock"})
_CHANGED = re.compile(
    r"\b(?:" + "|".join(" ".join(one) for one in (*_STRONG, *_WEAK, *_ENDS, *_TAKES_BACK)) + r"|stopped|quit|ceased)\b"
)
# A text without any of these words states and denies no fact of one value.
_MAY_STATE = re.compile(
    r"\b(?:live|living|moved|work|working|job|left|quit|resigned|fired|birthday|name|called|favou?rite)\b",
    re.IGNORECASE,
)
_KEPT_BEFORE = frozenset({"and", "because", "since", "while", "when", "where", "who", "which", "that", "as"})


def read_sentences(text: str, name: str | None = None) -> tuple[Sentence, ...]:
    """Return the sentences of a message by a speaker of this name; none for a text that is long or not all stated.

    Takes time in proportion to the text, which is read up to MOST_CHARACTERS, never raises.
    """
    if len(text) > MOST_CHARACTERS or "?" in text or text.count(". ") + text.count("! ") > 2 * MOST_SENTENCES:
        return ()
    parts = [part for part in _SENTENCE_END.split(text.strip()) if part]
    if len(parts) > MOST_SENTENCES or _NOT_STATED.search(text):
        return ()
    return tuple(one for part in parts if (one := _read_sentence(part, name)) is not None)


def takes_place(later: Sequence[Sentence], earlier: Sequence[Sentence]) -> bool:
    """Return whether a later message leaves nothing of an earlier one: each of its sentences has a successor."""
    return bool(earlier) and all(any(_replaces(new, old) for new in later) for old in earlier)


def _read_sentence(text: str, name: str | None) -> Sentence | None:
    tokens = _TOKEN.findall(text)
    if not SOME <= len(tokens) <= MOST_WORDS:
        return None
    lows, names = _expand(tokens)
    taken, change, ended = list[str](), Change.NONE, False
    if _CHANGED.search(" ".join(lows)):
        taken, lows, names = _cut_taken_back(lows, names)
        ended = any(_find(lows, one) >= 0 for one in _ENDS) or bool(_CEASES.intersection(lows))
        change, lows, names = _drop_change(lows, names)
    negated = ended or "not" in lows or "never" in lows
    if negated:
        lows, names = _first_clause(lows, names)
    dropped = {*_ARTICLES, ","} | ({"not", "never", "do", "does", *_CEASES} if negated else set())
    kept = [(low, named) for low, named in zip(lows, names, strict=True) if named or low not in dropped]
    facts = find_facts(MessageText("user", text, name), 0) if _MAY_STATE.search(text) else []
    return Sentence(
        tuple(low for low, _ in kept),
        tuple(named for _, named in kept),
        Change.STRONG if taken else change,
        negated,
        ended,
        not _ADDS.isdisjoint(lows),
        tuple(taken),
        {
            (fact.fact_id, fact.key): fact.value.casefold()
            for fact in facts
            if fact.fact_id in _ONE_VALUED and not fact.denied
        },
        frozenset((fact.fact_id, fact.key, fact.value.casefold()) for fact in facts if fact.denied),
    )


def _drop_change(lows: list[str], names: list[bool]) -> tuple[Change, list[str], list[bool]]:
    """Return how clearly a sentence says that something has changed, and the sentence without the words that do."""
    change = Change.NONE
    for strength, phrases in ((Change.STRONG, _STRONG), (Change.WEAK, _WEAK), (Change.NONE, _ENDS)):
        for phrase in phrases:
            lows, names, found = _drop(lows, names, phrase)
            change = max(change, strength) if found else change
    return change, lows, names


def _expand(tokens: Sequence[str]) -> tuple[list[str], list[bool]]:
    lows, names = list[str](), list[bool]()
    for place, token in enumerate(tokens):
        low = token.lower().replace("\u2019", "'")
        parts = _CONTRACTED.get(low) or ((low[:-3], "not") if low.endswith("n't") else (low,))
        lows += parts
        names += [place > 0 and token[0].isupper() and low not in _PRONOUNS] * len(parts)
    return lows, names


def _find(lows: Sequence[str], phrase: Sequence[str]) -> int:
    width = len(phrase)
    return next((at for at in range(len(lows) - width + 1) if tuple(lows[at : at + width]) == tuple(phrase)), -1)


def _drop(lows: list[str], names: list[bool], phrase: Sequence[str]) -> tuple[list[str], list[bool], bool]:
    at = _find(lows, phrase)
    if at < 0:
        return lows, names, False
    end = at + len(phrase)
    return lows[:at] + lows[end:], names[:at] + names[end:], True


def _cut_taken_back(lows: list[str], names: list[bool]) -> tuple[list[str], list[str], list[bool]]:
    """Return the words of what is taken back ("instead of npm"), and the sentence without them."""
    for phrase in _TAKES_BACK:
        at = _find(lows, phrase)
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


def _replaces(new: Sentence, old: Sentence) -> bool:
    """Return whether a sentence takes the place of an earlier one of the same speaker."""
    if old.ended or (new.words == old.words and new.negated == old.negated):
        return False
    if not new.denied.isdisjoint((*identity, value) for identity, value in old.facts.items()):
        return True
    if (new.adds and not new.ended) or _speaks_of_others(new, old):
        return False
    if any(old.facts.get(identity, value) != value for identity, value in new.facts.items()):
        return True
    return _takes_place_by_words(new, old)


def _takes_place_by_words(new: Sentence, old: Sentence) -> bool:
    if new.negated and not old.negated:
        return _denies(new, old)
    if new.negated != old.negated:
        return _bare(new.words) == _bare(old.words)
    if new.taken_back:
        return _takes_back(new, old)
    return _gives_other_value(new, old) or _moves(new, old)


def _speaks_of_others(new: Sentence, old: Sentence) -> bool:
    """Return whether one of the sentences is about another person by a pronoun than the other one."""
    return any(words.isdisjoint(new.words) != words.isdisjoint(old.words) for words in _FOREIGN)


def _denies(new: Sentence, old: Sentence) -> bool:
    """Return whether a negated sentence says that an earlier one does not hold.

    The earlier one begins with what is denied: "my sister works at Nordwind" is not denied by "I no longer work at
    Nordwind".
    """
    if not new.words or not old.words:
        return False
    if not new.ended:
        return _bare(new.words) == _bare(old.words)
    mine, other = new.terms, old.terms
    if not mine or not other or other[0] not in mine or (new.words[0] not in _PRONOUNS and mine[0] not in other):
        return False
    shared = sum(term in other for term in mine)
    if shared < SOME:
        return shared == len(mine) and set(_bare(new.words)) <= set(_bare(old.words))
    return shared >= DENIED_SHARE * len(mine)


def _bare(words: Sequence[str]) -> list[str]:
    return [word for word in words if word not in {"do", "does"}]


def _takes_back(new: Sentence, old: Sentence) -> bool:
    """Return whether a sentence takes back what an earlier one says, and says again all the rest of it."""
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
    if [word for word in mine[1:] if word in _PLACED] != [word for word in other[1:] if word in _PLACED]:
        return False
    opening, ending = new.words[:before], new.words[len(new.words) - after :]
    kinds = _kind(new, before, mine), _kind(old, before, other)
    if new.change is Change.STRONG:
        first = not opening and _is_name(new, before, mine) and len(ending) >= SOME
        return (first or _has_verb(opening) or _is_order(new, opening)) and not _is_counted(kinds)
    if not _has_verb(opening) or kinds[0] != kinds[1]:
        return False
    if new.change is Change.WEAK:
        return kinds[0] == "number" or _COLLECTING.isdisjoint(opening)
    return _has_one_value(opening, kinds[0])


def _is_counted(kinds: tuple[str, str]) -> bool:
    """Return whether one of two values is a number or a time of a kind of its own."""
    return kinds[0] != kinds[1] and not _COUNTED.isdisjoint(kinds)


def _count_same(one: Sequence[str], other: Sequence[str]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _has_verb(opening: Sequence[str]) -> bool:
    """Return whether the words before a value hold their verb: what differs is no subject."""
    if len(opening) < SOME or opening[-1] in _PRONOUNS | {"my", "our"}:
        return False
    return any(word in _PRONOUNS or word in _AUXILIARIES or word in _VALUED for word in opening)


def _is_order(new: Sentence, opening: Sequence[str]) -> bool:
    """Return whether the sentence is an order ("pay with the card"), which begins with its verb."""
    return len(opening) >= SOME and not new.names[0] and opening[0] not in _SELF | _PLACED | _MANY


def _is_name(sentence: Sentence, at: int, value: Sequence[str]) -> bool:
    """Return whether a value is written as a name; at the beginning of a sentence every word is."""
    return all(sentence.names[at : at + len(value)]) or (at == 0 and len(value) == 1)


def _has_one_value(opening: Sequence[str], kind: str) -> bool:
    """Return whether the words before a value take one value at a time, without a word of change."""
    if opening[0] in {"one", "some", "many"} or not _MANY.isdisjoint(opening):
        return False
    verb = next((at for at in range(len(opening) - 1, -1, -1) if opening[at] not in _BEFORE_VALUE), 0)
    if opening[verb] in _NAMING:
        return True
    if opening[verb] in _VALUED:
        return kind in _COUNTED or opening[0] in _PRONOUNS
    if opening[verb] not in _COPULAS or verb == 0 or opening[verb - 1] in _PRONOUNS:
        return False
    return kind != "other" or not _CHOSEN.isdisjoint(opening[:verb]) or opening[-1] in _PLACED


def _kind(sentence: Sentence, at: int, value: Sequence[str]) -> str:
    """Return the kind of a value: values of two kinds may hold beside each other."""
    if value[0] in _PLACED and len(value) > 1:
        inner = _kind(sentence, at + 1, value[1:])
        return "place" if inner in {"name", "other"} else inner
    if not _DAYS.isdisjoint(value):
        return "day"
    if not _MONTHS.isdisjoint(value):
        return "date"
    if any(_CLOCK.fullmatch(word) for word in value):
        return "clock"
    if any(word[0].isdigit() or word in _COUNTS for word in value):
        return "number"
    return "name" if _is_name(sentence, at, value) else "other"


def _moves(new: Sentence, old: Sentence) -> bool:
    """Return whether a sentence says that something was moved to a value of the kind that the earlier one says."""
    at = next((at for at, word in enumerate(new.words) if word in _MOVES), -1)
    to = next((at for at in range(len(new.words) - 1, 0, -1) if new.words[at] == "to"), -1)
    if at < 0 or to <= at or to + 1 == len(new.words):
        return False
    if not set(new.words[:to]) & set(old.words) and not set(new.terms) & set(old.terms):
        return False
    subject = set(analyse_text(" ".join(new.words[:at] + new.words[at + 1 : to])).counts)
    value = _kind(new, to + 1, new.words[to + 1 :])
    verb = next((at for at, word in enumerate(old.words) if word in _COPULAS), -1)
    begin = next((at for at in range(len(old.words) - 1, 0, -1) if old.words[at] in _PLACED | _COPULAS), -1)
    if not subject or begin < 0 or begin + 1 == len(old.words):
        return False
    told = set(analyse_text(" ".join(old.words[: verb if verb > 0 else begin])).counts)
    said = _kind(old, begin + 1, old.words[begin + 1 :])
    places = {"name", "other", "place"}
    alike = value == said or {value, said} <= places
    return alike and bool(told) and told <= subject and subject <= set(old.terms) | told
