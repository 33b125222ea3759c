"""Sentence models in this process, by fastembed: the bundled one, one of a folder, one of the hub."""

import asyncio
import difflib
import hashlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from embeddings.batching import group_by_length
from embeddings.errors import EmbedderClosed, ModelMismatch, ModelUnreachable
from embeddings.hub import ModelKind, fetch_model
from embeddings.minilm.reference import LEAST_COSINE, TEXTS, least_cosine
from embeddings.model_files import MAX_TOKENS, model_folder
from embeddings.pace import TokenPace
from embeddings.readable_text import clean_text, is_latin
from embeddings.remote import derive_generation
from embeddings.settings import MODEL_FILE, MOST_DIMENSIONS, EmbeddingSettings, Variant
from embeddings.token_counts import TokenCounts

if TYPE_CHECKING:
    from fastembed import TextEmbedding

_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_DIMENSIONS = 384
#: Numbers are never reused: a stored vector's generation says for ever what made it. The 8-bit variants share one:
#: their vectors are as near to each other as one text's of one variant, in two batches.
_GENERATIONS = {Variant.LEAN: 1, Variant.DYNAMIC: 1, Variant.WEIGHTS: 2}
#: More characters than 256 tokens of any written language hold; the rest is not even tokenised.
_MAX_CHARACTERS = 8192
#: Most tokens of one model run: larger batches take longer for each text.
_BATCH_TOKENS = 256
#: Bytes of a model's weights, at the beginning and at the end, by which its files are told apart.
_HASHED_BYTES = 1_048_576
#: A vector that is shorter has no direction.
_SHORTEST = 1e-12


