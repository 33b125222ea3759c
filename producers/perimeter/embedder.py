"""The perimeter's own embedder: vectors for plugins that search by them. Its model is loaded at the first text."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from embeddings.errors import EmbeddingError, ModelUnreachable
from embeddings.protocol import Embedder
from producers.perimeter.errors import EmbedderUnavailable, EmbedderUnusable
from producers.plugin.wire import Capability, MemoryWrite

#: Seconds that a call waits for the model to be loaded; loading goes on behind it.
LOAD_S = 20.0

log = structlog.get_logger("afterturn.perimeter")


class LazyEmbedder:
    """The embedder that `load` returns, loaded when the first text comes. Belongs to one event loop.

    A load that failed is tried again at the next text. The caller that made the model closes it, after `aclose`.
    """

    def __init__(self, load: Callable[[], Awaitable[Embedder]], *, patience_s: float = LOAD_S) -> None:
        self._load, self._patience_s = load, patience_s
        self._loading: asyncio.Future[Embedder] | None = None

    async def embed(self, text: str) -> tuple[float, ...]:
        """Return the text's vector, of unit length.

        Raises EmbedderUnavailable while the model is loaded or cannot be reached, EmbedderUnusable.
        """
        try:
            [vector] = await (await self._find_model()).embed([text])
        except ModelUnreachable as error:
            raise self._note(error, EmbedderUnavailable()) from None
        except EmbeddingError as error:
            raise self._note(error, EmbedderUnusable()) from None
        return tuple(vector.tolist())

    async def aclose(self) -> None:
        """End a load that is under way."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])

    async def _find_model(self) -> Embedder:
        """Return the loaded model; calls that come while it is loaded share one load."""
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.ensure_future(self._load())
        done, _ = await asyncio.wait([self._loading], timeout=self._patience_s)
        if not done:
            raise EmbedderUnavailable
        return self._loading.result()

    def _note(self, error: EmbeddingError, told: EmbedderUnavailable) -> EmbedderUnavailable:
        log.warning("perimeter_embedder_failed", error=type(error).__name__, reason=str(error))
        return told


async def add_vector(write: MemoryWrite, promised: frozenset[str], embedder: LazyEmbedder | None) -> MemoryWrite:
    """Return the write with its text's vector, where the plugin takes one, an embedder is here, and it has none.

    Raises EmbedderUnavailable.
    """
    if embedder is None or write.embedding or Capability.EMBEDDING not in promised:
        return write
    return write.model_copy(update={"embedding": await embedder.embed(write.content)})
