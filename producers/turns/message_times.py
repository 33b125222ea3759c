"""Finds the time at which a message was said, in the forms of many programs. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from producers.service.fields import EARLIEST, EPOCH, LATEST

#: Fields that hold a message's time, the most exact first.
_FIELDS = (
    "timestamp",
    "timestamp_ms",
    "occurred_at",
    "created_at",
    "createdAt",
    "create_time",
    "created",
    "date_unixtime",
    "date",
    "ts",
    "time",
    "sent_at",
    "origin_server_ts",
)
#: Fields that hold those of a message beside its content.
_BESIDE = ("metadata", "additional_kwargs", "response_metadata")
_NUMBER = re.compile(r"-?\d{1,19}(?:\.\d{1,9})?")
#: Numbers below are seconds, then milliseconds, microseconds and nanoseconds: all of them mean years from 1973 to 5138.
_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))


def find_moment(message: Mapping[str, Any]) -> datetime | None:
    """Return the message's time in UTC; None where it has none that can be read.

    A time without an offset is taken as UTC. Numbers are seconds, milliseconds, microseconds or nanoseconds by size.
    """
    places = [message, *(one for name in _BESIDE if isinstance(one := message.get(name), Mapping))]
    for place in places:
        for name in _FIELDS:
            if name in place and (at := read_time(place[name])) is not None:
                return at
    return None


def find_time(message: Mapping[str, Any]) -> str | None:
    """Return the message's time, as `find_moment` finds it, as RFC 3339 in UTC."""
    at = find_moment(message)
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def read_time(value: Any) -> datetime | None:
    """Return a time in UTC; None for what is none, or lies outside the range of the API."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            return _read_text(text)
        value = float(text)
    return _read_number(value) if isinstance(value, int | float) else None


def _read_number(value: float) -> datetime | None:
    per_second = next((unit for below, unit in _UNITS if abs(value) < below), None)
    if per_second is None or not value:
        return None
    try:
        return _within_range(EPOCH + timedelta(microseconds=round(value / per_second * 1e6)))
    except (OverflowError, ValueError):
        return None


def _read_text(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    try:
        return _within_range(read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC))
    except OverflowError:
        return None


def _within_range(at: datetime) -> datetime | None:
    return at if EARLIEST <= at < LATEST else None
