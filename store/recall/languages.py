"""What a question asks for and what a text holds, as data for each language that has such rules."""

import re
from dataclasses import dataclass
from re import Pattern


@dataclass(frozen=True, slots=True)
class Language:
    """Patterns of one language; each is searched anywhere in a text in lower case.

    asks_*: what a question wants. tells_*: what a text must hold to answer it. `marks` are words by which a question
    shows its language; `self_words` are what a speaker says for himself and for what is his.
    """

    code: str
    marks: Pattern[str]
    self_words: tuple[str, str]
    asks_time: Pattern[str]
    tells_time: Pattern[str]
    asks_number: Pattern[str]
    tells_number: Pattern[str]
    asks_assistant: Pattern[str]
    tells_of_self: Pattern[str]


def _words(*groups: str) -> str:
    return r"\b(?:" + "|".join("|".join(group.split()) for group in groups) + r")\b"


def _any(*patterns: str) -> Pattern[str]:
    return re.compile("|".join(patterns))


ENGLISH = Language(
    code="en",
    marks=_any(
        _words(
            "what when where who whom whose which why how",
            "is are was were do does did has have had can could will would should might",
            "the a an of in on at to for with about and tell",
        )
    ),
    self_words=("I", "my"),
    asks_time=_any(r"\A\s*when\b", r"\bwhat (?:date|day|month|year|time)\b", r"\bhow long\b"),
    tells_time=_any(
        _words(
            "yesterday today tonight tomorrow last next ago recently morning evening",
            "week weekend month year",
            "monday tuesday wednesday thursday friday saturday sunday",
            "january february march april may june july august september october november december",
        ),
        r"\b(?:19|20)\d\d\b",
        r"\b\d+(?:st|nd|rd|th)\b",
    ),
    asks_number=_any(r"\bhow (?:many|much|often)\b"),
    tells_number=_any(
        _words(
            "one two three four five six seven eight nine ten once twice couple few several dozen",
            "first second third",
        ),
        r"\b\d+\b",
    ),
    asks_assistant=_any(
        r"\b(?:did|have|had) you\b",
        r"\byou (?:\w+ )?(?:said|told|suggested|recommended|gave|mentioned|provided|listed|advised|explained"
        r"|proposed)\b",
    ),
    tells_of_self=_any(_words("i my me we our us")),
)

LANGUAGES = (ENGLISH,)
