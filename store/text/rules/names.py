"""Finds the names of a turn: runs of capitalised words, judged in their message and then across the turn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from store.text.rules.canonical import canonical_name
from store.text.rules.gazetteer import word_list
from store.text.rules.kinds import Guess, guess_kind, is_believable, is_titled_work
from store.text.rules.low_names import find_lower_case_names
from store.text.rules.model import MentionKind, TextSpan
from store.text.rules.runs import NameRun, find_runs
from store.text.rules.tokens import Token, tokenize_text
from store.text.rules.vocabulary import everyday_words, is_given_name, known_things

#: Most capitalised runs of a message that are judged; far more than are kept in the end.
MOST_RUNS = 1024

_JOINS = frozenset({", ", " "})


@dataclass(frozen=True, slots=True)
class FoundName:
    """A name found in message `ordinal` of a turn, its kind, and whether it is a name for certain."""

    ordinal: int
    span: TextSpan
    normalised: str
    kind: MentionKind
    sure: bool
    certain: bool


def find_names(texts: Sequence[str], people: Iterable[str]) -> list[FoundName]:
    """Return the names of a turn's messages in order; `people` are its speakers, known to be persons.

    A name is judged once for the whole turn: a certain kind in one place counts in all others.
    """
    speakers = _with_first_names(people)
    found = [name for ordinal, text in enumerate(texts) for name in _names_of_message(ordinal, text)]
    kinds = {name.normalised: name.kind for name in reversed(found) if name.sure and name.certain}
    kinds |= dict.fromkeys(speakers, MentionKind.PERSON)
    certain = {name.normalised for name in found if name.certain} | set(speakers)
    return [
        replace(name, kind=kinds.get(name.normalised, name.kind), certain=True)
        for name in found
        if name.normalised in certain
    ]


def _with_first_names(people: Iterable[str]) -> list[str]:
    whole = [name for person in people if (name := canonical_name(person))]
    return [*whole, *(name.split(" ")[0] for name in whole)]


def _names_of_message(ordinal: int, text: str) -> list[FoundName]:
    words_found = tokenize_text(text)
    judged = [(run, guess_kind(run)) for run in islice(find_runs(words_found), MOST_RUNS)]
    if _capitalises_nouns(words_found):
        judged = [(run, seen) for run, seen in judged if _is_listed(run)]
    found = [_name_of_run(ordinal, text, run, seen) for run, seen in _coordinate_kinds(judged)]
    taken = frozenset(token.start for run, _ in judged for token in run.parts)
    found += [
        FoundName(ordinal, span, canonical_name(text[span.start : span.end]), kind, sure=True, certain=True)
        for span, kind in find_lower_case_names(words_found, taken)
    ]
    return sorted(found, key=lambda name: name.span)


def _capitalises_nouns(found: Sequence[Token]) -> bool:
    """Return whether a text is German, where a capital is no sign of a name: "17 Uhr Klavier"."""
    german = sum(token.low in word_list("language", "german") for token in found)
    return german > 0 and german >= sum(token.low in everyday_words() for token in found)


def _is_listed(run: NameRun) -> bool:
    """Return whether a name begins with a known given name or a title, or is a known place or thing."""
    first = run.lows[0]
    return run.name in known_things() or is_given_name(first) or first in word_list("people", "title")


def _name_of_run(ordinal: int, text: str, run: NameRun, seen: Guess) -> FoundName:
    kind, sure, certain = seen.kind, seen.sure, is_believable(run, seen)
    if is_titled_work(run):
        run, kind, sure, certain = NameRun(run.words, run.first - 1, run.last), MentionKind.NAME, True, True
    surface = text[run.start : run.end]
    return FoundName(ordinal, TextSpan(run.start, run.end), canonical_name(surface), kind, sure, certain)


def _coordinate_kinds(judged: list[tuple[NameRun, Guess]]) -> list[tuple[NameRun, Guess]]:
    """Give both names of "X and Y" one kind when only one of them is known; forwards through the text, then back."""
    along = _passed_on(judged)
    return _passed_on(along[::-1])[::-1]


def _passed_on(judged: list[tuple[NameRun, Guess]]) -> list[tuple[NameRun, Guess]]:
    passed: list[tuple[NameRun, Guess]] = []
    for run, seen in judged:
        before = passed[-1] if passed else None
        if not seen.sure and before is not None and before[1].sure and _is_beside(run, before[0]):
            passed.append((run, before[1]))
        else:
            passed.append((run, seen))
    return passed


def _is_beside(one: NameRun, other: NameRun) -> bool:
    early, late = sorted((one, other), key=lambda run: run.first)
    between = late.words[early.last : late.first]
    head = late.parts[0]
    if head.opens or len(between) > 1:
        return False
    if not between:
        return head.gap == ", "
    return between[0].low in {"and", "or"} and between[0].gap in _JOINS
