"""A sentence model behind an OpenAI-compatible endpoint."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import pytest_asyncio
from numpy.typing import NDArray
from pydantic import SecretStr, ValidationError
from starlette.responses import JSONResponse, Response

from embeddings.errors import EmbedderClosed, ModelMismatch, ModelUnreachable
from embeddings.registry import create_embedder
from embeddings.remote import RemoteEmbedder, derive_generation
from embeddings.settings import EmbeddingSettings, Provider, RemoteSettings
from tests.client.loopback import closed_port, everything_in
from tests.embeddings.models import KEY, MODEL, EmbeddingService, embedding_service, numbers, replied


@dataclass
class Time:
    """A clock that moves only by waiting."""

    now: float = 0.0
    waits: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def service() -> Iterator[EmbeddingService]:
    with embedding_service() as running:
        yield running


@pytest.fixture
def time() -> Time:
    return Time()


def settings(url: str, **more: Any) -> RemoteSettings:
    return RemoteSettings(base_url=url, model=MODEL, api_key=SecretStr(KEY), **more)


def embedder_of(url: str, time: Time, **more: Any) -> RemoteEmbedder:
    return RemoteEmbedder(settings(url, **more), sleep=time.sleep, clock=time.clock, chance=lambda: 0.5)


@pytest_asyncio.fixture(loop_scope="session")
async def embedder(service: EmbeddingService, time: Time) -> AsyncIterator[RemoteEmbedder]:
    embedder = embedder_of(service.url, time, batch_texts=4)
    yield embedder
    await embedder.close()


def expected(texts: Sequence[str]) -> NDArray[np.float64]:
    vectors = np.array([numbers(text) for text in texts])
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float64)


async def test_vectors_come_in_the_order_of_the_texts_and_have_unit_length(embedder: RemoteEmbedder) -> None:
    texts = [f"text {n}" for n in range(10)]
    vectors = await embedder.embed(texts)
    assert vectors.shape == (10, 384)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - expected(texts)).max() < 1e-6


async def test_texts_are_sent_some_at_a_time(service: EmbeddingService, embedder: RemoteEmbedder) -> None:
    await embedder.embed([f"text {n}" for n in range(10)])
    assert [len(batch) for batch in service.asked] == [4, 4, 2]
    assert (await embedder.embed([])).shape == (0, 384)


async def test_a_request_holds_no_more_characters_than_it_may(service: EmbeddingService, time: Time) -> None:
    embedder = embedder_of(service.url, time, batch_characters=8192)
    await embedder.embed(["x" * 100_000, "y" * 5000, "z" * 5000, ""])
    assert [[len(text) for text in batch] for batch in service.asked] == [[8192], [5000], [5000, 1]]
    await embedder.close()


async def test_a_busy_service_is_asked_again_when_it_said(
    service: EmbeddingService, embedder: RemoteEmbedder, time: Time
) -> None:
    replies: list[Response | None] = [
        Response(status_code=429, headers={"retry-after": "7"}),
        Response(status_code=503),
        None,
    ]
    service.fault = lambda _seen: replies.pop(0)
    assert (await embedder.embed(["hello"])).shape == (1, 384)
    assert time.waits == [7.0, 0.5]


async def test_back_off_ends_with_the_deadline(service: EmbeddingService, embedder: RemoteEmbedder, time: Time) -> None:
    service.fault = lambda _seen: Response(status_code=500)
    with pytest.raises(ModelUnreachable):
        await embedder.embed(["hello"])
    assert time.waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert time.now < 30


async def test_a_wait_longer_than_the_deadline_is_not_begun(
    service: EmbeddingService, embedder: RemoteEmbedder, time: Time
) -> None:
    service.fault = lambda _seen: Response(status_code=429, headers={"retry-after": "3600"})
    with pytest.raises(ModelUnreachable):
        await embedder.embed(["hello"])
    assert time.waits == []


async def test_a_refused_key_is_told_at_once_and_not_shown(
    service: EmbeddingService, embedder: RemoteEmbedder, time: Time
) -> None:
    service.fault = lambda _seen: Response("a text nobody may see", status_code=401)
    with pytest.raises(ModelMismatch, match="unauthorized") as caught:
        await embedder.load()
    assert KEY not in everything_in(caught.value)
    assert "nobody may see" not in everything_in(caught.value)
    assert time.waits == []


def _with(change: Any) -> Any:
    """A reply to two texts, changed."""

    def fault(seen: Any) -> Response:
        reply = replied(seen.json["input"])
        change(reply)
        return JSONResponse(reply)

    return fault


@pytest.mark.parametrize(
    "fault",
    [
        _with(lambda reply: reply["data"].pop()),
        _with(lambda reply: reply["data"][0].update(index=0)),
        _with(lambda reply: reply["data"][0].update(index=True)),
        _with(lambda reply: reply["data"][0].update(index=7)),
        _with(lambda reply: reply["data"][0].update(embedding=[0.0] * 384)),
        _with(lambda reply: reply["data"][0].update(embedding=["1"] * 384)),
        _with(lambda reply: reply["data"][0].update(embedding=[1.0] * 1536)),
        _with(lambda reply: reply["data"][0].update(embedding=[1e308] * 384)),
        _with(lambda reply: reply["data"].append("nothing")),
        _with(lambda reply: reply.pop("data")),
    ],
)
async def test_a_reply_that_does_not_fit_is_never_taken_for_vectors(
    service: EmbeddingService, embedder: RemoteEmbedder, fault: Any
) -> None:
    service.fault = fault
    with pytest.raises(ModelMismatch):
        await embedder.embed(["one", "two"])


async def test_the_dimension_of_a_remote_model_is_found_and_kept(service: EmbeddingService, time: Time) -> None:
    service.dimensions = 1024
    embedder = embedder_of(service.url, time)
    assert embedder.dimensions == 0
    await embedder.load()
    assert (embedder.dimensions, (await embedder.embed(["one"])).shape) == (1024, (1, 1024))
    service.dimensions = 768
    with pytest.raises(ModelMismatch, match="have 768 numbers, not 1024"):
        await embedder.embed(["one"])
    await embedder.close()


async def test_a_remote_model_is_asked_for_the_dimension_of_the_settings(service: EmbeddingService, time: Time) -> None:
    service.dimensions = 4001
    asked = embedder_of(service.url, time, dimensions=512)
    assert (await asked.embed(["one"])).shape == (1, 512)
    own = embedder_of(service.url, time)
    with pytest.raises(ModelMismatch, match=r"4001 numbers, 4000 is the most: set remote\.dimensions"):
        await own.load()
    assert asked.generation != own.generation
    for one in (asked, own):
        await one.close()


async def test_a_service_that_is_away_is_no_reason_not_to_start(time: Time) -> None:
    embedder = embedder_of(closed_port(), time)
    await embedder.load()
    with pytest.raises(ModelUnreachable):
        await embedder.embed(["hello"])
    await embedder.close()


async def test_a_socks_proxy_that_cannot_be_used_is_a_reason_not_to_start(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    embedder = embedder_of("https://models.test", time)
    with pytest.raises(ModelMismatch, match=r"ALL_PROXY.*socksio"):
        await embedder.load()
    await embedder.close()
    assert time.waits == []


async def test_a_closed_embedder_answers_nobody(service: EmbeddingService, time: Time) -> None:
    embedder = embedder_of(service.url, time)
    await embedder.embed(["hello"])
    await embedder.close()
    with pytest.raises(EmbedderClosed):
        await embedder.embed(["hello"])


async def test_memory_stays_flat_however_many_texts_are_embedded(service: EmbeddingService, time: Time) -> None:
    embedder = embedder_of(service.url, time)
    texts = [f"text {n % 50}" for n in range(640)]
    service.fault = lambda _seen: service.asked.clear() or service.server.seen.clear()  # type: ignore[func-returns-value]  # both are None
    await embedder.embed(texts)
    before = psutil.Process().memory_info().rss
    for _ in range(5):
        await embedder.embed(texts)
    assert psutil.Process().memory_info().rss - before < 30 * 1024 * 1024
    await embedder.close()


def test_models_have_generations_of_their_own() -> None:
    names = [f"model-{n}" for n in range(50)]
    generations = {derive_generation(name) for name in names}
    assert len(generations) == 50
    assert all(1000 <= generation < 32_000 for generation in generations)
    assert derive_generation(MODEL) == derive_generation(MODEL)


def test_settings_choose_the_remote_model(tmp_path: Path) -> None:
    chosen = EmbeddingSettings(provider=Provider.REMOTE, remote=settings("https://models.example.com/v1"))
    assert isinstance(create_embedder(chosen, tmp_path), RemoteEmbedder)


@pytest.mark.parametrize("wrong", [{"base_url": "models.example.com"}, {"base_url": "http://x.com"}, {"model": " "}])
def test_a_remote_model_without_an_address_or_a_name_is_refused_at_the_start(wrong: dict[str, str]) -> None:
    remote = RemoteSettings(**{"base_url": "https://models.example.com", "model": MODEL, **wrong})
    with pytest.raises(ValidationError, match=r"remote\.(base_url|model)"):
        EmbeddingSettings(provider=Provider.REMOTE, remote=remote)
