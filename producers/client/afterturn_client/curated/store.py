"""The two curated files of a profile: read whole, changed entry by entry, never truncated silently."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from afterturn_client.curated.entries import (
    Entries,
    Limits,
    MemoryState,
    Target,
    parse_entries,
    render_entries,
    tidy_entry,
)
from afterturn_client.curated.errors import EntryBlank, NoMatch, OverLimit, SeveralMatches
from afterturn_client.curated.files import lock_folder, read_text, replace_text
from afterturn_client.curated.screen import screen_entry
from afterturn_client.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Change:
    """The file after a call; `changed` is False when there was nothing to do, and `note` says what happened."""

    state: MemoryState
    changed: bool
    note: str = field(default="stored")


@dataclass(frozen=True, slots=True)
class MemoryStore:
    """`MEMORY.md` and `USER.md` in one folder; the folder is made when something is first stored.

    Every change is screened, made under a lock that holds between processes, and on disk, whole, when the call
    returns. Each call waits at most `patience_s` seconds for that lock. Calls block: on an event loop, use a thread.
    Raises CuratedError's subclasses; a refused change leaves the file as it is.
    """

    folder: Path
    limits: Limits = field(default_factory=Limits)
    patience_s: float = 10.0

    @classmethod
    def of_profile(cls, home: Path, profile: str, limits: Limits | None = None) -> Self:
        """Return the store of one profile below `home`. Raises InvalidRequestError for a name unfit for a folder."""
        if not profile or profile.startswith(".") or not all(sign.isalnum() or sign in "-_." for sign in profile):
            raise InvalidRequestError("a profile's name is made of letters, digits, '-', '_' and '.', not first")
        return cls(home / profile, limits or Limits())

    def read(self, target: Target) -> MemoryState:
        """Return the current state of one file; one that does not exist has no entries."""
        return MemoryState(target, parse_entries(read_text(self._path(target))), self.limits.of(target))

    def add(self, target: Target, content: str) -> Change:
        """Append an entry; one that exists already, word for word, changes nothing."""
        entry = self._admitted(target, content)

        def added(entries: Entries) -> Entries:
            return entries if entry in entries else Entries((*entries, entry))

        return self._change(target, added, "stored", "exactly this entry is stored already; nothing was changed")

    def replace(self, target: Target, old_text: str, content: str) -> Change:
        """Replace the one entry that contains `old_text` with `content`."""
        entry = self._admitted(target, content)

        def replaced(entries: Entries) -> Entries:
            old = _the_one(entries, old_text)
            if entry in entries:
                return entries
            return Entries(entry if one == old else one for one in entries)

        return self._change(
            target,
            replaced,
            "replaced",
            "exactly this entry is stored already; nothing was changed (remove the old one)",
        )

    def remove(self, target: Target, old_text: str) -> Change:
        """Remove the one entry that holds `old_text`."""

        def removed(entries: Entries) -> Entries:
            old = _the_one(entries, old_text)
            return Entries(one for one in entries if one != old)

        return self._change(target, removed, "removed", "nothing was changed")

    def _admitted(self, target: Target, content: str) -> str:
        """Return the content as an entry; content that exceeds the limit by itself is refused before the screen."""
        size = len(tidy_entry(content))
        if size > self.limits.of(target):
            raise OverLimit(self.read(target), size)
        return screen_entry(content)

    def _change(self, target: Target, changed: Callable[[Entries], Entries], done: str, nothing: str) -> Change:
        # A file that profiles share by a link is locked where it is.
        path = Path(os.path.realpath(self._path(target)))
        with lock_folder(path.parent, self.patience_s):
            before = self.read(target)
            after = MemoryState(target, changed(before.entries), before.limit)
            if after.entries == before.entries:
                return Change(before, changed=False, note=nothing)
            if after.characters > after.limit and after.characters >= before.characters:
                raise OverLimit(before, after.characters)
            replace_text(path, render_entries(after.entries))
        return Change(after, changed=True, note=done)

    def _path(self, target: Target) -> Path:
        return self.folder / target.file_name


def _the_one(entries: Entries, old_text: str) -> str:
    """Return the entry that `old_text` identifies: the only one that contains it, or the one that equals it."""
    wanted = old_text.strip()
    if not wanted:
        raise EntryBlank("old_text is blank; give a part of the entry that is meant")
    if wanted in entries:
        return wanted
    found = Entries(entry for entry in entries if wanted in entry)
    if not found:
        raise NoMatch(entries)
    if len(found) > 1:
        raise SeveralMatches(found)
    return found[0]