class InProcessEmbedder(ABC):
    """A sentence model in this process, on one thread of its own; its dimension is found when it is loaded.

    Make it anywhere, but load it (`load`, or the first `embed`) only in the process that uses it: a loaded
    model does not survive a fork. Several calls at once take turns, one run of the model each.
    """

    #: The length of each vector; 0 until the model is loaded.
    dimensions: int = 0

    def __init__(self, settings: EmbeddingSettings, *, name: str, generation: int) -> None:
        """Keep the settings, and the model's name and generation."""
        self.name = name
        self.generation = generation
        self._fastembed_name = _MODEL
        self._settings = settings
        self._model: TextEmbedding | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._tokenizer: Tokenizer | None = None
        self._closed, self._closing = False, threading.Event()
        self._pace = TokenPace(MAX_TOKENS)
        self._waiting_ms = 0.0
        self._calls, self._call_ended = 0, asyncio.Event()
        self._counts = TokenCounts(self._count_new)

    async def load(self) -> None:
        """Read the model into memory (seconds at the very first start) and check that it is the right one.

        Raises ModelMissing, ModelMismatch, ModelUnreachable, EmbedderClosed. Loading twice is loading once.
        """
        await asyncio.get_running_loop().run_in_executor(self._executor(), self._loaded)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape (len(texts), dimensions), in order; a text is cut at the model's window.

        Raises as `load` does.
        """
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        takes_ms = self._pace.estimate_ms(texts)
        self._waiting_ms += takes_ms
        self._calls += 1
        try:
            return await self._embed(list(texts), self._executor())
        finally:
            self._waiting_ms -= takes_ms
            self._calls -= 1
            self._call_ended.set()

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Return how many milliseconds these texts would take, by their characters and the pace measured so far.

        Includes the time of the calls that are still waiting or running.
        """
        return self._waiting_ms + self._pace.estimate_ms(texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each text's number of tokens, uncut, without the two that frame it; blocks for long texts."""
        return self._counts.count_tokens(texts)

    def _count_new(self, texts: Sequence[str]) -> list[int]:
        if self._tokenizer is None:
            folder = self._find_folder()
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
        readable = [text.encode(errors="replace").decode() for text in texts]
        return [len(found) for found in self._tokenizer.encode_batch_fast(readable, add_special_tokens=False)]

    async def close(self) -> None:
        """Finish running calls, then release the model and its thread."""
        self._closed = True
        self._closing.set()
        while self._calls:
            self._call_ended.clear()
            await self._call_ended.wait()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.shutdown)
        self._thread = self._model = None

    def _executor(self) -> ThreadPoolExecutor:
        if self._closed:
            raise EmbedderClosed(f"{self.name} was closed")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedder")
        return self._thread

    def _loaded(self) -> "TextEmbedding":
        if self._model is None:
            folder = self._find_folder()
            model = _open_model(folder, self._settings.threads, self._fastembed_name)
            self._check(model, folder)
            self._model = model
        return self._model

    @abstractmethod
    def _find_folder(self) -> Path:
        """Return the folder with the model and its tokenizer. Raises ModelMissing."""

    def _check(self, model: "TextEmbedding", folder: Path) -> None:
        """Find the model's dimension. Raises ModelMismatch where it is not the right model."""
        vectors, _ = _embed_batch(model, [TEXTS[0]])
        found = vectors.shape[1]
        if not 1 <= found <= MOST_DIMENSIONS:
            raise ModelMismatch(f"{folder} gives vectors of {found} numbers; {MOST_DIMENSIONS} is the most")
        self.dimensions = found

    async def _embed(self, texts: list[str], thread: ThreadPoolExecutor) -> NDArray[np.float32]:
        """Embed batch by batch: between two of them other calls have the thread."""
        loop = asyncio.get_running_loop()
        model, readable, batches, found, took_ms = await loop.run_in_executor(thread, self._embed_first, texts)
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        vectors[batches[0]] = found
        for batch in batches[1:]:
            vectors[batch], ms = await loop.run_in_executor(thread, _embed_batch, model, [readable[i] for i in batch])
            took_ms += ms
        self._pace.learn(texts, took_ms)
        return vectors

    def _embed_first(
        self, texts: list[str]
    ) -> tuple["TextEmbedding", list[str], list[list[int]], NDArray[np.float32], float]:
        """Return the model, the texts as it reads them, batches of their indexes, and the first one's vectors and time.

        A question, which is one batch, takes one way to the thread and back.
        """
        model = self._loaded()
        readable = [clean_text(text, _MAX_CHARACTERS) for text in texts]
        batches = [[0]]
        if len(readable) > 1:
            lengths = [model.token_count(text) for text in readable]
            batches = list(group_by_length(lengths, _BATCH_TOKENS))
        return model, readable, batches, *_embed_batch(model, [readable[i] for i in batches[0]])


class LocalEmbedder(InProcessEmbedder):
    """The model all-MiniLM-L6-v2, which understands English, from files of installed packages."""

    understands: str = "english"
    dimensions: int = _DIMENSIONS

    def __init__(self, settings: EmbeddingSettings, cache: Path) -> None:
        """Keep the settings; `cache` is the folder in which the model's files are assembled."""
        name = f"all-MiniLM-L6-v2 ({settings.variant})"
        super().__init__(settings, name=name, generation=_GENERATIONS[settings.variant])
        self._cache = cache

    def can_read(self, text: str) -> bool:
        """Return whether a text is in Latin letters: of others the model knows some single letters, no words."""
        return is_latin(text)

    def _find_folder(self) -> Path:
        return model_folder(self._settings, self._cache)

    def _check(self, model: "TextEmbedding", folder: Path) -> None:
        cosine = least_cosine(np.concatenate([_embed_batch(model, [text])[0] for text in TEXTS]))
        if not cosine >= LEAST_COSINE:
            raise ModelMismatch(f"{folder} is not {self.name} (cosine {cosine:.2f}); remove it to make it anew")


class FolderEmbedder(InProcessEmbedder):
    """A sentence model of the operator's, from a folder with `model.onnx` and its tokenizer; texts are mean-pooled.

    Its generation follows from the files, so another model in the same folder is another one.
    """

    def __init__(self, settings: EmbeddingSettings, folder: Path) -> None:
        """Keep the settings, which have checked the folder."""
        self._folder = folder
        super().__init__(settings, name=folder.name, generation=derive_generation(hash_model(folder)))

    def _find_folder(self) -> Path:
        return self._folder


