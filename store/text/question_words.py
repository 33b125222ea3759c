"""Words by which a question names its asker and its addressee, by language."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import Pattern

_FILE = Path(__file__).parent / "data" / "questions.toml"


@dataclass(frozen=True, slots=True)
class Language:
    """The question words of one language.

    `self_words`: words by which speakers name themselves and their own things. Patterns, searched in lower case and
    without accents: `asks_assistant` of questions about what the assistant said or was asked, `asks_recent` of
    questions about the last minutes, `asks_when` of questions for a time or a duration.
    """

    self_words: tuple[str, str]
    asks_assistant: Pattern[str]
    asks_recent: Pattern[str]
    asks_when: Pattern[str]


def _any_word_pattern(*patterns: str) -> Pattern[str]:
    return re.compile("|".join(patterns))


ENGLISH = Language(
    self_words=("I", "my"),
    asks_assistant=_any_word_pattern(
        r"\b(?:did|have|had) you\b",
        r"\b(?:did|have|had) i (?:ever |just |already )?ask(?:ed)?\b",
        r"\byou (?:\w+ )?(?:said|told|suggested|recommended|gave|mentioned|provided|listed|advised|explained"
        r"|proposed|wrote|described|shared|created|showed|offered|answered|came up with)\b",
        r"\bremind me\b",
        r"\b(?:our|the) (?:previous|last|earlier|past) (?:chat|conversation|discussion|talk)s?\b",
    ),
    asks_recent=_any_word_pattern(
        r"\bjust (?:now|sa(?:y|id)|t(?:ell|old)|wr(?:ite|ote)|do|did|done)\b",
        r"\bjust (?:ask|mention|talk|discuss|happen)(?:ed)?\b",
        r"\b(?:an?|one|few|couple of|\d+) (?:instant|moment|second|sec|minute|min)s? ago\b",
        r"\b(?:last|latest|newest|previous) (?:message|thing|sentence|line|remark)\b",
        r"\b(?:what was that|say that) again\b",
    ),
    asks_when=_any_word_pattern(
        r"^\W*(?:(?:and|so|but|since|until) )?when\b",
        r"\b(?:what|which) (?:date|day|month|year|time|week|season)\b",
        r"\bhow (?:long|old|recently|soon|many (?:days|weeks|months|years))\b",
    ),
)


@cache
def question_languages() -> Mapping[str, Language]:
    """Return the question words of all languages by code."""
    told = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    others = {
        code: Language(
            (asks["i"], asks["my"]), *(_any_word_pattern(asks[name]) for name in ("assistant", "recent", "when"))
        )
        for code, asks in told.items()
    }
    return {"en": ENGLISH, **others}
