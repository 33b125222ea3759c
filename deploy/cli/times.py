"""Parses lengths of time (30m, 24h, 90d) and times: a date, or a date and time; UTC unless an offset is given."""

import re
from datetime import UTC, datetime, timedelta

import typer

from deploy.cli.output import exit_with

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


def parse_time(text: str, option: str) -> datetime:
    """Return the time of an ISO 8601 text (a date is its first moment); exits 2 when it is invalid."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise exit_with(f"{option}: a time looks like 2026-05-01 or 2026-05-01T09:30:00Z", 2) from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)
