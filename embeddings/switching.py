"""The models of a process: the live one, which is asked, and those beside it that get vectors of every text, too."""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from embeddings.errors import EmbeddingError, ModelUnreachable
from embeddings.protocol import Embedder


class AbsentModel:
    """Stands for a live model that this process cannot ask: every text is refused, with what to do."""

    def __init__(self, name: str, generation: int, dimensions: int, why: EmbeddingError) -> None:
        """Keep what is known of the model, and why it cannot be asked."""
        self.name, self.generation, self.dimensions = name, generation, dimensions
        self.why = why

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raise an error of the kind that was given."""
        del texts
        raise type(self.why)(str(self.why))

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Return 0: a refusal takes no time."""
        del texts
        return 0.0


class LoadingModel:
    """Stands for the settings' model until it is known which model is live: texts wait for that."""

    def __init__(self, own: Embedder) -> None:
        """Wait for this model, or for another one in its place."""
        self._own = own
        self._decided = asyncio.Event()
        self._live: Embedder = own

    @property
    def name(self) -> str:
        """The model's name."""
        return self._own.name

    @property
    def generation(self) -> int:
        """The model's generation."""
        return self._own.generation

    @property
    def dimensions(self) -> int:
        """The length of the model's vectors; 0 until it is known."""
        return self._own.dimensions

    def decide(self, live: Embedder) -> None:
        """Say which model is live."""
        self._live = live
        self._decided.set()

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the model's vectors once it is live; raise ModelUnreachable where another generation is."""
        await self._decided.wait()
        if self._live.generation != self.generation:
            raise ModelUnreachable("another model is live")
        return await self._live.embed(texts)

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Return the model's estimate."""
        return self._own.estimate_ms(texts)


class SwitchingEmbedder:
    """An embedder that hands every call to the process's live model; `set_models` replaces it at once.

    A call that has begun ends with the model it began with. A caller that compares vectors of two calls pins
    the model first (`pin_model`).
    """

    def __init__(self, first: Embedder, note_behind: Callable[[int], None] = lambda _: None) -> None:
        """Begin with this model; `note_behind` is told the generations that texts were not embedded for."""
        self._current = first
        self._beside: Sequence[Embedder] = ()
        self._lacking: Sequence[int] = ()
        self.note_behind = note_behind

    def set_models(self, current: Embedder, beside: Sequence[Embedder] = (), lacking: Sequence[int] = ()) -> None:
        """Ask this model from now on; `lacking`: generations of texts whose model this process has not."""
        self._current, self._beside, self._lacking = current, beside, lacking

    @property
    def current(self) -> Embedder:
        """The live model."""
        return self._current

    @property
    def beside(self) -> Sequence[Embedder]:
        """The models of other generations whose vectors are kept up to date."""
        return self._beside

    @property
    def lacking(self) -> Sequence[int]:
        """The other generations, of which this process has no model."""
        return self._lacking

    @property
    def name(self) -> str:
        """The live model's name."""
        return self._current.name

    @property
    def dimensions(self) -> int:
        """The length of the live model's vectors."""
        return self._current.dimensions

    @property
    def generation(self) -> int:
        """The live generation."""
        return self._current.generation

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the live model's vectors, as it does."""
        return await self._current.embed(texts)

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Return the live model's estimate."""
        return self._current.estimate_ms(texts)
