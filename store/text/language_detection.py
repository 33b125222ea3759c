"""Which language a text is in, told by its commonest words and by its words of time. Pure."""

import re
from collections.abc import Mapping
from functools import cache

from store.text.calendars import Calendar, calendars
from store.text.word_rules import plain, stop_words

_WORD = re.compile(r"[^\W\d_]+")
#: Of a longer text the beginning tells.
_BEGINNING = 400


def spoken(text: str) -> str | None:
    """Return the code of the language with most of its words in a text, English before others; None where none has any.

    Of languages that have a calendar; what is in another is taken for one of them, whose rules then find little.
    """
    words = frozenset(_WORD.findall(plain(text[:_BEGINNING].lower())))
    known = {code: len(words & common) for code, common in _common().items()}
    best = max(known, key=lambda code: known[code])
    return best if known[best] else None


@cache
def _common() -> Mapping[str, frozenset[str]]:
    return {code: stop_words(code) | calendar.signs | _counting(calendar) for code, calendar in calendars().items()}


def _counting(calendar: Calendar) -> frozenset[str]:
    return frozenset(_WORD.findall(" ".join((*calendar.numbers, calendar.ago, calendar.ago_before))))
