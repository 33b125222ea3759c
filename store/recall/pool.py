"""The pool of candidates: every unit the arms found, with the features that rules need."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from store.recall.dense import Products
from store.recall.lexical import Place
from store.recall.short_questions import ShortQuestions, split_questions

Numbers = NDArray[np.float64]

#: Roles of what a person talks to: they echo a question, or speak beside one without answering it.
AGENTS = frozenset({"assistant", "tool", "system", "developer"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """One unit; `seq` is its number in the session, None for what is not a message.

    `text` may be cut, which `whole` tells; `sources` are the units a fact was drawn from; `answers` says that the
    message before it is another speaker's and ends in a question. `user_id` is whose turn it comes from; `confidence`
    is how sure a fact is, as the event that told of it wrote it; `pinned` says that it is to be told with every answer;
    `turns` are all the turns that what is not said in one was drawn from, the last first.
    """

    unit_id: UUID
    kind: str
    text: str = field(repr=False)
    whole: bool
    session_id: UUID | None
    session_name: str | None
    turn_name: str | None
    seq: int | None
    role: str | None
    name: str | None = field(repr=False)
    occurred_at: datetime
    sources: Sequence[UUID]
    answers: bool = False
    user_id: UUID | None = None
    confidence: str | None = None
    pinned: bool = False
    turns: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """Where the word index keeps it."""
        if self.seq is None or self.session_id is None:
            return self.unit_id, -1
        return self.session_id, self.seq

    @property
    def speaker(self) -> str | None:
        """The name of who said it, or the role where there is no name."""
        return self.name or self.role


@dataclass(frozen=True)
class CandidatePool:
    """Candidates, and how near they and their neighbours are to the question: row by row, the same order.

    `muted` are the neighbours before and after that lend a candidate nothing, shape (len(self), 2); None: all lend.
    """

    candidates: Sequence[Candidate]
    products: Products
    muted: NDArray[np.bool_] | None = None

    @property
    def heard(self) -> Numbers:
        """1 where a candidate takes over words and meaning from the message before it, after it; 0 where not."""
        return np.ones((len(self), 2)) if self.muted is None else (~self.muted).astype(np.float64)

    def __len__(self) -> int:
        return len(self.candidates)

    @cached_property
    def places(self) -> list[Place]:
        """Where the word index keeps each candidate."""
        return [candidate.place for candidate in self.candidates]

    @cached_property
    def answers(self) -> NDArray[np.bool_]:
        """Which candidates follow upon a question; shape (len(self),)."""
        return np.array([candidate.answers for candidate in self.candidates], dtype=np.bool_)

    @cached_property
    def asking(self) -> Sequence[ShortQuestions]:
        """What each candidate's text only asks."""
        return [split_questions(candidate.text) for candidate in self.candidates]

    @cached_property
    def speakers(self) -> list[str | None]:
        """Who said each candidate, by name or role."""
        return [candidate.speaker for candidate in self.candidates]

    @cached_property
    def has_agent(self) -> bool:
        """Whether an agent speaks among the candidates."""
        return any(candidate.role in AGENTS for candidate in self.candidates)

    @cached_property
    def words(self) -> Numbers:
        """How many words the beginning of each candidate's text has, about; shape (len(self),)."""
        return np.array([_count_words(candidate.text) for candidate in self.candidates], dtype=np.float64)

    @cached_property
    def sessions(self) -> NDArray[np.int_]:
        """The number of each candidate's session among those of the pool, -1 for none; shape (len(self),)."""
        numbers: dict[UUID | None, int] = {None: -1}
        found = [numbers.setdefault(candidate.session_id, len(numbers) - 1) for candidate in self.candidates]
        return np.array(found, dtype=np.int_)

    def having(self, holds: Callable[[Candidate], bool]) -> Numbers:
        """Return 1 for each candidate of which that holds, 0 for the others; shape (len(self),)."""
        return np.array([holds(candidate) for candidate in self.candidates], dtype=np.float64)

    @cached_property
    def sizes(self) -> NDArray[np.int_]:
        """How many bytes each candidate's text has; shape (len(self),)."""
        return np.array([len(candidate.text.encode()) for candidate in self.candidates], dtype=np.int_)


def _count_words(text: str) -> int:
    return text.count(" ") + text.count("\n") + 1 if text else 0
