"""Parses times in arguments: a date, or a date and time; UTC unless an offset is given."""

from datetime import UTC, datetime

from deploy.cli.output import exit_with


def parse_time(text: str, option: str) -> datetime:
    """Return the time of an ISO 8601 text (a date is its first moment); exits 2 when it is invalid."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise exit_with(f"{option}: a time looks like 2026-05-01 or 2026-05-01T09:30:00Z", 2) from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)
