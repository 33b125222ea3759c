"""The protocol of embedders; the one module of this package that the store may import."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class Embedder(Protocol):
    """A model that turns texts into vectors, which are compared by their dot product."""

    @property
    def name(self) -> str:
        """The name of model and variant, for people to read."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        ...

    @property
    def generation(self) -> int:
        """A small stable number for model and variant: vectors of two generations are never compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector for each text, in order: shape (n, dimensions), float32, unit length, never NaN.

        Runs off the event loop. Texts longer than the model's window are cut at it.
        Raises EmbeddingError when the model gives no vectors.
        """
        ...

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Return how many milliseconds `embed` would take for these texts from now, without embedding them."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """An embedder that also counts the tokens of texts by its model's tokenizer."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each text's number of tokens, uncut. Takes time on long texts: not for the event loop."""
        ...


@runtime_checkable
class ReadsSomeScripts(Protocol):
    """An embedder whose model knows the words of some scripts only.

    It gives vectors for all texts, but those of texts that it cannot read are near to each other.
    """

    def can_read(self, text: str) -> bool:
        """Return whether the model knows the words of this text's script."""
        ...


@runtime_checkable
class UnderstandsSomeLanguages(Protocol):
    """An embedder whose model understands some languages only: texts in others are found by their words."""

    @property
    def understands(self) -> str:
        """The languages, by their English names in lower case, such as `english`."""
        ...


@runtime_checkable
class SwitchesModels(Protocol):
    """An embedder whose model an operator may replace while the process runs."""

    @property
    def current(self) -> Embedder:
        """The model that is asked now."""
        ...

    @property
    def beside(self) -> Sequence[Embedder]:
        """The models of other generations whose vectors are kept up to date."""
        ...

    @property
    def lacking(self) -> Sequence[int]:
        """The other generations, of which this process has no model."""
        ...

    @property
    def note_behind(self) -> Callable[[int], None]:
        """Is told a generation that a text got no vector of; returns at once."""
        ...


def pin_model(embedder: Embedder) -> Embedder:
    """Return the model that an embedder asks now: its generation does not change, as that of the embedder may."""
    pinned: Embedder = getattr(embedder, "current", embedder)  # to ask for a protocol is slow
    return pinned


class Reranker(Protocol):
    """A model that reads a question and a text together and scores how well the text answers it."""

    @property
    def name(self) -> str:
        """The model's name, for people to read."""
        ...

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one score for each text, in order: shape (n,), float32, from 0 to 1, more is better, never NaN.

        Runs off the event loop; cancelling the call stops the work. Texts longer than the model's window are cut at
        it. Raises EmbeddingError when the model gives no scores.
        """
        ...
