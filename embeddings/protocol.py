"""The protocol of embedders; the one module of this package that the store may import."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns texts into vectors that are compared by their dot product."""

    @property
    def name(self) -> str:
        """The model and its variant, for people to read."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        ...

    @property
    def generation(self) -> int:
        """A small stable number for model and variant: vectors of two generations are never compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector a text, in order: shape (n, dimensions), float32, unit length, never NaN.

        Runs off the event loop. Texts longer than the model's window are cut at it.
        Raises EmbeddingError when no vectors can be had.
        """
        ...

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Say how long `embed` would take for these texts from now, in milliseconds, without doing it."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """An embedder that can also say how long texts are to its model's tokenizer."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, uncut. Takes time on long texts: not for the event loop."""
        ...


class Reranker(Protocol):
    """Reads a question and a text together and says how well the text answers it."""

    @property
    def name(self) -> str:
        """The model, for people to read."""
        ...

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one score a text, in order: shape (n,), float32, from 0 to 1, more is better, never NaN.

        Runs off the event loop; who is cancelled while it waits stops the work. Texts longer than the model's window
        are cut at it. Raises EmbeddingError when no scores can be had.
        """
        ...
