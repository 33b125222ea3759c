"""Parses durations: 30m, 24h, 90d."""

import re
from datetime import timedelta

import typer

_FORM = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
#: Longer than any key should live.
LONGEST = timedelta(days=36_500)


def parse_duration(text: str | timedelta) -> timedelta:
    """Return a length of time; one that is one already (a default) as it is. Raises typer.BadParameter."""
    if isinstance(text, timedelta):
        return text
    found = _FORM.fullmatch(text)
    length = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else LONGEST
    if found is None or length >= LONGEST:
        raise typer.BadParameter("a number and a unit are needed: 90s, 30m, 24h or 7d")
    return length
