"""One recall, from the question to the units that answer it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from store.ledger.freshness import Freshness
from store.memory.directives import Directive
from store.recall.as_of import Earlier
from store.recall.deduplication import Recent
from store.recall.lexical import Place, Statistics
from store.recall.pool import Candidate, CandidatePool
from store.recall.query import RecallQuery
from store.recall.question import Question
from store.recall.settings import RecallSettings
from store.recall.steps import StepTimer
from store.recall.tail import Fresh
from store.text.times import TimeSpan

#: When the projection stage has not counted yet.
DEFAULT_MEAN_LENGTH = 12.0
_UNREAD, _UNCOUNTED = Freshness(0, 0, 0, 0, 0), Statistics(1, DEFAULT_MEAN_LENGTH, {})


@dataclass(frozen=True, slots=True)
class ArmResult:
    """An arm's best units, by id or by place in their session, and its view of any pool: scores from 0 to 1.

    The view does not hold the recall's state, which holds it: all that was read would wait for the collector.
    """

    units: Sequence[UUID]
    places: Sequence[Place]
    score: Callable[[CandidatePool], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Unindexed:
    """Facts that no worker has written yet, what has ended since the moment that is asked about, and their words.

    The newest stand first; `words` are packed postings by the question's terms. `replaced` are stored facts that one of
    them replaces.
    """

    candidates: Mapping[UUID, Candidate] = field(default_factory=dict, repr=False)
    words: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    replaced: frozenset[UUID] = frozenset()


@dataclass(slots=True)
class RecallState:
    """What is known of one recall; each step reads what those before it found, and adds what it finds.

    Of the question: `now` is the moment it is about, `times` are those it asks for.

    `prepare_search` adds the bank as it stood before the search: nothing up to `freshness.position` can escape what
    follows. `more_pending`: very many rows are undone, not all are counted. `lists`: how many lists of the bank's
    IVFFlat index are probed, 0 for an exact search. `fresh` are texts that have no vector yet and have passed
    the `filters`. `recent` is what is not to be told again, `pinned` what is told whatever is asked, `just_said` the
    newest messages and when they were said. `earlier` is what was said otherwise when the question wants to know what
    was known then. `waiting` are the packed postings of units whose words are not in the index yet; `unindexed` are
    facts that no worker has written, where the question asks for facts, and what has ended since its moment.

    `Meanings.embed` adds the question's `vector`, of the `generation`, None where there is none to be had, and those of
    the `tail`, the fresh texts; `query_arms` what each arm `found`, by name. `degraded` are the parts that failed.
    """

    host: UUID
    bank: UUID
    query: RecallQuery
    question: Question
    settings: RecallSettings
    generation: int
    now: datetime
    times: Sequence[TimeSpan] = ()
    steps: StepTimer = field(default_factory=StepTimer, repr=False)

    freshness: Freshness = _UNREAD
    more_pending: bool = False
    statistics: Statistics = _UNCOUNTED
    speakers: frozenset[str] = field(default=frozenset(), repr=False)
    fresh: Sequence[Fresh] = field(default=(), repr=False)
    lists: int = 0
    directives: Sequence[Directive] = field(default=(), repr=False)
    recent: Recent | None = None
    just_said: Sequence[tuple[UUID, datetime]] = ()
    pinned: Sequence[UUID] = ()
    earlier: Mapping[UUID, Earlier] = field(default_factory=dict, repr=False)
    waiting: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    filters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    unindexed: Unindexed = field(default_factory=Unindexed, repr=False)

    vector: NDArray[np.float32] | None = field(default=None, repr=False)
    tail: Mapping[UUID, NDArray[np.float32]] = field(default_factory=dict, repr=False)

    found: dict[str, ArmResult] = field(default_factory=dict, repr=False)
    degraded: list[str] = field(default_factory=list)
