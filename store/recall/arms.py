"""What an arm of recall is: one way to find units, and to score what the others found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.as_of import Earlier
from store.recall.lexical import Place, Statistics
from store.recall.pool import Pool
from store.recall.question import Question
from store.recall.settings import RecallSettings
from store.text.times import Span


@dataclass(frozen=True, slots=True)
class Search:
    """One question to one bank as the arms see it.

    `vector` is the question's, of the given generation, None where there is none to be had; `tail` are vectors of
    units that have none stored yet, and have passed the filters. `lists`: so many of the index by nearness over the
    bank's vectors are read, 0 where all vectors are. `times` are those the question asks for, `now` is when it is
    asked, None for whenever, `told_at` when the bank was last told something. `pinned` is to be told whatever is asked.
    `earlier` is what was said otherwise when the question wants to know what was known then. `waiting` are the packed
    postings of units whose words are not in the index yet.
    """

    host: UUID
    bank: UUID
    question: Question
    statistics: Statistics
    generation: int
    vector: NDArray[np.float32] | None = field(repr=False)
    tail: Mapping[UUID, NDArray[np.float32]] = field(repr=False)
    filters: Mapping[str, Any] = field(repr=False)
    settings: RecallSettings
    lists: int = 0
    times: Sequence[Span] = ()
    now: datetime | None = None
    told_at: datetime | None = None
    pinned: Sequence[UUID] = ()
    earlier: Mapping[UUID, Earlier] = field(default_factory=dict, repr=False)
    waiting: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Found:
    """An arm's best units, by id or by place in their session, and its view of any pool: scores from 0 to 1."""

    units: Sequence[UUID]
    places: Sequence[Place]
    score: Callable[[Pool], NDArray[np.float64]]


class Arm(Protocol):
    """One way to find units; filters act inside it."""

    @property
    def name(self) -> str:
        """What answers and explanations call it."""
        ...

    def weight(self, settings: RecallSettings) -> float:
        """Return how much its scores count in the sum."""
        ...

    async def find(self, connection: AsyncConnection, search: Search) -> Found:
        """Search the bank inside the tenant's transaction."""
        ...
