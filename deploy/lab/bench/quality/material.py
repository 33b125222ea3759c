"""Dialogues with questions whose evidence is known: what every format of data is read into."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

#: The category of questions about the wrong person: their evidence tells it of somebody else.
ADVERSARIAL = "adversarial"


class UnreadableData(Exception):
    """The data is not what its format says; the text names the place, never what is said there."""


@dataclass(frozen=True, slots=True)
class DialogueMessage:
    """One message, a turn of its own; `id` is unique in its dialogue. `name` is the speaker's, if he has one."""

    id: str
    session: str
    role: str
    name: str | None
    text: str = field(repr=False)
    at: datetime


@dataclass(frozen=True, slots=True)
class DialogueQuestion:
    """A question of a category, and the ids of the messages its answer stands in (at least one)."""

    text: str = field(repr=False)
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What becomes one bank, and what is asked of it."""

    name: str
    said: Sequence[DialogueMessage]
    asked: Sequence[DialogueQuestion]
