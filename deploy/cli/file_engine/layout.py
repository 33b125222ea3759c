"""Where the file engine keeps a session: its folders and files, in the order in which they are read. Follows no links.

The canonical layout and the legacy one lie in the same folder, and most records are in both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Folders and files by which a folder is a session's.
_OF_SESSIONS = (
    *("events", "memory_tiers", "indexes", "runtime", "meta"),
    *("log.jsonl", "context.jsonl", "memory_facts.jsonl", "meta.json"),
)
#: Files of events: archives before the shards of the same day, the legacy log, then what the next turn was shown.
_LOGS = (
    ("events/archive", ".jsonl.zst"),
    ("events/raw", ".jsonl"),
    ("", "log.jsonl"),
    ("runtime/context", "current.jsonl"),
    ("", "context.jsonl"),
)
_SHARDS = (("memory_tiers/L0", ".jsonl"), ("memory_tiers/L1", ".jsonl"), ("memory_tiers/L2", ".jsonl"))
_LEGACY_FACTS = "memory_facts.jsonl"
_INDEX = "indexes/active_facts.json"


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """A session's folder; its name is the session's id."""

    path: Path

    @property
    def name(self) -> str:
        """The session's id."""
        return self.path.name

    def find_logs(self) -> list[Path]:
        """Return the files that hold events."""
        return [file for place, end in _LOGS for file in self._find(place, end)]

    def find_facts(self) -> list[Path]:
        """Return the files that hold records of facts: the shards of the tiers, then the legacy file."""
        shards = [file for place, end in _SHARDS for file in self._find(place, end)]
        return [*shards, *self._find("", _LEGACY_FACTS)]

    def find_index(self) -> Path | None:
        """Return the file of the facts that hold; None: there is none."""
        return next(iter(self._find(*_INDEX.rsplit("/", 1))), None)

    def count_files(self, place: str) -> int:
        """Return the number of files in a folder of the session and below it, without abstracts and overviews."""
        return sum(1 for file in _walk(self.path / place) if not file.name.startswith("."))

    def _find(self, place: str, end: str) -> list[Path]:
        if end.startswith("."):
            return [file for file in _walk(self.path / place) if file.name.endswith(end)]
        file = self.path / place / end
        return [file] if file.is_file() and not file.is_symlink() else []


def find_sessions(folder: Path) -> list[SessionFolder]:
    """Return the sessions of a project's folder, of its `memory` folder, or of a session's own; sorted by name."""
    root = folder / "memory" if (folder / "memory").is_dir() else folder
    if _is_session(root):
        return [SessionFolder(root.resolve())]
    return [SessionFolder(one) for one in sorted(root.iterdir()) if not one.is_symlink() and _is_session(one)]


def _is_session(folder: Path) -> bool:
    return folder.is_dir() and any((folder / name).exists() for name in _OF_SESSIONS)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and below it, sorted by path."""
    if not folder.is_dir() or folder.is_symlink():
        return
    for one in sorted(folder.iterdir()):
        if one.is_symlink():
            continue
        if one.is_dir():
            yield from _walk(one)
        elif one.is_file():
            yield one
