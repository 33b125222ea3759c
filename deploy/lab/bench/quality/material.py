"""The common form of all data: dialogues with questions whose evidence is known."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

#: The category of questions about the wrong person, whose evidence is about another person.
ADVERSARIAL = "adversarial"


class UnreadableData(Exception):
    """The data does not have the stated format; the text says where, without content."""


@dataclass(frozen=True, slots=True)
class DialogueMessage:
    """A message, stored as a turn of its own; `id` is unique in its dialogue, `name` is the speaker's, if known."""

    id: str
    session: str
    role: str
    name: str | None
    text: str = field(repr=False)
    at: datetime


@dataclass(frozen=True, slots=True)
class DialogueQuestion:
    """A question, its category, and the ids of the messages that hold its answer (at least one).

    `stale` are messages that held the answer before, where the data says so.
    """

    text: str = field(repr=False)
    category: str
    evidence: frozenset[str]
    stale: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The messages that become one bank, and the questions about them."""

    name: str
    said: Sequence[DialogueMessage]
    asked: Sequence[DialogueQuestion]

    def list_stale(self) -> frozenset[str]:
        """Return the messages that are outdated by a later one."""
        return frozenset[str]().union(*(one.stale for one in self.asked))
