"""A cross-encoder in this process, by fastembed: from a folder, or from the hub by name."""

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from embeddings.errors import EmbedderClosed, RerankerUnusable
from embeddings.hub import ModelKind, fetch_model
from embeddings.readable_text import clean_text
from embeddings.settings import RerankerSettings, find_model_file

if TYPE_CHECKING:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

#: Pairs of one model run; a cancelled call ends between two runs.
BATCH = 4
#: More characters than the windows of most models hold; the rest is not even tokenised.
MAX_CHARACTERS = 4096

_WARM = ("Where does she live?", ["She lives in a small house by the sea.", "Rain."])


class CrossEncoder:
    """A cross-encoder on one thread of its own; make it anywhere, load it only in the process that uses it.

    Several calls at once wait for each other.
    """

    def __init__(self, settings: RerankerSettings, cache: Path) -> None:
        """Keep the settings; `cache` is the folder for models from the hub."""
        self.name = settings.model
        self._settings = settings
        self._cache = cache
        self._model: TextCrossEncoder | None = None
        self._wrong: RerankerUnusable | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reranker")
        self._closing = threading.Event()

    async def load(self) -> None:
        """Read the model into memory and run it once; a model from the hub is downloaded at the very first start.

        Raises RerankerUnusable, EmbedderClosed. Loading twice is loading once.
        """
        await self.score(*_WARM)

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return scores from 0 to 1, shape (len(texts),), in order.

        Raises RerankerUnusable, EmbedderClosed.
        """
        if self._closing.is_set():
            raise EmbedderClosed(f"{self.name} was closed")
        gone = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._score, question, list(texts), gone)
        finally:
            gone.set()

    async def close(self) -> None:
        """Finish the current model run, then release the model and its thread."""
        self._closing.set()
        await asyncio.to_thread(self._thread.shutdown)
        self._model = None

    def _score(self, question: str, texts: list[str], gone: threading.Event) -> NDArray[np.float32]:
        model = self._loaded()
        pairs = [(clean_text(question, MAX_CHARACTERS), clean_text(text, MAX_CHARACTERS)) for text in texts]
        scores = np.zeros(len(texts), dtype=np.float32)
        # Padding costs as much as text, so texts of similar length share a run.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for at in range(0, len(order), BATCH):
            if gone.is_set() or self._closing.is_set():
                raise EmbedderClosed("the call was cancelled")
            batch = order[at : at + BATCH]
            scores[batch] = self._run(model, [pairs[index] for index in batch])
        return scores

    def _run(self, model: "TextCrossEncoder", pairs: list[tuple[str, str]]) -> NDArray[np.float32]:
        try:
            logits = np.array(list(model.rerank_pairs(pairs, batch_size=len(pairs))), dtype=np.float64)
        except Exception as error:  # noqa: BLE001 - onnxruntime's own types, whose words may hold the texts
            raise RerankerUnusable(f"{self.name} cannot be run: {type(error).__name__}") from None
        if logits.shape != (len(pairs),) or not np.isfinite(logits).all():
            raise RerankerUnusable(f"{self.name} answers what is no score")
        return (0.5 * (1 + np.tanh(logits / 2))).astype(np.float32)

    def _loaded(self) -> "TextCrossEncoder":
        if self._wrong is not None:
            raise self._wrong
        if self._model is None:
            folder = self._settings.folder
            try:
                self._model = _of_folder(folder, self._settings.threads) if folder else self._of_hub()
            except RerankerUnusable as error:
                self._wrong = error  # not tried again with every question: a restart does
                raise
        return self._model

    def _of_hub(self) -> "TextCrossEncoder":
        """Return a model from the hub; another process downloads it, because this one runs with HF_HUB_OFFLINE."""
        try:
            return _open_cross_encoder(self.name, self._settings.threads, cache=self._cache)
        except RerankerUnusable:
            self._fetch()
        return _open_cross_encoder(self.name, self._settings.threads, cache=self._cache)

    def _fetch(self) -> None:
        if wrong := fetch_model(ModelKind.CROSS_ENCODER, self.name, self._cache, self._closing):
            raise RerankerUnusable(f"{self.name} cannot be had: {wrong}")


def _of_folder(folder: Path, threads: int) -> "TextCrossEncoder":
    """Return the model in a folder, registered with fastembed under the folder's path."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from fastembed.common.model_description import ModelSource  # noqa: PLC0415 - as below
    from fastembed.rerank.cross_encoder import TextCrossEncoder  # noqa: PLC0415 - as below

    name = str(folder)
    try:
        if not any(one["model"].lower() == name.lower() for one in TextCrossEncoder.list_supported_models()):
            TextCrossEncoder.add_custom_model(name, ModelSource(hf=name), model_file=find_model_file(folder))
    except ValueError as error:
        raise RerankerUnusable(f"{folder} {error}") from None
    return _open_cross_encoder(name, threads, folder=name)


def _open_cross_encoder(
    name: str, threads: int, *, cache: Path | None = None, folder: str | None = None
) -> "TextCrossEncoder":
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when fastembed is imported: it must never look for a hub here
    from fastembed.rerank.cross_encoder import TextCrossEncoder  # noqa: PLC0415 - a second's import, only where wanted

    try:
        return TextCrossEncoder(
            name,
            cache_dir=None if cache is None else str(cache),
            threads=threads,
            cuda=False,
            specific_model_path=folder,
        )
    except Exception as error:  # fastembed and onnxruntime raise their own types
        raise RerankerUnusable(f"{name} cannot be loaded: {type(error).__name__}") from error
