"""A sentence model behind an OpenAI-compatible `/v1/embeddings`: the same protocol as the local one, by HTTP.

Rules for URLs, redirects and sizes: `endpoint`. A request that failed for a passing reason is tried again with
back-off until the call's deadline. A reply is accepted only when it is complete: as many vectors as texts, each index
once, the right length, finite numbers.
"""

import asyncio
import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from embeddings.endpoint import Endpoint, EndpointError, EndpointLimits
from embeddings.errors import EmbedderClosed, ModelMismatch, ModelUnreachable
from embeddings.pace import TokenPace
from embeddings.retry import Backoff, Retry
from embeddings.settings import MOST_DIMENSIONS, RemoteSettings

#: Longer than the window of most sentence models; the rest is not sent.
MAX_CHARACTERS = 8192
MAX_TOKENS = 2048
#: Waits between tries, in seconds: this, then twice as long each time, half to one and a half times that.
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 8.0
#: Generations below are the local model's; a remote one's follows from the model's name.
FIRST_GENERATION, GENERATIONS = 1000, 31_000
#: Bytes of JSON around the texts of a request, and the most bytes of a character, escapes included.
ENVELOPE_BYTES, BYTES_A_CHARACTER = 65_536, 6
#: The most bytes of a reply for each text of a request: a vector of MOST_DIMENSIONS numbers.
REPLY_BYTES_A_TEXT = 131_072
#: The text that is embedded in place of an empty one, which services refuse.
BLANK = " "


