"""Dates in a text, each with the day it means where only one can be meant."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from store.text.rules.date_forms import FORMS, Form, NoDateError
from store.text.rules.model import TextSpan


@dataclass(frozen=True, slots=True)
class Dated:
    """A date in a text and the day it means, None where that is not certain."""

    span: TextSpan
    day: date | None


def find_dates(text: str, said: date | None) -> list[Dated]:
    """Return the dates of a text in its order, none inside another; `said` is the day it was said (UTC)."""
    found = sorted(_date_candidates(text, said), key=lambda dated: (dated.span.start, -dated.span.end))
    kept: list[Dated] = []
    for dated in found:
        if not kept or dated.span.start >= kept[-1].span.end:
            kept.append(dated)
    return kept


def _date_candidates(text: str, said: date | None) -> Iterator[Dated]:
    low = text.lower()
    for form in FORMS:
        if any(need in low for need in form.needs):
            yield from _written_so(form, text, said)


def _written_so(form: Form, text: str, said: date | None) -> Iterator[Dated]:
    for match in form.pattern.finditer(text):
        try:
            day = form.meaning(match, said)
        except NoDateError:
            continue
        span = match.span("only") if "only" in form.pattern.groupindex else match.span()
        yield Dated(TextSpan(*span), day)
