"""What a question asks for and what a text holds, as data for each language that has such rules."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import Pattern

from store.text.calendars import load_calendars

_FILE = Path(__file__).parent / "data" / "questions.toml"


@dataclass(frozen=True, slots=True)
class Language:
    """Patterns of one language; each is searched anywhere in a text in lower case and without accents.

    asks_*: what a question wants. tells_*: what a text must hold to answer it. `self_words` are what a speaker says for
    himself and for what is his.
    """

    self_words: tuple[str, str]
    asks_time: Pattern[str]
    tells_time: Pattern[str]
    asks_number: Pattern[str]
    tells_number: Pattern[str]
    asks_assistant: Pattern[str]
    tells_of_self: Pattern[str]


def _all_words(*groups: str) -> str:
    return r"\b(?:" + "|".join("|".join(group.split()) for group in groups) + r")\b"


def _any_word_pattern(*patterns: str) -> Pattern[str]:
    return re.compile("|".join(patterns))


_REQUESTS = ("tell", "give", "help", "show", "teach", "write", "let", "remind")

ENGLISH = Language(
    self_words=("I", "my"),
    asks_time=_any_word_pattern(r"\A\s*when\b", r"\bwhat (?:date|day|month|year|time)\b", r"\bhow long\b"),
    tells_time=_any_word_pattern(
        _all_words(
            "yesterday today tonight tomorrow last next ago recently morning evening",
            "week weekend month year",
            "monday tuesday wednesday thursday friday saturday sunday",
            "january february march april may june july august september october november december",
        ),
        r"\b(?:19|20)\d\d\b",
        r"\b\d+(?:st|nd|rd|th)\b",
    ),
    asks_number=_any_word_pattern(r"\bhow (?:many|much|often)\b"),
    tells_number=_any_word_pattern(
        _all_words(
            "one two three four five six seven eight nine ten once twice couple few several dozen",
            "first second third",
        ),
        r"\b\d+\b",
    ),
    asks_assistant=_any_word_pattern(
        r"\b(?:did|have|had) you\b",
        r"\byou (?:\w+ )?(?:said|told|suggested|recommended|gave|mentioned|provided|listed|advised|explained"
        r"|proposed|wrote|described|shared|created|showed|offered|answered|came up with)\b",
        r"\bremind me\b",
        r"\b(?:our|the) (?:previous|last|earlier|past) (?:chat|conversation|discussion|talk)s?\b",
    ),
    # "Tell me" asks somebody else.
    tells_of_self=_any_word_pattern(
        _all_words("i my we our us"), "".join(f"(?<!{verb} )" for verb in _REQUESTS) + r"\bme\b"
    ),
)


def _build_language(code: str, **asks: str) -> Language:
    """Make a language whose times and numbers are those of its calendar."""
    calendar = load_calendars()[code]
    seasons, units = "|".join(calendar.seasons), "|".join(calendar.units.values())
    days, near = "|".join(calendar.days), rf"{calendar.last}|{calendar.next}"
    times = "|".join((*calendar.months, *calendar.weekdays, seasons, units, days, near, calendar.weekend))
    return Language(
        self_words=(asks["i"], asks["my"]),
        asks_time=_any_word_pattern(asks["time"]),
        tells_time=_any_word_pattern(rf"\b(?:{times})\b", r"\b(?:19|20)\d\d\b"),
        asks_number=_any_word_pattern(asks["number"]),
        tells_number=_any_word_pattern(rf"\b(?:{'|'.join(calendar.numbers)})\b", r"\b\d+\b"),
        asks_assistant=_any_word_pattern(asks["assistant"]),
        tells_of_self=_any_word_pattern(_all_words(asks["self"])),
    )


@cache
def question_languages() -> Mapping[str, Language]:
    """Return the languages there are, by code; those that have a calendar."""
    told = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {"en": ENGLISH, **{code: _build_language(code, **asks) for code, asks in told.items()}}
