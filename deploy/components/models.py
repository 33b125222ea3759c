"""The sentence models of one process: the live generation's is asked, those of other generations get vectors, too.

Which generation is live stands in the database, where an operator's command changes it. A process looks every second or
two, loads the models that it can have, and switches at once. A process whose settings name another model than the live
one goes on with the live one: the bundled models are always there, others where their folder, their files from the hub
or their service are.
"""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

import structlog

from embeddings.errors import EmbeddingError, ModelMismatch, ModelMissing, ModelUnreachable, OtherModelLive
from embeddings.protocol import Embedder
from embeddings.registry import OwnedEmbedder, create_embedder, find_sources, name_source
from embeddings.remote import RemoteEmbedder
from embeddings.settings import EmbeddingSettings
from embeddings.switching import AbsentModel, LoadingModel, SwitchingEmbedder
from store.database import Database
from store.database_outage import may_pass
from store.derived.generations import Generation, GenerationState, note_behind, offer_model, read_generations

log = structlog.get_logger(__name__)

#: Pause between two looks, in seconds.
LOOK_S = 1.5
#: How long a model that could not be loaded, or that failed beside the live one, is left alone, in seconds.
REST_S = 30.0
#: How long a model that is no longer needed is kept for calls that began with it, in seconds.
LINGER_S = 60.0
#: How long a call waits for the settings' own model, in seconds.
PATIENCE_S = 20.0
LOADING = "is being loaded"


