"""A snapshot of both files at the start of a run; later changes appear in the next run's prompt."""

from dataclasses import dataclass, field
from typing import Self

from afterturn_client.curated.entries import SEPARATOR, Entries, MemoryState, Target
from afterturn_client.curated.screen import find_objection
from afterturn_client.curated.store import MemoryStore

_TITLES = {
    Target.MEMORY: "MEMORY.md: your own notes",
    Target.USER: "USER.md: what you know about your user",
}
_EMPTY = "(empty)"
_WITHHELD = "(an entry that did not pass the screen is withheld here; remove it from the file)"


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """Both files at one moment; `text` is their part of the system prompt for the whole run."""

    memory: MemoryState
    user: MemoryState
    text: str = field(repr=False)

    @classmethod
    def take(cls, store: MemoryStore) -> Self:
        """Read both files and render them, once. Raises MemoryUnreadable."""
        memory, user = store.read(Target.MEMORY), store.read(Target.USER)
        return cls(memory, user, f"{_render_block(memory)}\n\n{_render_block(user)}")


def _render_block(state: MemoryState) -> str:
    """Return one file under a header that shows its use and limit."""
    return f"## {_TITLES[state.target]} [{state.usage}]\n\n{_render_body(state.entries) or _EMPTY}"


def _render_body(entries: Entries) -> str:
    """Return the joined entries; one that fails the screen (edited by hand, or an attack) is reported, not shown."""
    return f"\n{SEPARATOR}\n".join(entry if find_objection(entry) is None else _WITHHELD for entry in entries)
