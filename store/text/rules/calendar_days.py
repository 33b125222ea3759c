"""Resolves a date expression against the day it was said; None when it is ambiguous."""

from datetime import date, timedelta

#: A date without a year means the day at most this far ahead,
AHEAD = timedelta(days=183)
#: or at most this far back.
BACK = timedelta(days=92)

_WEEK = 7


def make_date(year: int, month: int, day: int) -> date | None:
    """Return the date, or None where the calendar has no such day."""
    try:
        return date(year, month, day)
    except ValueError:
        return None


def shift_day(said: date, days: int) -> date | None:
    """Return the day this many days later (or earlier), or None beyond the calendar."""
    try:
        return said + timedelta(days=days)
    except OverflowError:
        return None


def nearest_day(said: date, month: int, day: int, weekday: int | None) -> date | None:
    """Return the one day of that month and day that is near enough to be meant, None if none is.

    With a weekday (Monday is 0) the year is the one around `said` in which both agree.
    """
    years = (said.year - 1, said.year, said.year + 1)
    days = [found for year in years if (found := make_date(year, month, day))]
    if weekday is not None:
        agreeing = [found for found in days if found.weekday() == weekday]
        return agreeing[0] if len(agreeing) == 1 else None
    near = [found for found in days if -BACK <= found - said <= AHEAD]
    return near[0] if near else None


def next_weekday(said: date, weekday: int) -> date | None:
    """Return that weekday of next week; None while this week's is still ahead, since the words can mean both."""
    ahead = (weekday - said.weekday()) % _WEEK or _WEEK
    in_next_week = weekday - said.weekday() + _WEEK
    return shift_day(said, ahead) if ahead == in_next_week else None


def last_weekday(said: date, weekday: int) -> date | None:
    """Return that weekday of last week; None once this week's is over, since the words can mean both."""
    back = (said.weekday() - weekday) % _WEEK or _WEEK
    in_last_week = said.weekday() - weekday + _WEEK
    return shift_day(said, -back) if back == in_last_week else None


def this_weekday(said: date, weekday: int) -> date | None:
    """Return that weekday of this week (from Monday on), None when it is already over."""
    ahead = weekday - said.weekday()
    return shift_day(said, ahead) if ahead >= 0 else None
