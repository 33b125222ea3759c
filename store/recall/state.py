"""The state of one recall, which its steps fill."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from afterturn_client.contract.freshness import UNWRITTEN, Freshness
from afterturn_client.contract.knowledge import Directive
from numpy.typing import NDArray

from store.recall.as_of import EarlierText
from store.recall.deduplication import RecentMessages
from store.recall.lexical import Place, Statistics
from store.recall.pool import Candidate, CandidatePool
from store.recall.query import RecallQuery
from store.recall.question import Question
from store.recall.settings import RecallSettings
from store.recall.tail import UnembeddedText
from store.retention import FactRetention
from store.text.times import TimeSpan


class StepTimer:
    """A stop-watch of consecutive steps: each ends where the next begins, so their sum is the whole time."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._since = clock()
        self._took: dict[str, float] = {}

    def done(self, name: str) -> None:
        """End the step of this name now; the time of a step that is done again is added to its first."""
        now = self._clock()
        self._took[name] = self._took.get(name, 0.0) + (now - self._since) * 1000
        self._since = now

    def milliseconds(self, first: Sequence[str] = ()) -> Mapping[str, float]:
        """Return how many milliseconds each step took: those named in their order, then the others as they ended."""
        names = [name for name in first if name in self._took]
        names += [name for name in self._took if name not in first]
        return {name: round(self._took[name], 3) for name in names}


#: Mean length of a bank's units, in words, before the projection stage has counted them.
DEFAULT_MEAN_LENGTH = 12.0
#: Rounds of the event loop in which a thread's result reaches a future, and then the task that awaits it.
ROUNDS = 2
_USUAL_RETENTION = FactRetention()
_UNREAD, _UNCOUNTED = UNWRITTEN, Statistics(1, DEFAULT_MEAN_LENGTH, {})


@dataclass(frozen=True, slots=True)
class ArmResult:
    """An arm's best units, by id or by place in their session, and a function that scores any pool, from 0 to 1.

    The function does not refer to the recall's state, which refers to it: such a cycle would keep all rows that were
    read in memory until the garbage collector runs.
    """

    units: Sequence[UUID]
    places: Sequence[Place]
    score: Callable[[CandidatePool], NDArray[np.float64]]


def rank_by_scores(scores: Mapping[UUID, float]) -> ArmResult:
    """Return the result of an arm that scores the units that it found, best first, and no others."""

    def score(pool: CandidatePool) -> NDArray[np.float64]:
        return np.array([scores.get(unit.unit_id, 0.0) for unit in pool.candidates], dtype=np.float64)

    return ArmResult(list(scores), [], score)


@dataclass(frozen=True, slots=True)
class UnstoredUnits:
    """Facts that no worker has written yet, units that ended after the moment of the question, and their words.

    The newest stand first; `words` are packed postings by the question's terms. `replaced` are the stored facts that
    one of these facts replaces.
    """

    candidates: Mapping[UUID, Candidate] = field(default_factory=dict, repr=False)
    words: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    replaced: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class BegunQuestion:
    """A question before its bank is read: its words, and how it will probably be put, which the model reads meanwhile.

    The work's result is the vector of that text, or a note of a failure.
    """

    words: frozenset[str] = field(repr=False)
    text: str | None = field(default=None, repr=False)
    work: "asyncio.Task[NDArray[np.float32] | str] | None" = None

    async def has_ended(self) -> bool:
        """Return whether nothing waits for the model.

        What its thread has found ends the work two rounds of the event loop later, so these are awaited: without them
        every second recall began a second transaction.
        """
        for _ in range(ROUNDS):
            if self.work is not None and not self.work.done():
                await asyncio.sleep(0)
        return self.work is not None and self.work.done()


