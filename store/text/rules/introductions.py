"""Finds names by which speakers introduce themselves: "I'm Kate.", "Ich heisse Petra.", "Call me Tess."."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from store.text.rules.addresses import mask_spans
from store.text.rules.gazetteer import word_list
from store.text.rules.pattern_tables import Patterns
from store.text.rules.retractions import find_unstated
from store.text.rules.rule import SPACE
from store.text.rules.statements import is_stated
from store.text.rules.vocabulary import (
    everyday_words,
    is_family_name,
    is_given_name,
    is_word,
    known_places,
    known_things,
)

_PATTERN = Patterns("introduction_patterns", SPACE=SPACE)

#: Characters behind an opening in which a name stands.
_LONGEST = 64
_GAP = r"(?:-|[ \t\u00a0]{1,3})"


def _compile_phrases(section: str) -> re.Pattern[str]:
    rests = defaultdict[str, list[str]](list)
    for one in sorted(word_list("called", section), key=len, reverse=True):
        rests[one[0]].append(re.escape(one[1:]))
    # Grouped by their first letters, of which a word has one: 32 -> 15 us for a message.
    phrases = "|".join(f"{first}(?:{'|'.join(found)})" for first, found in rests.items())
    for written, read in ((r"\-", _GAP), ("'", "['\u2019]"), ("ss", "(?:ss|\u00df)")):
        phrases = phrases.replace(written, read)
    adverbs = "actually|really|now|also|just|einfach|eigentlich|jetzt|nun|simplement|maintenant|ahora|adesso"
    between = rf"(?:(?:{adverbs}){SPACE})?"
    return re.compile(rf"(?<![\w'\u2019])(?:{phrases}){SPACE}{between}(?=[^\W\d_])", re.IGNORECASE)


_NAMED, _INTRODUCED = _compile_phrases("named"), _compile_phrases("introduced")


_TITLES = frozenset({"dr", "prof", "professor", "doctor", "mr", "mrs", "ms"})


class Introduction(NamedTuple):
    """A name that a speaker gives themselves, `start` to `end` in the text, and where its clause begins."""

    clause: int
    start: int
    end: int


def find_introductions(text: str, author: str | None = None) -> list[Introduction]:
    """Return the names by which the author of a text introduces themselves, in the order of the text.

    Not where the introduction is quoted, denied, supposed, asked or another's. Takes time in proportion to the text.
    """
    if next(_find_all(text), None) is None:
        return []
    own = mask_spans(text, find_unstated(text, author))
    found = {one.start: one for one in _find_all(own) if _is_own(own, one)}
    return [found[start] for start in sorted(found)]


def _find_all(text: str) -> Iterator[Introduction]:
    """Yield the names behind openings, for every speaker."""
    for match in _NAMED.finditer(text):
        if end := _end_of_name(text, match.end(), sure=True):
            yield Introduction(match.start(), match.end(), end)
    for match in _INTRODUCED.finditer(text):
        greeted = _PATTERN.greeted.search(text[max(0, match.start() - 48) : match.start()]) is not None
        if end := _end_of_name(text, match.end(), sure=False, greeted=greeted):
            yield Introduction(match.start(), match.end(), end)
    for match in _PATTERN.first_words.finditer(text):
        if end := _end_of_name(text, match.end(), sure=False, greeted=True):
            yield Introduction(match.start(), match.end(), end)
    yield from _find_before(text)


def _find_before(text: str) -> Iterator[Introduction]:
    """Yield the names whose phrase ends behind them: "Kate here", "Du kannst mich Petra nennen"."""
    for match in _PATTERN.named_last.finditer(text) if " nennen" in text or "hier " in text else ():
        if is_given_name(match["name"].lower()):
            yield Introduction(match.start(), *match.span("name"))
    for match in _PATTERN.alone.finditer(text) if _PATTERN.says_here.search(text) else ():
        low = match["name"].lower()
        before = text[max(0, match.start() - 48) : match.start()]
        opens = not before[-3:].strip(" .!,\n") or _PATTERN.greeted.search(before) is not None
        if opens and match["name"][0].isupper() and is_given_name(low) and not is_word(low):
            yield Introduction(match.start(), *match.span("name"))


def _is_own(text: str, one: Introduction) -> bool:
    """Return whether the author states an introduction of themselves."""
    clause, start, end = one
    before = text[max(0, clause - 48) : clause]
    callers = _PATTERN.callers.search(before) if _PATTERN.calls.search(text[clause:start]) else None
    clause -= len(callers.group()) if callers else 0
    if _PATTERN.negated.search(text[max(0, clause - 12) : clause]):
        return False
    return is_stated(text, clause, start, end)


def _end_of_name(text: str, start: int, *, sure: bool, greeted: bool = False) -> int:
    """Return where the name that begins at `start` ends, 0 where there is none."""
    match = _PATTERN.name.match(text, start, start + _LONGEST)
    if match is None:
        return 0
    name = _cut_place(match.group())
    words = name.lower().split()
    after = text[start + len(name) : start + len(name) + 16]
    if after[:1] in {"'", "\u2019"} or words[0] in word_list("called", "never") or name.endswith(("'s", "\u2019s")):
        return 0
    next_word = next(iter(after.split(maxsplit=1)), "").lower().rstrip(",.!")
    follows = _PATTERN.ends.match(after) is not None or next_word in word_list("called", "follows")
    if sure:
        fits = _may_be_given(name, words, follows=follows)
    else:
        fits = follows and _is_introduced(name, words, greeted=greeted)
    return start + len(name) if fits else 0


def _cut_place(name: str) -> str:
    """Return a name without the place behind it: "Paula" of "Paula de Madrid"."""
    match = _PATTERN.of_place.search(name)
    return name[: match.start()] if match and match[1].lower() in known_places() else name


def _may_be_given(name: str, words: list[str], *, follows: bool) -> bool:
    """Return whether the words behind "my name is" or "call me" may be a name."""
    first = words[0]
    if not name[0].isupper():
        return follows and is_given_name(first) and not is_word(first)
    return first.rstrip(".") in _TITLES or is_given_name(first) or not is_word(first)


def _is_introduced(name: str, words: list[str], *, greeted: bool) -> bool:
    """Return whether the words behind "I'm" are a name: a known given name or, in a greeting, any that is no word."""
    first, *others = words
    if first.rstrip(".") in _TITLES:
        return bool(others) and name.rsplit(maxsplit=1)[-1][0].isupper()
    if not is_given_name(first):
        told = greeted and name[0].isupper() and not first.endswith(_DEMONYMS)
        return told and not is_word(first) and " ".join(words) not in known_things()
    if others:
        return name[0].isupper() and (not is_word(first) or not is_word(words[-1]) or is_family_name(words[-1]))
    if first in word_list("called", "said"):
        return False
    if not name[0].isupper():
        return len(first) >= len("kate") and not is_word(first) and first not in known_places()
    return greeted or first not in everyday_words()


_DEMONYMS = ("ian", "ean", "ese", "ish", "isch", "ano", "ana", "ense", "ais", "aise", "ien", "ienne")
