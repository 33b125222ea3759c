"""A rule of extraction: an opening phrase, the shape of the value behind it, and the fact that it states."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from store.text.rules.model import Tier

SPACE = r"[ \t\u00a0]{1,3}"
_APOSTROPHE = "['\u2019]"
# People write "im", "ive", "dont" and "my names", not "were" for "we're".
_IN_PATTERN = re.compile(r"'(?P<optional>(?=(?:m|ve|s|t)(?!\w)))?")
#: Emoji, without the signs that prompts and test reports begin with.
_PICTURE = re.compile("[\u2600-\u2712\u2728-\u275a\u2763\u2764\u2b50\ufe0f\U0001f000-\U0001faff]")
#: Letters by which words that patterns need are looked up.
_BEGINNING = 3
_COPULA = re.compile(r"(?<!\w)([èéÈÉ])(?!\w)")
#: Marks of Markdown around a word: "I live in **Leeds**".
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,2}(?=\w)|(?<=\w)\*{1,2}(?![\w*])")
_APOSTROPHES = str.maketrans("", "", "'\u2019")
#: Letters with an accent, and those that people write who have none on their keyboard.
_ACCENTS = str.maketrans(
    {
        code: base
        for code in range(0xC0, 0x180)
        if (base := unicodedata.normalize("NFD", chr(code))[0]).isascii() and base.isalpha()
    }
)


class ValueShape(Enum):
    """The required form of a fact's value."""

    ANY = auto()
    NAME = auto()  # a capitalised name: what comes behind it is cut off
    PLACE = auto()  # a name that may be a place's: "I moved to Porto", not "I moved to Python"
    THING = auto()  # a name or something with an article: "I work at the library", not "I work at night"
    DAY = auto()  # holds a date
    DOING = auto()  # "hiking", "to hike": "I love hiking", not "I love you"
    ROLE = auto()  # "a nurse", not "hard as I can"
    TOPIC = auto()  # "coriander", not "to bother you", "it when it rains"
    KNOWN_PLACE = auto()  # a place of the lists: in languages where other words have capitals, too
    OBJECT = auto()  # a few words for a thing or a place: "red kettle at the market" is "red kettle"
    LIST = auto()  # several things: "nuts, eggs and milk" are three values
    TITLE = auto()  # an object that may have a title of any words


@dataclass(frozen=True, slots=True)
class Rule:
    """An opening phrase and the fact it opens.

    `key` None means that the matched group `key`, or else the value, is the key. `says` is the fact as a
    sentence with {who}, {key}, {relation} and {value}. A text with none of the words `needs` is not searched.
    A contracted rule takes its first value as it comes. Other rules take every value where they are `many`, else the
    value that was said last. A rule of what is `told` takes only what a sentence states plainly and, unless `among` is
    empty, only values with one of its words. One that `denies` ends the fact with this value, or with each value that
    `ends` returns for it.
    The value behind a rule with a `pattern` begins as it says: its group `value`, else the whole match. An `unaccented`
    rule, written without accents, finds words with and without them.
    """

    opening: re.Pattern[str]
    fact_id: str
    key: str | None
    slug: str
    tier: Tier
    confidence: float
    says: str
    needs: tuple[str, ...]
    shape: ValueShape = ValueShape.ANY
    contracted: bool = False
    many: bool = False
    told: bool = False
    among: frozenset[str] = frozenset()
    denies: bool = False
    pattern: re.Pattern[str] | None = None
    ends: Callable[[str], Sequence[str]] | None = None
    unaccented: bool = False


def compile_phrase(text: str) -> re.Pattern[str]:
    """Return the pattern of a phrase: whole words, any case, either apostrophe, gaps of one to three blanks."""
    return re.compile(rf"(?<![\w'\u2019])(?:{_allow_spellings(text)}){SPACE}(?=\S)", re.IGNORECASE)


def compile_value(text: str) -> re.Pattern[str]:
    """Return the pattern of a value: any case, either apostrophe, gaps of one to three blanks."""
    return re.compile(_allow_spellings(text), re.IGNORECASE)


def _allow_spellings(text: str) -> str:
    return _IN_PATTERN.sub(_allow_apostrophe, text.replace(" ", f"(?:{SPACE})"))


def _allow_apostrophe(found: re.Match[str]) -> str:
    return _APOSTROPHE if found["optional"] is None else f"{_APOSTROPHE}?"


def stop_at_pictures(text: str) -> str:
    """Return a text of the same length in which each emoji ends its sentence, and emphasis is marked by blanks."""
    if "*" in text:
        text = _EMPHASIS.sub(lambda found: " " * len(found.group()), text)
    return text if text.isascii() else _PICTURE.sub(".", text)


def drop_apostrophes(text: str) -> str:
    """Return a text without apostrophes of either kind, to look for contractions however they are written."""
    return text.translate(_APOSTROPHES)


def drop_accents(text: str) -> str:
    """Return a text of the same length without accents on Latin letters, as many people type it.

    They stay on "è" and "é", which mean "is", and without an accent "and".
    """
    if text.isascii():
        return text
    return "".join(one if nth % 2 else one.translate(_ACCENTS) for nth, one in enumerate(_COPULA.split(text)))


class Needs:
    """Which of many patterns a text may match: those that need a word which it has."""

    def __init__(self, needs: Sequence[Iterable[str]]) -> None:
        """Index patterns by the words that each needs, and these by how they begin: a text has few beginnings."""
        places = defaultdict[str, set[int]](set)
        for nth, words in enumerate(needs):
            for word in words:
                places[_fold_need(word)].add(nth)
        self._begun = defaultdict[str, list[tuple[str, set[int]]]](list)
        for word, found in places.items():
            self._begun[word[:_BEGINNING]].append((word, found))
        self._short = [begin for begin in self._begun if len(begin) < _BEGINNING]

    def select(self, text: str) -> Sequence[int]:
        """Return the places of the patterns of which a text has a word, in order."""
        low = _fold_need(text.lower())
        begins = {low[at : at + _BEGINNING] for at in range(len(low))}
        found = set[int]()
        for begin in (*(begins & self._begun.keys()), *self._short):
            for word, places in self._begun[begin]:
                if word in low:
                    found |= places
        return sorted(found)


def _fold_need(text: str) -> str:
    """Return a text without apostrophes and accents, to look for words however they are written."""
    return drop_accents(drop_apostrophes(text))


def any_of(found: frozenset[str]) -> str:
    """Return a pattern that matches each of the words."""
    return "|".join(re.escape(word) for word in sorted(found))


HAVE_JUST = "(?:'ve| have)?(?: just| recently| finally)?"
#: Where a sentence begins that leaves "I" or "we" out: "Just moved to Ghent".
BEGINS = r"(?:(?<![^\n])|(?<=[.!?]\x20))"
#: "I have just", or "just" of a sentence without its subject.
I_HAVE_JUST = f"(?:(?:i|we){HAVE_JUST}|{BEGINS}(?:just|recently|finally))"