class RemoteEmbedder:
    """An external model; make it anywhere, use and close it on one event loop.

    `dimensions`, the length of each vector, is that of the first reply, and 0 before it.
    """

    dimensions: int = 0

    def __init__(
        self,
        settings: RemoteSettings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Keep the settings; no connection is opened before the first call."""
        self.name = f"{settings.model} (remote)"
        self.generation = derive_generation(settings.model, settings.dimensions)
        self._settings = settings
        self._clock = clock
        backoff = Backoff(FIRST_WAIT_S, factor=2.0, longest_s=LONGEST_WAIT_S, chance=chance)
        self._retry = Retry(backoff, sleep=sleep, clock=clock)
        self._endpoint: Endpoint | None = None
        self._closed = False
        self._pace = TokenPace(MAX_TOKENS)

    async def load(self) -> None:
        """Request one vector, to check at the start that URL, key and model fit.

        Raises ModelMismatch, EmbedderClosed. A service that cannot be reached now is no error.
        """
        try:
            await self.embed([BLANK])
        except ModelUnreachable:
            return

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape (len(texts), dimensions), in order; a text is sent up to its 8192nd character.

        Raises ModelUnreachable when the deadline passes without an answer, ModelMismatch when the service refuses
        or answers something else than its vectors, EmbedderClosed.
        """
        batches = list[NDArray[np.float32]]()
        deadline = self._clock() + self._settings.deadline_seconds
        start = time.perf_counter()
        for batch in _split_batches(texts, self._settings):
            vectors = _parse_vectors(await self._ask(batch, deadline), len(batch))
            self._check_dimension(vectors.shape[1])
            batches.append(vectors)
        self._pace.learn(texts, (time.perf_counter() - start) * 1000)
        return np.concatenate(batches) if batches else np.empty((0, self.dimensions), dtype=np.float32)

    def expect_dimension(self, dimension: int) -> None:
        """Refuse vectors of another dimension from the first reply on."""
        self.dimensions = self.dimensions or dimension

    def _check_dimension(self, found: int) -> None:
        """Keep the dimension of the first reply. Raises ModelMismatch where a later one, or what was asked, differs."""
        expected = self.dimensions or self._settings.dimensions or found
        if found != expected or found > MOST_DIMENSIONS:
            wanted = f"not {expected}" if found != expected else f"{MOST_DIMENSIONS} is the most: set remote.dimensions"
            raise ModelMismatch(f"the model's vectors have {found} numbers, {wanted}")
        self.dimensions = found

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Return how many milliseconds these texts would take, by their characters and the pace measured so far."""
        return self._pace.estimate_ms(texts)

    async def close(self) -> None:
        """Close the connections; later calls are refused."""
        self._closed = True
        if self._endpoint is not None:
            await self._endpoint.close()

    async def _ask(self, batch: Sequence[str], deadline: float) -> Mapping[str, object]:
        try:
            return await self._retry.call(partial(self._once, batch), _retry_after, deadline=deadline)
        except EndpointError as error:
            failure = error
        if not failure.passing:
            raise ModelMismatch(f"{self.name} cannot be asked: {failure}")
        raise ModelUnreachable(f"{self.name} does not answer: {failure}")

    async def _once(self, batch: Sequence[str]) -> Mapping[str, object]:
        body: dict[str, object] = {
            "model": self._settings.model,
            "input": list(batch),
            "encoding_format": "float",
        }
        if self._settings.dimensions:
            body["dimensions"] = self._settings.dimensions
        return await self._open().post(body)

    def _open(self) -> Endpoint:
        if self._closed:
            raise EmbedderClosed(f"{self.name} was closed")
        if self._endpoint is None:
            settings = self._settings
            limits = EndpointLimits(
                request_bytes=settings.batch_characters * BYTES_A_CHARACTER + ENVELOPE_BYTES,
                reply_bytes=settings.batch_texts * REPLY_BYTES_A_TEXT + ENVELOPE_BYTES,
                seconds=settings.timeout_seconds,
            )
            self._endpoint = Endpoint(settings.url, settings.api_key.get_secret_value(), limits)
        return self._endpoint


def derive_generation(model: str, asked: int = 0) -> int:
    """Return the generation of a model's vectors, which follows from its name and the dimension it is asked for.

    1000..31999; two names share one by a chance of one in 31,000.
    """
    digest = hashlib.sha256(f"{model}:{asked}".encode()).digest()
    return FIRST_GENERATION + int.from_bytes(digest[:8], "big") % GENERATIONS


def _split_batches(texts: Sequence[str], settings: RemoteSettings) -> Iterator[list[str]]:
    """Yield the batches of the requests: texts as they are sent."""
    batch, characters = list[str](), 0
    for text in texts:
        sent = text[:MAX_CHARACTERS] if text.strip() else BLANK
        if batch and (len(batch) == settings.batch_texts or characters + len(sent) > settings.batch_characters):
            yield batch
            batch, characters = [], 0
        batch.append(sent)
        characters += len(sent)
    if batch:
        yield batch


def _parse_vectors(reply: Mapping[str, object], count: int) -> NDArray[np.float32]:
    """Return the vectors of a reply, by index and at unit length. Raises ModelMismatch."""
    data = reply.get("data")
    if not isinstance(data, list) or len(data) != count:
        raise ModelMismatch(f"the reply holds not {count} vectors")
    found: list[object] = [None] * count
    for item in data:
        index = item.get("index") if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < count or found[index] is not None:
            raise ModelMismatch("the reply numbers its vectors wrongly")
        found[index] = item.get("embedding")
    vectors = [_decode_numbers(vector) for vector in found]
    if len({len(vector) for vector in vectors}) != 1:
        raise ModelMismatch("the reply holds vectors of several lengths")
    return _normalise_rows(vectors)


def _decode_numbers(vector: object) -> NDArray[np.float64]:
    if not isinstance(vector, list) or not vector or not all(type(number) in {int, float} for number in vector):
        raise ModelMismatch("the reply holds something else than numbers")
    return np.asarray(vector, dtype=np.float64)


def _normalise_rows(found: Sequence[NDArray[np.float64]]) -> NDArray[np.float32]:
    vectors = np.stack(found)
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise ModelMismatch("the reply holds a vector without a direction")
    return np.asarray(vectors / lengths, dtype=np.float32)


def _retry_after(error: Exception) -> float | None:
    """Return after how many seconds a failed call may be tried again; None: a retry would fail, too."""
    return (error.retry_after or 0.0) if isinstance(error, EndpointError) and error.passing else None
