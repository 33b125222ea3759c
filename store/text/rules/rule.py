"""A rule of extraction: an opening phrase, the shape of the value behind it, and the fact that it states."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from store.text.rules.model import Tier

SPACE = r"[ \t\u00a0]{1,3}"
_APOSTROPHE = "['\u2019]"
# People write "im", "ive", "dont" and "my names", not "were" for "we're".
_IN_PATTERN = re.compile(r"'(?P<optional>(?=(?:m|ve|s|t)(?!\w)))?")
#: Emoji, without the signs that prompts and test reports begin with.
_PICTURE = re.compile("[\u2600-\u2712\u2728-\u275a\u2763\u2764\u2b50\ufe0f\U0001f000-\U0001faff]")
_APOSTROPHES = str.maketrans("", "", "'\u2019")


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
    The value behind a rule with a `pattern` begins as it says: its group `value`, else the whole match.
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
    """Return a text of the same length in which each emoji ends its sentence as a full stop does."""
    return text if text.isascii() else _PICTURE.sub(".", text)


def drop_apostrophes(text: str) -> str:
    """Return a text without apostrophes of either kind, to look for contractions however they are written."""
    return text.translate(_APOSTROPHES)


def any_of(found: frozenset[str]) -> str:
    """Return a pattern that matches each of the words."""
    return "|".join(re.escape(word) for word in sorted(found))


HAVE_JUST = "(?:'ve| have)?(?: just| recently| finally)?"
#: Where a sentence begins that leaves "I" or "we" out: "Just moved to Ghent".
BEGINS = r"(?:(?<![^\n])|(?<=[.!?]\x20))"
#: "I have just", or "just" of a sentence without its subject.
I_HAVE_JUST = f"(?:(?:i|we){HAVE_JUST}|{BEGINS}(?:just|recently|finally))"