class HubEmbedder(InProcessEmbedder):
    """A sentence model of fastembed's list, by its name there: fetched once from the hub into the folder for models."""

    def __init__(self, settings: EmbeddingSettings, cache: Path) -> None:
        """Keep the settings; `cache` is the folder for models."""
        super().__init__(settings, name=settings.model, generation=derive_generation(f"fastembed:{settings.model}"))
        self._cache = cache
        self._fastembed_name = settings.model

    def _find_folder(self) -> Path:
        listed = {one["model"].lower(): one for one in _import_fastembed().list_supported_models()}
        found = listed.get(self.name.lower())
        if found is None:
            near = difflib.get_close_matches(self.name.lower(), listed, n=3, cutoff=0.3)
            names = ", ".join(listed[one]["model"] for one in near) or "see the list of fastembed"
            raise ModelMismatch(f"{self.name} is not in fastembed's list; near it: {names}")
        repository, files = str(found["sources"]["hf"]), [found["model_file"], *found["additional_files"]]
        if (folder := _find_cached(repository, self._cache, files)) is not None:
            return folder
        self._cache.mkdir(parents=True, exist_ok=True)
        if wrong := fetch_model(ModelKind.SENTENCES, self.name, self._cache, self._closing):
            raise ModelUnreachable(f"{self.name} cannot be had: {wrong}")
        if (folder := _find_cached(repository, self._cache, files)) is None:
            raise ModelUnreachable(f"{self.name} was fetched, and is not in {self._cache}")
        return folder


def _find_cached(repository: str, cache: Path, files: Sequence[str]) -> Path | None:
    """Return the folder of a model that was fetched whole; None where it is not in the cache."""
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - after HF_HUB_OFFLINE is set
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415

    try:
        folder = Path(snapshot_download(repository, cache_dir=cache, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    return folder if all((folder / name).is_file() for name in files) else None


def hash_model(folder: Path) -> str:
    """Return a digest of a model's tokenizer, and of the size, beginning and end of its weights."""
    digest = hashlib.sha256((folder / "tokenizer.json").read_bytes())
    with (folder / MODEL_FILE).open("rb") as weights:
        size = weights.seek(0, os.SEEK_END)
        digest.update(size.to_bytes(8, "big"))
        for start in (0, max(0, size - _HASHED_BYTES)):
            weights.seek(start)
            digest.update(weights.read(_HASHED_BYTES))
    return digest.hexdigest()


def _embed_batch(model: "TextEmbedding", texts: list[str]) -> tuple[NDArray[np.float32], float]:
    """Return the vectors of one batch, and the milliseconds that they took.

    Processor time of this thread: other load on the machine must not make the model look slow, because recall would
    then leave the newest texts without a vector.
    """
    start = time.thread_time()
    vectors = np.asarray(list(model.embed(texts, batch_size=len(texts))), dtype=np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _SHORTEST)  # not every model does
    return vectors, (time.thread_time() - start) * 1000


def _import_fastembed() -> "type[TextEmbedding]":
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when fastembed is imported: it must never look for a hub
    from fastembed import TextEmbedding  # noqa: PLC0415 - a second's import, only where a model is loaded

    return TextEmbedding


def _open_model(folder: Path, threads: int, name: str) -> "TextEmbedding":
    try:
        # The memory arena stays small because batches do: it is flat, and a tenth faster than none.
        return _import_fastembed()(
            name, cache_dir=str(folder.parent), specific_model_path=str(folder), threads=threads, cuda=False
        )
    except Exception as error:  # fastembed and onnxruntime raise their own types for a damaged file
        remedy = (
            "remove it to make it anew"
            if name == _MODEL and folder.parent.name == "models"
            else "its files are damaged"
        )
        raise ModelMismatch(f"{folder} cannot be loaded; {remedy}") from error
