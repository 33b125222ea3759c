"""Moments as text: read with an offset, written in UTC."""

from datetime import UTC, datetime


def parse_zoned(text: str) -> datetime:
    """Return the moment of an ISO 8601 text with an offset.

    Raises ValueError, also for one without an offset, and for one that UTC has in no year from 1 to 9999.
    """
    moment = datetime.fromisoformat(text.upper())
    if moment.tzinfo is None:
        raise ValueError("no offset")
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("no time of UTC") from None
    return moment


def format_utc(moment: datetime) -> str:
    """Return a moment in RFC 3339, in UTC: `2026-03-02T09:30:00Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
