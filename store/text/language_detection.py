"""Detects the language of a text by its function words and time words. Pure."""

import re
from collections.abc import Mapping
from functools import cache

from store.text.calendars import Calendar, load_calendars
from store.text.known_texts import KnownTexts
from store.text.word_rules import stop_words, strip_accents

_WORD = re.compile(r"[^\W\d_]+")
#: Characters at the beginning of a text that are analysed.
_BEGINNING = 400
# The languages of texts that were read lately: that of a question is asked for five times in a recall.
_KNOWN = KnownTexts[str | None](2048)


def detect_language(text: str) -> str | None:
    """Return the code of the language with most of its words in a text, English first among equals; None without any.

    Only languages with a calendar are known; a text in another is taken for one of them, whose rules then find little.
    """
    return _KNOWN.find(hash(text), lambda: _detect_language(text))


def _detect_language(text: str) -> str | None:
    words = frozenset(_WORD.findall(strip_accents(text[:_BEGINNING].lower())))
    known = {code: len(words & common) for code, common in _common_words().items()}
    best = max(known, key=lambda code: known[code])
    return best if known[best] else None


@cache
def _common_words() -> Mapping[str, frozenset[str]]:
    return {
        code: stop_words(code) | calendar.signs | _counting_words(calendar)
        for code, calendar in load_calendars().items()
    }


def _counting_words(calendar: Calendar) -> frozenset[str]:
    return frozenset(_WORD.findall(" ".join((*calendar.numbers, calendar.ago, calendar.ago_before))))
