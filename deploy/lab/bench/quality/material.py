"""The common form of all data: dialogues with questions whose evidence is known, and their variant of long messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby

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


def join_messages(dialogue: Dialogue, turns: int) -> Dialogue:
    """Return a dialogue in which `turns` consecutive messages of a session are one message of the first speaker.

    Every line names its speaker. The evidence is the long message that contains the original one.
    """
    runs = list(_split_runs(dialogue.said, turns))
    home = {one.id: run[0].id for run in runs for one in run}
    asked = [DialogueQuestion(a.text, a.category, frozenset(home[one] for one in a.evidence)) for a in dialogue.asked]
    return Dialogue(f"{dialogue.name} by {turns}", [_join_run(run) for run in runs], asked)


def _split_runs(said: Sequence[DialogueMessage], turns: int) -> Iterator[Sequence[DialogueMessage]]:
    for _, found in groupby(said, key=lambda one: one.session):
        session = list(found)
        yield from (session[at : at + turns] for at in range(0, len(session), turns))


def _join_run(run: Sequence[DialogueMessage]) -> DialogueMessage:
    return replace(run[0], text="\n".join(f"{one.name or one.role}: {one.text}" for one in run))
