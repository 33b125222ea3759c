"""A sentence model by its name: fetched once from the hub, then needs none; a hub that is away is told clearly."""

from pathlib import Path

import numpy as np
import pytest

from embeddings import hub
from embeddings.errors import ModelMismatch, ModelUnreachable
from embeddings.local import HubEmbedder
from embeddings.registry import create_embedder
from embeddings.settings import EmbeddingSettings
from tests.client.loopback import closed_port
from tests.embeddings.hubs import hub_of
from tests.embeddings.sentence_models import make_sentence_model

NAME = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
#: Where fastembed's list says that it is, and the name of its graph there.
REPOSITORY, GRAPH = "Qdrant/paraphrase-multilingual-MiniLM-L12-v2-onnx-Q", "model_optimized.onnx"
WORDS = (("train", "zug"), ("late", "spät"), ("soup", "suppe"))
#: Fewer than the list says: the dimension is found.
DIMENSIONS = 24


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = make_sentence_model(tmp_path / "published", WORDS, dimensions=DIMENSIONS)
    return (folder / "model.onnx").rename(folder / GRAPH).parent


def embedder_in(data: Path, name: str = NAME) -> HubEmbedder:
    embedder = create_embedder(EmbeddingSettings(model=name), data)
    assert isinstance(embedder, HubEmbedder)
    return embedder


async def test_a_model_is_fetched_once_and_then_needs_no_hub(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hub_of(REPOSITORY, model) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        first = embedder_in(tmp_path)
        assert first.dimensions == 0
        await first.load()
        question, train, soup = await first.embed(["train late", "Zug spät", "Suppe"])
        assert (first.dimensions, question.shape) == (DIMENSIONS, (DIMENSIONS,))
        assert np.linalg.norm(question) == pytest.approx(1)
        assert question @ train > 0.99
        assert question @ soup < 0.5
        assert first.count_tokens(["train late soup"]) == [3]
        assert any(seen.path.endswith(GRAPH) for seen in server.seen)
        await first.close()
    monkeypatch.setenv("HF_ENDPOINT", closed_port())
    again = embedder_in(tmp_path)
    assert again.generation == first.generation
    assert (await again.embed(["Zug spät"]))[0] == pytest.approx(train)
    await again.close()


async def test_a_hub_that_does_not_answer_is_named_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", closed_port())
    embedder = embedder_in(tmp_path)
    with pytest.raises(ModelUnreachable, match=r"the hub is 127\.0\.0\.1: set HF_ENDPOINT to a mirror, or copy"):
        await embedder.load()
    await embedder.close()


async def test_where_the_operator_forbids_the_hub_it_is_not_asked(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "OFFLINE", True)
    with hub_of(REPOSITORY, model) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(ModelUnreachable, match="HF_HUB_OFFLINE is set"):
            await embedder_in(tmp_path).load()
        assert server.seen == []


async def test_a_name_that_fastembed_does_not_know_is_refused_with_names_near_it(tmp_path: Path) -> None:
    with pytest.raises(ModelMismatch, match=r"not in fastembed's list; near it: .*BAAI/bge-small-en-v1\.5"):
        await embedder_in(tmp_path, "BAAI/bge-small-en-v1.6").load()
