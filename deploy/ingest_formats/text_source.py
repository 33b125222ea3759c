"""What the parsers of text formats read: the file's lines, and what the caller says of it."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from deploy.ingest_formats.whatsapp import DateOrder

#: The name that Zoom gives a recording, with the time at which it began (UTC).
_ZOOM = re.compile(r"GMT(\d{8})-(\d{6})_")


@dataclass(frozen=True, slots=True)
class TextSource:
    """A text file: its name, the session of its turns, and the most bytes of a line.

    `is_given`: the caller named the session. `dates` is of WhatsApp. `began`: when a recording began, as the caller
    says it; else the file's name may tell.
    """

    stream: BinaryIO
    file: str
    session: str
    longest: int
    is_given: bool = False
    dates: DateOrder | None = None
    began: datetime | None = None

    def find_beginning(self) -> datetime | None:
        """Return when the recording began; None where neither the caller nor the file's name says it."""
        if self.began is not None or not (named := _ZOOM.search(self.file)):
            return self.began
        try:
            return datetime.strptime(named[1] + named[2], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        except ValueError:
            return None


def describe_offset(seconds: float) -> str:
    """Return a place in a recording as `0:01:23`."""
    return str(timedelta(seconds=max(0, int(seconds))))
