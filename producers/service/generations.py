"""Generations of vectors for operators: which there are, and each step of a change of the sentence model."""

import re
import time
from collections.abc import Sequence
from typing import Annotated, Any, Protocol
from uuid import UUID

from afterturn_client.contract.embeddings import (
    Generation,
    GenerationComparison,
    GenerationList,
)
from pydantic import Field

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder
from producers.errors import FieldProblem, Invalid
from producers.service.bodies import parse_body
from producers.service.wire import Parameters, RequestModel
from store.database import Database
from store.derived import generations
from store.derived.generation_passes import find_next_bank
from store.derived.generations import GenerationState, PassPlace
from store.errors import GenerationRefused, NotFound
from store.ledger.workers import WorkerRegistry
from store.recall.accuracy_check import (
    CheckedQuestion,
    ComparedQuestion,
    compare_generations,
    compare_searches,
    find_stored_bank,
)
from store.recall.settings import RecallSettings

#: For how many seconds one call asks questions, and how many it asks before it looks at the time.
COMPARING_S = 5.0
PORTION = 5

_NUMBER = re.compile(r"[0-9]{1,5}")

Number = Annotated[int, Field(ge=1, le=32_767)]


class OwnModel(Protocol):
    """The sentence model that a process's settings name."""

    @property
    def own(self) -> Embedder | None:
        """The model; None where its files are not here."""
        ...

    @property
    def source(self) -> str:
        """The setting that names it."""
        ...

    async def load_own(self) -> Embedder:
        """Return the model, loaded. Raises EmbeddingError."""
        ...


class SwitchBody(RequestModel):
    """Whether to switch to a generation that texts lack a vector of."""

    force: bool = Field(False, description="whether to switch although texts lack a vector of the new model")


class ComparisonParameters(Parameters):
    """Which generation is compared with the live one, by how many questions, and where to go on."""

    generation: Number | None = Field(None, description="number of the generation; left out: the one being built")
    questions: int = Field(20, ge=1, le=1000, description="questions to each bank, up to 1000")
    cursor: str | None = Field(
        None, min_length=1, max_length=100, description="the `cursor` of the page before; left out: the first bank"
    )


class GenerationOperations:
    """Operations on generations for operators; the caller is already authenticated."""

    def __init__(self, database: Database, model: OwnModel | None, settings: RecallSettings) -> None:
        """Keep the database and this process's own model, if it has one; `settings` are those of compared searches."""
        self._database = database
        self._model = model
        self._settings = settings
        self._workers = WorkerRegistry(database)

    async def list(self) -> GenerationList:
        """Return the generations, and the models that settings of processes name."""
        there = await generations.read_generations(self._database)
        own = None if self._model is None else self._model.own
        return GenerationList(
            generations=tuple(map(_describe, there)),
            model=None if own is None else own.name,
            workers=tuple(await self._workers.list_models()),
        )

    async def build(self) -> GenerationList:
        """Begin to build the own model's vectors, or go on. Raises NotFound without a model, GenerationRefused."""
        if self._model is None:
            raise NotFound("this process has no sentence model: call one that serves recall")
        try:
            model = await self._model.load_own()
        except EmbeddingError as error:
            raise GenerationRefused(str(error)) from None
        if not model.dimensions:
            raise GenerationRefused(f"{model.name} does not answer: its dimension is found by asking it")
        await generations.begin_build(self._database, model, self._model.source)
        return await self.list()

    async def switch(self, asked: Any) -> GenerationList:
        """Make the built generation live. Raises Invalid, GenerationRefused."""
        await generations.switch_to(self._database, incomplete=parse_body(SwitchBody, asked).force)
        return await self.list()

    async def roll_back(self) -> GenerationList:
        """Make the former generation live again. Raises GenerationRefused."""
        await generations.roll_back(self._database)
        return await self.list()

    async def drop(self, number: str) -> GenerationList:
        """Begin to delete the vectors of a generation. Raises NotFound, GenerationRefused."""
        if not _NUMBER.fullmatch(number):
            raise NotFound("generations have numbers, which their list shows")
        await generations.begin_drop(self._database, int(number))
        return await self.list()

    async def compare(self, asked: ComparisonParameters) -> GenerationComparison:
        """Ask questions for some seconds. Raises Invalid, GenerationRefused where there are not two generations."""
        live, other = _choose_compared(await generations.read_generations(self._database), asked.generation)
        place, done = _read_cursor(asked.cursor)
        shared, checked, banks = list[ComparedQuestion](), list[CheckedQuestion](), 0
        until = time.monotonic() + COMPARING_S
        while time.monotonic() < until:
            if not done:
                found = await find_next_bank(self._database, place)
                place = None if found is None else PassPlace(*found)
            if place is None:
                break
            portion = min(PORTION, asked.questions - done)
            bank = await find_stored_bank(self._database, place.host, place.bank)
            if bank is not None:
                shared += await compare_generations(self._database, bank, live.number, other.number, portion)
                checked += await compare_searches(self._database, bank, portion, self._settings, other.number)
            done = 0 if bank is None or done + portion >= asked.questions else done + portion
            banks += not done
        return GenerationComparison(
            live=live.model,
            compared=other.model,
            questions=len(shared),
            nearest=sum(one.there for one in shared),
            shared=sum(one.shared for one in shared),
            exact=sum(one.there for one in checked),
            found=sum(one.found for one in checked),
            banks=banks,
            cursor=None if place is None else f"{place.host}:{place.bank}:{done}",
        )


def _choose_compared(
    there: Sequence[generations.Generation], number: int | None
) -> tuple[generations.Generation, generations.Generation]:
    """Return the live generation and the one to compare. Raises GenerationRefused where one of them is missing."""
    live = next((one for one in there if one.state is GenerationState.LIVE), None)
    other = next((one for one in there if one is not live and _is_meant(one, number)), None)
    if live is None or other is None:
        raise GenerationRefused("there is no generation to compare with the live one: `afterturn embeddings status`")
    return live, other


def _is_meant(one: generations.Generation, number: int | None) -> bool:
    return one.state is GenerationState.BUILDING if number is None else one.number == number


def _read_cursor(cursor: str | None) -> tuple[PassPlace | None, int]:
    """Return the bank that questions go on with, and how many it was asked. Raises Invalid."""
    if cursor is None:
        return None, 0
    try:
        host, bank, done = cursor.split(":")
        return PassPlace(UUID(host), UUID(bank)), int(done)
    except ValueError:
        raise Invalid(FieldProblem("cursor", "must be the cursor of the page before")) from None


def _describe(one: generations.Generation) -> Generation:
    return Generation(
        generation=one.number,
        model=one.model,
        dimension=one.dimension,
        state=one.state.value,
        since=one.since,
        vectors=one.vectors,
        share=one.share,
        complete_at=one.complete_at,
    )
