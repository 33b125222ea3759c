"""Reads which value a sentence gives to what: "make the budget 5200", "the launch slipped to May". Pure, English.

Two such sentences are about the same if they name one subject but for words such as "date", which the value tells.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from types import MappingProxyType

from store.text.rules.gazetteer import word_groups, word_list
from store.text.rules.value_kinds import COUNTED, PLACED, PLACES, Worded, is_count, is_counted, tell_kind_of
from store.text.terms import analyse_text


def _list_terms(words: Iterable[str]) -> frozenset[str]:
    return frozenset(analyse_text(" ".join(words)).counts)


#: Verbs of a change, and those of them that need no preposition before a number.
_SETS = frozenset({"make", "set", "put", "turned"})
MOVES_AND_SETS = word_list("change", "moves") | _SETS
#: Words before a subject or a verb that are no part of it.
_LEADING = word_list("change", "leading")
_TRAILING = frozenset({"up", "down", "back", "forward", "out", "over", "again"})
_ROSE = (
    ("went", "up"),
    ("went", "down"),
    ("dropped", "to"),
    ("grew", "to"),
    ("gone", "up"),
    ("gone", "down"),
    ("went", "from"),
)
_COPULAS, _UNTIL = frozenset({"is", "are", "am"}), frozenset({"to", "until", "till"})
_BEFORE_VALUE = PLACED | word_list("change", "before")
_BEHIND_VALUE = PLACED | {","} | word_list("change", "behind")
#: Words of a subject that its value tells as well.
_TOLD_BY_VALUE = _list_terms(word_list("change", "told"))
#: What may stand before the name of a thing: "ticket BILL-204".
_KINDS_OF_THINGS = _list_terms(word_list("change", "things"))
_EXCLUDING: Mapping[str, frozenset[str]] = MappingProxyType(
    {word: states for states in word_groups("change", "states") for word in states}
)
#: Words that begin a sentence on the number of wished or owned things, and on the number of things that there are.
_FIRST, _HERE = frozenset({"i", "we", "i'd", "we'd"}), frozenset({"there"})
# Of "I moved to 5 Elm Road".
_LIVES, _LIVE = ("live",), frozenset({"live", "lives"})
_SHORTEST_PAID, _PAY = 5, frozenset({"pay", "spend", "budgeted"})
_GOT, _CALLED = frozenset({"have", "got", "found", "hired"}), frozenset({"called", "named"})
_NUMBER, _UNITS = "number", (("port",), ("version",), ("room",), ("gate",), ("floor",))
_THAT = (("make", "that"), ("make", "it"))
_MOST_OF_SUBJECT, _HOURS = 6, 24


@dataclass(frozen=True, slots=True)
class ToldValue:
    """A value and the terms of its subject; `placed`: a word such as "at" stands before it; None: it may.

    `owner` are the terms of the person who gives it, who may be named with the subject.
    """

    subject: frozenset[str]
    value: tuple[str, ...]
    kind: str
    placed: bool | None
    owner: frozenset[str] = frozenset()


def read_stated_value(sentence: Worded) -> ToldValue | None:
    """Return the value of a sentence that says how things are ("the standup is at nine"); None if it says none."""
    words = sentence.words
    at = _find_copula(words)
    when = _find_time(words)
    if at > 0 and _says_how_many(words[:at]) and (counted := _read_count(words, at + 1)):
        return counted
    if when > 0:  # "the boiler is serviced on 4 March"
        return _build_value(sentence, words[:when], when)
    if at > 0:
        # "is stored in a vault", "is planned for 3 March"
        held = words[at + 1] if words[at + 2 : at + 3] and words[at + 2] in PLACED | {"for"} else ""
        stored = bool(held) and not held.endswith("ing") and held not in _EXCLUDING and not is_counted(held)
        return _build_value(sentence, words[: at + 2], at + 2) if stored else _build_value(sentence, words[:at], at + 1)
    home = next((nth for nth in range(1, len(words) - 1) if words[nth] in _LIVE and words[nth + 1] in PLACED), -1)
    if home > 0:
        return _build_value(sentence, words[: home + 1], home + 1)
    return _read_dose(sentence) or _read_paid(sentence) or (_read_count(words, 0) if words[0] in _FIRST else None)


def read_new_value(sentence: Worded, *, changed: bool) -> ToldValue | None:
    """Return the value that a sentence says something has now; `changed`: it had a word of change, such as "now"."""
    words = sentence.words
    if tuple(words[:2]) in _THAT:
        return _read_count(words, 2)
    at = next((nth for nth, word in enumerate(words) if _is_move(words, nth)), -1)
    if at >= 0 and not {"want", "wants", "not", "never"}.intersection(words[:at]):
        return _read_moved(sentence, at)
    if named := _read_new_one(sentence):
        return named
    if words[0] in _FIRST and words[2:3] == ("new",):  # "I got a new number: 555"
        number = next((nth for nth in range(3, len(words)) if is_counted(words[nth])), -1)
        return _build_value(sentence, words[3:number], number) if number > 0 else None
    said = _find_copula(words) > 0 or (changed and _find_time(words) > 0)
    return read_stated_value(sentence) if said and (changed or "new" in words[:2]) else None


def _read_new_one(sentence: Worded) -> ToldValue | None:
    """Return the name of a new person or thing: "we have got a new plumber, Kasia"; None if the sentence has none."""
    words = sentence.words
    new = next((nth for nth in range(2, 4) if words[nth : nth + 1] == ("new",)), -1)
    if words[0] not in _FIRST or new < 0 or not _GOT.issuperset(words[1:new]):
        return None
    at = next((nth for nth in range(new + 2, min(new + 5, len(words))) if sentence.names[nth]), -1)
    return _build_value(sentence, [word for word in words[new + 1 : at] if word not in _CALLED], at) if at > 0 else None


def is_state(told: ToldValue) -> bool:
    """Return whether a value is a state that excludes others."""
    return told.value[0] in _EXCLUDING


def is_other_state(new: ToldValue, old: ToldValue) -> bool:
    """Return whether one subject is told in two states that exclude each other: "is blocked", "is unblocked"."""
    states = _EXCLUDING.get(new.value[0], frozenset())
    return _have_one_subject(new, old) and old.value[0] in states and old.value[0] != new.value[0]


def is_other_value(new: ToldValue, old: ToldValue) -> bool:
    """Return whether two values are of one kind, differ, and are given to one subject."""
    if not (_have_one_subject(new, old) and _names_unit_of(new, old) and _names_unit_of(old, new)):
        return False
    if (new.kind == old.kind and new.kind in COUNTED | {"job"}) or _are_places(new, old):
        mine, other = (
            {word for word in one.value if new.kind not in COUNTED or is_counted(word)} for one in (new, old)
        )
        return not (mine <= other or other <= mine)
    return {new.kind, old.kind} == {"number", "clock"} and (_is_hour(new) or _is_hour(old))


def _names_unit_of(one: ToldValue, other: ToldValue) -> bool:
    """Return whether a value's word such as "room" is told of the other one as well: "at 10" is no room."""
    return _list_terms(word for word in one.value if (word,) in _UNITS) <= _list_terms(other.value) | other.subject


