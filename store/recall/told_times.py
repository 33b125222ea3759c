"""Tells which days the words of time in a text mean, given when it was said. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from store.text.known_texts import KnownTexts, digest_text
from store.text.times import DAY, TimeSpan, find_spans

#: A day or month without a year means the one that is at most this far from when it was said.
NEAR = timedelta(days=92)
#: Most times of one text.
MOST = 8
#: A longer time than a year says no date.
LONGEST = timedelta(days=366)

# The times of texts.
_KNOWN = KnownTexts[tuple[str, ...]](8192)


def resolve_times(text: str, said: datetime) -> tuple[str, ...]:
    """Return the times that a text of this moment names: a day ("2026-03-02"), or the first and last ("/" between).

    A day or month without a year is told where one is near enough to be meant, a weekday with "last" or "next". Days
    are in UTC. Takes time in proportion to the text.
    """
    return _KNOWN.find((digest_text(text), said), lambda: _resolve_times(text, said))


def _resolve_times(text: str, said: datetime) -> tuple[str, ...]:
    of_a_year = defaultdict[object, list[TimeSpan]](list)
    for span in find_spans(text, said, certain=True):
        if span.length <= LONGEST:
            of_a_year[span.begin.month, span.begin.day, span.end.month, span.end.day].append(span)
    meant = [span for spans in of_a_year.values() for span in _choose_meant(spans, said)]
    return tuple(dict.fromkeys(map(_print_span, sorted(meant))))[:MOST]


def _choose_meant(spans: Sequence[TimeSpan], said: datetime) -> Sequence[TimeSpan]:
    """Return a time that is named with its year, or of those of several years the one that is near to `said`."""
    return spans if len(spans) == 1 else [span for span in spans if abs(span.begin - said) <= NEAR]


def _print_span(span: TimeSpan) -> str:
    first, last = span.begin.date().isoformat(), (span.end - min(DAY, span.length)).date().isoformat()
    return first if first == last else f"{first}/{last}"