class ModelKeeper:
    """Keeps a process's models as the database says; `embedder` is what everything else asks.

    Create it anywhere, run and close it on one event loop.
    """

    def __init__(self, database: Database, settings: EmbeddingSettings, data: Path) -> None:
        """Look in this database; the settings' own model is offered where none is live."""
        self._database, self._settings, self._data = database, settings, data
        self.own = create_embedder(settings, data)
        self._error: EmbeddingError | None = ModelUnreachable(LOADING)
        self._waiting = LoadingModel(self.own)
        self.embedder = SwitchingEmbedder(self._waiting, self._rest_behind)
        self._models: dict[int, OwnedEmbedder] = {self.own.generation: self.own}
        self._loaded: dict[int, float] = {}
        self._resting: dict[int, tuple[float, EmbeddingError]] = {}
        self._behind = set[int]()
        self._decided = False
        self._told: tuple[str, str] | None = None
        self._looking = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The name of the model that is asked."""
        return self.embedder.name

    @property
    def source(self) -> str:
        """The setting that names the settings' own model."""
        return name_source(self._settings)

    async def load_own(self) -> Embedder:
        """Return the settings' own model, loaded, so that its vectors can be built. Raises EmbeddingError.

        A model that takes long to fetch is loaded further in the background, and the next call finds it.
        """
        if self._loading is None or self._loading.done():
            if not self.own.dimensions:  # a service that did not answer before
                self._loaded.pop(self.own.generation, None)
            self._loading = asyncio.create_task(self._load(self.own), name="own model")
        try:
            await asyncio.wait_for(asyncio.shield(self._loading), PATIENCE_S)
        except TimeoutError:
            raise ModelUnreachable(f"{self.own.name} is still being loaded: ask again in a minute") from None
        return self.own

    def explain_fault(self) -> str:
        """Return why the live model cannot be asked, with what to do, or ''."""
        return "" if self._error is None else str(self._error)

    def explain_absence(self) -> str:
        """Return why the live model can never be loaded as this process is installed, or ''."""
        return self.explain_fault() if isinstance(self._error, ModelMissing) else ""

    def find_model(self, generation: int) -> Embedder | None:
        """Return the loaded model of a generation that does not rest; None where this process has it not."""
        return self._models[generation] if generation in self._loaded and not self._rests(generation) else None

    async def load(self) -> None:
        """Wait until it is known which model is live, and load it.

        Raises EmbeddingError where that fails; OtherModelLive is logged alone: another process may have the live model.
        """
        while not self._decided:
            await self._refresh_safely()
            if not self._decided:
                await asyncio.sleep(LOOK_S)
        if self._error is not None and not isinstance(self._error, OtherModelLive):
            raise type(self._error)(str(self._error))

    async def run(self) -> None:
        """Follow the database until cancelled."""
        while True:
            await self._refresh_safely()
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        """Close every model."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        await asyncio.gather(*(model.close() for model in self._models.values()))

    async def _refresh_safely(self) -> None:
        try:
            await self.refresh()
        except Exception as error:  # noqa: BLE001 - the next look tries again
            if not may_pass(error):
                log.warning("generations_unreadable", error=type(error).__name__)

    async def refresh(self) -> None:
        """Read which generation is live, load what is needed, and switch."""
        async with self._looking:
            there = {one.number: one for one in await read_generations(self._database)}
            live = _find_live(there.values())
            first: Embedder = self.own if live is not None else await self._offer_own()
            if live is None and first.dimensions:
                there = {one.number: one for one in await read_generations(self._database)}
                live = _find_live(there.values())
            await self._note_behind(there)
            self._set_live(first if live is None else await self._ask(live), live)
            others = [one for one in there.values() if one.state in _FOLLOWED and one != live]
            found = {one.number: model for one in others if (model := await self._find_beside(one)) is not None}
            lacking = [one.number for one in others if one.number not in found]
            self.embedder.set_models(self.embedder.current, list(found.values()), lacking)
            await self._close_unneeded({self.own.generation, *there})

    async def _offer_own(self) -> Embedder:
        """Load the settings' own model and offer it to be live; return it, or what refuses in its place."""
        try:
            await self._load(self.own)
        except EmbeddingError as error:
            return AbsentModel(self.own.name, self.own.generation, 0, error)
        if self.own.dimensions:
            await offer_model(self._database, self.own, self.source)
        return self.own

    async def _ask(self, live: Generation) -> Embedder:
        """Return the live model, or what refuses in its place."""
        try:
            return await self._get(live)
        except EmbeddingError as error:
            return AbsentModel(live.model, live.number, live.dimension, error)

    async def _find_beside(self, one: Generation) -> Embedder | None:
        """Return the model of a generation that is not live; None where it rests or this process has it not."""
        try:
            return await self._get(one)
        except EmbeddingError:
            return None

    async def _get(self, one: Generation) -> OwnedEmbedder:
        """Return the loaded model of a generation. Raises EmbeddingError."""
        model = self._models.get(one.number) or await asyncio.to_thread(self._find, one)
        if model is None:
            raise OtherModelLive(
                f"vectors are those of {one.model} ({one.source or 'bundled'}), which this process has not: name it in "
                "`embedding`, or run `afterturn embeddings build` and `switch` for the model of the settings"
            )
        self._models[one.number] = model
        await self._load(model)
        if isinstance(model, RemoteEmbedder):
            model.expect_dimension(one.dimension)
        if model.dimensions != one.dimension:
            raise ModelMismatch(
                f"{one.model} gives vectors of {model.dimensions} numbers, its generation has {one.dimension}: restore "
                "the model, or build another"
            )
        return model

    def _find(self, one: Generation) -> OwnedEmbedder | None:
        for settings in find_sources(self._settings, one.source):
            try:
                model = create_embedder(settings, self._data)
            except OSError:  # a folder that is not here
                continue
            if model.generation == one.number:
                return model
        return None

    async def _load(self, model: OwnedEmbedder) -> None:
        """Load a model once; one that failed rests. Raises EmbeddingError."""
        number = model.generation
        if self._rests(number):
            raise self._resting[number][1]
        if number not in self._loaded:
            try:
                await model.load()
            except EmbeddingError as error:
                self._resting[number] = time.monotonic() + REST_S, error
                log.error("model_unusable", model=model.name, error=str(error))  # noqa: TRY400 - no tracebacks
                raise
            self._loaded[number] = time.monotonic()

    def _rests(self, number: int) -> bool:
        return number in self._resting and time.monotonic() < self._resting[number][0]

    def _set_live(self, model: Embedder, live: Generation | None) -> None:
        self._error = model.why if isinstance(model, AbsentModel) else None
        self._decided = True
        self.embedder.set_models(model, self.embedder.beside, self.embedder.lacking)
        self._waiting.decide(model)
        told = (self.own.name, model.name)
        if live is not None and live.number != self.own.generation and told != self._told:
            step = "run `afterturn embeddings build`, then `switch`" if self._error is None else str(self._error)
            log.warning("other_model_live", settings=self.own.name, live=model.name, next_step=step)
        self._told = told

    def _rest_behind(self, number: int) -> None:
        """Leave a model alone that failed beside the live one; its generation is noted as behind."""
        self._behind.add(number)
        if number in self._loaded:
            self._resting[number] = time.monotonic() + REST_S, ModelUnreachable(f"generation {number} failed")
            beside = [model for model in self.embedder.beside if model.generation != number]
            lacking = sorted({*self.embedder.lacking, number})
            self.embedder.set_models(self.embedder.current, beside, lacking)

    async def _note_behind(self, there: dict[int, Generation]) -> None:
        for number in tuple(self._behind):
            if number in there and not there[number].behind:
                await note_behind(self._database, number)
            self._behind.discard(number)

    async def _close_unneeded(self, needed: set[int]) -> None:
        for number in set(self._models) - needed:
            if time.monotonic() > self._loaded.get(number, 0.0) + LINGER_S:
                self._loaded.pop(number, None)
                await self._models.pop(number).close()


#: States of generations whose vectors new texts get beside the live one.
_FOLLOWED = (GenerationState.BUILDING, GenerationState.RETIRED)


def _find_live(there: Iterable[Generation]) -> Generation | None:
    return next((one for one in there if one.state is GenerationState.LIVE), None)