def _have_one_subject(new: ToldValue, old: ToldValue) -> bool:
    if not new.subject & old.subject:
        return False
    # "The database is on port 5433", "change the port of the database": the unit of a number is its name, too.
    of_value = _list_terms([word for word in old.value if old.kind == "number" and not is_count(word)])
    beside = new.subject - old.subject <= _TOLD_BY_VALUE | of_value
    return beside and old.subject - new.subject <= _TOLD_BY_VALUE | _KINDS_OF_THINGS | new.owner


def _are_places(new: ToldValue, old: ToldValue) -> bool:
    """Return whether both values are names or places, written alike."""
    return {new.kind, old.kind} <= PLACES and (new.placed is None or new.placed == old.placed)


def _read_moved(sentence: Worded, at: int) -> ToldValue | None:
    words = sentence.words
    to = next((nth for nth in range(at + 1, len(words) - 1) if _is_until(words, nth)), -1)
    if to < 0 and words[at] in _SETS:
        to = next((nth for nth in range(at + 1, len(words)) if is_counted(words[nth])), 0) - 1
        to -= to > 0 and words[to] in PLACED | {"for"}
    if to <= 0:
        return None
    behind = words[at + 1 : to + (words[to] not in _UNTIL | {"for"})]
    behind = [word for word in takewhile(lambda word: word != "from", behind) if word not in _TRAILING]
    begins = to + (words[to] in _UNTIL)
    if not set(behind) - _LEADING:
        told = _build_value(sentence, _LIVES if begins == at + 1 and set(words[:at]) <= _FIRST else words[:at], begins)
    else:
        told = _build_value(sentence, behind, begins)
        told = told and replace(told, owner=_list_terms(words[:at]))
    return told and (told if words[at] in _SETS else replace(told, placed=None))


