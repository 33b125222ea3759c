"""Holds the pool of candidates: every unit that the arms found, with the features that rules need."""

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
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

#: Roles of agents and tools: their messages may repeat a question, or follow it without an answer.
AGENTS = frozenset({"assistant", "tool", "system", "developer"})
USER = "user"
#: Roles of AGENTS that do not converse, such as tools.
OUTPUT_ROLES = AGENTS - {"assistant"}
#: Most words of an agent's short line.
LINE_WORDS = 30


@dataclass(slots=True)
class Candidate:
    """One unit; `seq` is its number in the session, None for a unit that is not a message.

    `text` may be cut: `whole` says whether it is not; `sources` are the units that a fact was extracted from; `answers`
    says that the message before it is another speaker's and ends in a question. `user_id` is the user of its turn;
    `confidence` is that of a fact, as its event wrote it; `pinned` units come with every answer; `withdrawn` are the
    values of facts of a message that were forgotten, a line each; `turns` are the turns of a reflection's facts, the
    last first. It is never changed; as a frozen class it would take 20 times as long to
    make, .3 ms a pool.
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
    withdrawn: str | None = field(default=None, repr=False)
    turns: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """The unit's key in the word index."""
        if self.seq is None or self.session_id is None:
            return self.unit_id, -1
        return self.session_id, self.seq

    @property
    def speaker(self) -> str | None:
        """The speaker's name, or the role of a speaker without a name."""
        return self.name or self.role


@dataclass
class CandidatePool:
    """Candidates, and in the order of the candidates the inner products of their vectors and their neighbours'.

    `muted` says which neighbours, before and after, do not count for a candidate, shape (len(self), 2); None: all do.
    """

    candidates: Sequence[Candidate]
    products: Products
    muted: NDArray[np.bool_] | None = None

    @property
    def unmuted(self) -> Numbers:
        """1 where the message before or after a candidate counts for it, else 0; shape (len(self), 2)."""
        return np.ones((len(self), 2)) if self.muted is None else (~self.muted).astype(np.float64)

    def mute(self, muted: NDArray[np.bool_]) -> "CandidatePool":
        """Return the pool with these neighbours muted; computed values of its candidates are kept."""
        pool = copy(self)
        pool.muted = muted
        return pool

    def __len__(self) -> int:
        return len(self.candidates)

    @cached_property
    def places(self) -> list[Place]:
        """The key of each candidate in the word index."""
        return [candidate.place for candidate in self.candidates]

    @cached_property
    def answers(self) -> NDArray[np.bool_]:
        """Which candidates follow a question; shape (len(self),)."""
        return np.array([candidate.answers for candidate in self.candidates], dtype=np.bool_)

    @cached_property
    def asking(self) -> Sequence[ShortQuestions]:
        """The short questions in each candidate's text."""
        return [split_questions(candidate.text) for candidate in self.candidates]

    @cached_property
    def speakers(self) -> list[str | None]:
        """The speaker of each candidate, by name or role."""
        return [candidate.speaker for candidate in self.candidates]

    @cached_property
    def has_agent(self) -> bool:
        """Whether an agent speaks among the candidates."""
        return any(candidate.role in AGENTS for candidate in self.candidates)

    @cached_property
    def is_agents(self) -> bool:
        """Whether this is an agent's memory: an agent speaks in it, or no speaker has a name."""
        return self.has_agent or not any(unit.name for unit in self.candidates)

    @cached_property
    def lines(self) -> NDArray[np.bool_]:
        """Which candidates are an agent's short lines, which seldom inform; shape (len(self),)."""
        return np.array([_is_line(candidate) for candidate in self.candidates], dtype=np.bool_)

    @cached_property
    def is_assistants(self) -> NDArray[np.bool_]:
        """Which candidates are the assistant's; shape (len(self),)."""
        return np.array([unit.role == "assistant" for unit in self.candidates], dtype=np.bool_)

    @cached_property
    def is_output(self) -> NDArray[np.bool_]:
        """Which candidates are of roles that do not converse, such as tools; shape (len(self),)."""
        return np.array([unit.role in OUTPUT_ROLES for unit in self.candidates], dtype=np.bool_)

    @cached_property
    def times_sent(self) -> NDArray[np.int_]:
        """How many messages of users have the text of each candidate; 0 for others'; shape (len(self),)."""
        sent = [unit.text.strip() if unit.role == USER else None for unit in self.candidates]
        times = {**Counter(sent), None: 0}
        return np.array([times[text] for text in sent], dtype=np.int_)

    @cached_property
    def words(self) -> Numbers:
        """About how many words each candidate's text has, as far as it was read; shape (len(self),)."""
        return np.array([_count_words(candidate.text) for candidate in self.candidates], dtype=np.float64)

    @cached_property
    def sessions(self) -> NDArray[np.int_]:
        """The number of each candidate's session among those of the pool, -1 for none; shape (len(self),)."""
        numbers: dict[UUID | None, int] = {None: -1}
        found = [numbers.setdefault(candidate.session_id, len(numbers) - 1) for candidate in self.candidates]
        return np.array(found, dtype=np.int_)

    def having(self, holds: Callable[[Candidate], bool]) -> Numbers:
        """Return 1 for each candidate for which `holds` is true, 0 for the others; shape (len(self),)."""
        return np.array([holds(candidate) for candidate in self.candidates], dtype=np.float64)

    @cached_property
    def sizes(self) -> NDArray[np.int_]:
        """The bytes of each candidate's text; shape (len(self),)."""
        return np.array([len(candidate.text.encode()) for candidate in self.candidates], dtype=np.int_)


def _is_line(unit: Candidate) -> bool:
    """Return whether a unit is a short line of an agent, which only acknowledges, repeats or thanks."""
    return unit.role in AGENTS and len(unit.text.split(None, LINE_WORDS)) <= LINE_WORDS


def _count_words(text: str) -> int:
    return text.count(" ") + text.count("\n") + 1 if text else 0
