"""The task that makes the vectors of a generation, or deletes those of one that is dropped: one process at a time.

Each step saves how far it has come, so a process that is killed is continued by another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from embeddings.protocol import Embedder
from store.database import Database
from store.derived.generation_passes import delete_vectors, find_next_bank, measure_share, read_lacking_texts
from store.derived.generations import (
    ENDED,
    Generation,
    GenerationState,
    PassPlace,
    begin_pass,
    end_pass,
    forget_generation,
    read_generations,
    save_place,
)
from store.derived.unit_vectors import insert_vectors
from store.maintenance import MORE, PrunedBatch
from workers.maintenance.tasks import Task
from workers.metrics import PASS_VECTORS

NAME = "embeddings"
#: Pause between two looks for a generation with work.
EVERY = timedelta(seconds=2)
#: A process that has not learnt yet that a generation is being dropped may write its vectors for so long.
STRAGGLERS = timedelta(seconds=60)
#: The order in which generations are worked on.
_ORDER = (GenerationState.LIVE, GenerationState.BUILDING, GenerationState.RETIRED, GenerationState.DROPPING)


@dataclass(frozen=True, slots=True)
class GenerationPasses:
    """Works on the generations with texts that may lack a vector; `find_model` returns this process's model of one."""

    database: Database
    find_model: Callable[[int], Embedder | None]
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    async def step(self, place: str | None) -> PrunedBatch:
        """Work on one batch of a generation. Raises EmbeddingError: the next run begins at the same place."""
        del place
        for one in await self._with_work():
            await self._work(one)
            return PrunedBatch(0, MORE)
        return PrunedBatch(0, None)

    async def count(self) -> int:
        """Return how many generations have work for this process."""
        return len(await self._with_work())

    async def _with_work(self) -> Sequence[Generation]:
        there = [one for one in await read_generations(self.database) if self._has_work(one)]
        return sorted(there, key=lambda one: _ORDER.index(one.state))

    def _has_work(self, one: Generation) -> bool:
        if one.state is GenerationState.DROPPING:
            return one.complete_at is None or self.now() >= one.since + STRAGGLERS
        return one.complete_at is None and self.find_model(one.number) is not None

    async def _work(self, one: Generation) -> None:
        if one.state is GenerationState.DROPPING and one.complete_at is not None:
            if one.vectors or one.complete_at < one.since + STRAGGLERS:
                await begin_pass(self.database, one.number)
            else:
                await forget_generation(self.database, one.number)
        elif (place := await self._find_place(one)) is None:
            await end_pass(self.database, one.number)
        elif one.state is GenerationState.DROPPING:
            deleted = await delete_vectors(self.database, place.host, place.bank, one.number)
            await save_place(self.database, one.number, place if deleted else replace(place, position=ENDED), deleted)
        else:
            await self._embed(one.number, place)

    async def _find_place(self, one: Generation) -> PassPlace | None:
        """Return the place at which work goes on; None where the pass has ended."""
        place = one.place
        if place is not None and place.position != ENDED:
            return place
        found = await find_next_bank(self.database, place)
        return None if found is None else PassPlace(*found)

    async def _embed(self, number: int, place: PassPlace) -> None:
        place, made = await self.make_vectors(number, place)
        await save_place(self.database, number, place, made, await measure_share(self.database, place))

    async def make_vectors(self, number: int, place: PassPlace) -> tuple[PassPlace, int]:
        """Make the next missing vectors of a generation in a bank; return the place behind them and their number."""
        model = self.find_model(number)
        lacking = await read_lacking_texts(self.database, place, number)
        if lacking is None or model is None:
            return replace(place, position=ENDED), 0
        if lacking.units:
            vectors = await model.embed([unit.content for unit in lacking.units])
            async with self.database.tenant(place.host) as connection:
                await insert_vectors(connection, place.host, number, lacking.units, vectors)
            PASS_VECTORS.inc(len(lacking.units))
        return replace(place, position=lacking.position), len(lacking.units)


def generation_task(passes: GenerationPasses) -> Task:
    """Return the task that makes and deletes the vectors of generations."""
    return Task(NAME, EVERY, passes.step, passes.count)
