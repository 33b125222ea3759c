"""Parses a curated file: entries separated by a line with only `§`. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from afterturn_client.errors import InvalidRequestError

SEPARATOR = "§"
_BETWEEN = f"\n{SEPARATOR}\n"


class Target(StrEnum):
    """The two files: the agent's own notes, and its knowledge about the user."""

    MEMORY = "memory"
    USER = "user"

    @property
    def file_name(self) -> str:
        """The name of the file in the profile's folder."""
        return f"{self.value.upper()}.md"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many characters each file may hold, separators included."""

    memory: int = 2_200
    user: int = 1_375

    def __post_init__(self) -> None:
        if any(
            isinstance(limit, bool) or not isinstance(limit, int) or limit < 1 for limit in (self.memory, self.user)
        ):
            raise InvalidRequestError("a limit is a number of characters, at least 1")

    def of(self, target: Target) -> int:
        """Return the limit of one file."""
        return self.memory if target is Target.MEMORY else self.user


class Entries(tuple[str, ...]):
    """The entries of a file in their order. Their repr shows their number, never their text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} entries>"


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The state of one file: its entries, their size in characters, and its limit."""

    target: Target
    entries: Entries = field(repr=False)
    limit: int

    @property
    def characters(self) -> int:
        """How many characters the file holds, separators included."""
        return len(render_entries(self.entries))

    @property
    def usage(self) -> str:
        """The use of the file's limit, for a person or a model to read."""
        return f"{self.characters:,} of {self.limit:,} characters, {round(100 * self.characters / self.limit)} %"


def tidy_entry(content: str) -> str:
    """Return an entry as it is stored: with uniform line ends, without blanks around it."""
    return _lines_alike(content).strip()


def is_separator(line: str) -> bool:
    """Return whether a line separates entries; blanks around the sign do not matter (people edit these files too)."""
    return line.strip() == SEPARATOR


def parse_entries(text: str) -> Entries:
    """Return the entries of a file's text, blank ones and exact repetitions left out."""
    groups: list[list[str]] = [[]]
    for line in _lines_alike(text).split("\n"):
        if is_separator(line):
            groups.append([])
        else:
            groups[-1].append(line)
    entries = (tidy_entry("\n".join(group)) for group in groups)
    return Entries(dict.fromkeys(filter(None, entries)))


def render_entries(entries: Iterable[str]) -> str:
    """Return the text that `parse_entries` reads as these entries."""
    return _BETWEEN.join(entries)


def _lines_alike(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
