"""How a language speaks of time, as data; `times` reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """The words of one language, in lower case; words that mean the same are separated by `|`, the longer first.

    `months` and `weekdays` begin with January and Monday. `seasons` tell the month in which each begins, on the
    northern half of the earth; `units` by what a unit is called here; `days` are days by their distance from today.
    `earlier` and `later` stand between a number of units and a time, `until` and `since` before a time, `at` before a
    month. `may_be_no_time` are words that often mean something else: such a month wants a word of `at` before it.
    """

    months: Sequence[str]
    weekdays: Sequence[str]
    seasons: Mapping[str, int]
    units: Mapping[str, str]
    numbers: Mapping[str, float]
    days: Mapping[str, int]
    weekend: str
    last: str
    this: str
    next: str
    ago: str
    earlier: str
    later: str
    until: str
    since: str
    past: str
    at: str
    may_be_no_time: frozenset[str]


ENGLISH = Calendar(
    months=(
        *("january|jan", "february|feb", "march|mar", "april|apr", "may", "june|jun"),
        *("july|jul", "august|aug", "september|sept|sep", "october|oct", "november|nov", "december|dec"),
    ),
    weekdays=("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    seasons={"winter": 12, "spring": 3, "summer": 6, "autumn|fall": 9},
    units={"day": "days|day", "week": "weeks|week", "month": "months|month", "year": "years|year"},
    numbers={"two|a couple of|a couple": 2, "three|a few": 3, "four|several": 4, "five": 5, "six": 6, "seven": 7}
    | {"eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "a|an|one": 1},
    days={"the day before yesterday": -2, "yesterday|last night": -1, "today|tonight": 0, "tomorrow": 1},
    weekend="weekend",
    last="last|past|previous",
    this="this|current",
    next="next|coming",
    ago="ago",
    earlier="before|prior to",
    later="after",
    until="before|until|till|prior to",
    since="after|since",
    past="in the last|in the past|over the last|over the past|within the last|during the last|during the past",
    at="in|of|during|since|until|by|around|early|mid|late|from|before|after|every",
    may_be_no_time=frozenset({"may", "march", "mar", "fall", "spring", "dec", "jan", "jun", "jul"}),
)

CALENDARS = (ENGLISH,)