def _build_value(sentence: Worded, subject: Sequence[str], at: int) -> ToldValue | None:
    """Return the value that begins at a place of a sentence, without the words before and behind it."""
    named = [word for word in subject if word not in _LEADING]
    if _NUMBER in named:  # "my phone number", "my new number"
        named = [word for word in named if word != "phone"]
    begins = next((nth for nth in range(at, len(sentence.words)) if sentence.words[nth] not in _BEFORE_VALUE), -1)
    if not named or len(named) > _MOST_OF_SUBJECT or begins < 0:
        return None
    value = tuple(takewhile(lambda word: word not in _BEHIND_VALUE, sentence.words[begins:]))
    if not value:
        return None
    is_said = begins == at and sentence.words[at - 1] in _COPULAS
    kind = tell_kind_of(named[-1] if is_said else "", sentence, begins, value)
    return ToldValue(_list_terms(named), value, kind, begins > at)


def _is_move(words: Sequence[str], at: int) -> bool:
    return words[at] in MOVES_AND_SETS or tuple(words[at : at + 2]) in _ROSE


def _is_until(words: Sequence[str], at: int) -> bool:
    return words[at] in _UNTIL or (words[at] == "for" and is_counted(words[at + 1]))


def _find_time(words: Sequence[str]) -> int:
    """Return the place of the word before a number, a day or a time ("at nine"), -1 if there is none."""
    return next(
        (
            nth
            for nth in range(1, len(words) - 1)
            if words[nth] in PLACED and (is_counted(words[nth + 1]) or words[nth + 1 : nth + 2] in _UNITS)
        ),
        -1,
    )


def _find_copula(words: Sequence[str]) -> int:
    return next((nth for nth, word in enumerate(words) if word in _COPULAS or word == "be"), -1)


def _says_how_many(subject: Sequence[str]) -> bool:
    """Return whether the next words begin a count ("there are", "we are")."""
    return subject[0] in _HERE | {"we"} and set(subject[1:]) <= {"will"}


def _read_count(words: Sequence[str], at: int) -> ToldValue | None:
    """Return the count that a sentence names from a place on: "12 guests"; None where it names several counts."""
    counted = [nth for nth in range(at, len(words)) if is_count(words[nth])]
    if len(counted) != 1 or counted[0] + 1 >= len(words) or words[counted[0] + 1] in _BEHIND_VALUE:
        return None
    subject = _list_terms(words[counted[0] + 1 : counted[0] + 2])
    return ToldValue(subject, (words[counted[0]],), "number", placed=False) if subject else None


def _read_dose(sentence: Worded) -> ToldValue | None:
    """Return how much a sentence tells of something: "20 mg of atorvastatin"."""
    words = sentence.words
    of = next((nth for nth in range(2, len(words) - 1) if words[nth] == "of" and is_count(words[nth - 2])), -1)
    return _build_value(sentence, words[of + 1 :], of - 2) if of > 0 else None


def _read_paid(sentence: Worded) -> ToldValue | None:
    """Return how much a sentence says is paid for something: "I pay 900 in rent"."""
    words = sentence.words
    if len(words) < _SHORTEST_PAID or words[0] not in _FIRST or words[1] not in _PAY or not is_count(words[2]):
        return None
    at = next((nth for nth in range(3, len(words) - 1) if words[nth] in {"in", "for", "on"}), -1)
    return _build_value(sentence, words[at + 1 :], 2) if at > 0 else None


def _is_hour(told: ToldValue) -> bool:
    return told.kind == "number" and len(told.value) == 1 and told.value[0].isdigit() and int(told.value[0]) <= _HOURS
