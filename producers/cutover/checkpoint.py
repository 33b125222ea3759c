"""The checkpoint file of a backfill, so that an interrupted one resumes."""

import json
import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import UUID

from producers.cutover.errors import UnusableFile
from producers.cutover.legacy import LegacyCursor

#: Rows between two writes of the file; at most this many are written again after a kill.
EVERY = 100


@dataclass
class Checkpoint:
    """The place up to which all rows are copied; `source` and `target` name both sides, without secrets.

    It stops at the first row that failed, so that the next run begins with that one.
    """

    file: Path
    source: str
    target: str
    after: LegacyCursor | None = None
    _standing: bool = field(default=False, repr=False)
    _unsaved: int = field(default=0, repr=False)

    def load(self) -> None:
        """Read the file, where there is one. Raises UnusableFile for one of another source or target."""
        try:
            kept = json.loads(self.file.read_text())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise UnusableFile(f"{self.file}: no checkpoint can be read from it ({type(error).__name__})") from None
        try:
            same = (kept["source"], kept["target"]) == (self.source, self.target)
            place = LegacyCursor(datetime.fromisoformat(kept["created_at"]), UUID(kept["id"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UnusableFile(f"{self.file}: it is no checkpoint; remove it, or name another with -state") from None
        if not same:
            raise UnusableFile(f"{self.file}: it is of another source or target; name another with -state")
        self.after = place

    def passed(self, place: LegacyCursor) -> None:
        """Advance past a row that needs no second try. Raises UnusableFile where it cannot be saved."""
        if not self._standing:
            self.after = place
            self._unsaved += 1
            if self._unsaved >= EVERY:
                self.save()

    def failed(self) -> None:
        """Stop advancing, after a row that needs a second try."""
        self._standing = True

    def save(self) -> None:
        """Write the file atomically. Raises UnusableFile."""
        if self.after is None:
            return
        kept = {
            "source": self.source,
            "target": self.target,
            "created_at": self.after.created_at.isoformat(),
            "id": str(self.after.id),
        }
        new = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps(kept))
            new.replace(self.file)
        except OSError as error:
            raise UnusableFile(f"{self.file}: the checkpoint cannot be written ({error.strerror})") from None
        self._unsaved = 0

    def end(self) -> None:
        """Remove the file where no row failed, so that the next run begins anew; else save it."""
        if self._standing:
            self.save()
        else:
            self.file.unlink(missing_ok=True)