@dataclass(slots=True)
class RecallState:
    """The state of one recall; each step reads the fields that earlier steps filled, and fills its own.

    Of the question: `now` is the moment that it is about, `times` are the times that it names. `retention` says how
    long facts hold that no worker has written yet.

    `prepare_search` fills the bank's fields as of before the search: the search covers every unit up to
    `freshness.position`. `more_pending`: very many rows are undone, not all are counted. `lists`: how many lists of
    the bank's IVFFlat index are probed, 0 for an exact search. `unembedded` are texts that have no vector yet and
    have passed the `filters`. `skipped` are the messages that `skip_recent` leaves out, `pinned` the pinned units,
    `just_said` the newest messages with their times. `earlier` are texts as of `known_at` of units that were
    corrected after it. `pending_postings` are the packed postings of units whose words are not in the index yet;
    `unstored` are facts that no worker has written, if the question asks for facts, and units that ended after its
    moment.

    `QuestionEmbedder.begin` sets `begun`. `phrase` puts the question for the model (`phrased`) and says whether the
    model knows its script (`is_read`) and its language (`is_understood`). `embed` (`is_embedded`) fills its `vector`,
    of the model's `generation` (None after a failure), and begins to embed the fresh texts: `tail_embedding` fills
    `tail_vectors`. `query_arms` fills `found`, each arm's result by its name, and `nearest`, the cosines of the stored
    units that the dense arm found. `counting` counts very many undone rows meanwhile.
    `degraded` names the parts that failed, `characters` counts the text of candidates.
    """

    host: UUID
    bank: UUID
    query: RecallQuery
    question: Question
    settings: RecallSettings
    generation: int
    now: datetime
    retention: FactRetention = _USUAL_RETENTION
    times: Sequence[TimeSpan] = ()
    steps: StepTimer = field(default_factory=StepTimer, repr=False)

    freshness: Freshness = _UNREAD
    more_pending: bool = False
    statistics: Statistics = _UNCOUNTED
    speakers: frozenset[str] = field(default=frozenset(), repr=False)
    unembedded: Sequence[UnembeddedText] = field(default=(), repr=False)
    lists: int = 0
    directives: Sequence[Directive] = field(default=(), repr=False)
    skipped: RecentMessages | None = None
    just_said: Sequence[tuple[UUID, datetime]] = ()
    pinned: Sequence[UUID] = ()
    earlier: Mapping[UUID, EarlierText] = field(default_factory=dict, repr=False)
    pending_postings: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    filters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    unstored: UnstoredUnits = field(default_factory=UnstoredUnits, repr=False)

    begun: BegunQuestion | None = field(default=None, repr=False)
    phrased: str = field(default="", repr=False)
    is_embedded: bool = False
    vector: NDArray[np.float32] | None = field(default=None, repr=False)
    is_read: bool = True
    is_understood: bool = True
    tail_vectors: Mapping[UUID, NDArray[np.float32]] = field(default_factory=dict, repr=False)
    tail_embedding: asyncio.Task[None] | None = field(default=None, repr=False)
    counting: asyncio.Task[Freshness] | None = field(default=None, repr=False)

    found: dict[str, ArmResult] = field(default_factory=dict, repr=False)
    nearest: Mapping[UUID, float] = field(default_factory=dict, repr=False)
    degraded: list[str] = field(default_factory=list)
    characters: int = 0

    @property
    def place(self) -> dict[str, Any]:
        """The bank, as statements take it."""
        return {"host": self.host, "bank": self.bank}

    @property
    def vector_place(self) -> dict[str, Any]:
        """The bank with the question's vector and its generation, as statements take them."""
        return {**self.place, "generation": self.generation, "vector": self.vector}

    def cancel_begun(self) -> None:
        """Cancel the work that was begun on the question, if it is not done."""
        if self.begun is not None and self.begun.work is not None:
            self.begun.work.cancel()
        self.begun = None

    def cancel_work(self) -> None:
        """Cancel the tasks that run beside the recall."""
        self.cancel_begun()
        for work in (self.tail_embedding, self.counting):
            if work is not None:
                work.cancel()
        # A cancelled task refers to its frame, and that to the state.
        self.tail_embedding = self.counting = None
