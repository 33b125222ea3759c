"""The cross-encoder, for real: a tiny ONNX model, run by fastembed."""

import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from embeddings import rerank
from embeddings.errors import EmbedderClosed, RerankerUnusable
from embeddings.registry import create_reranker
from embeddings.rerank import CrossEncoder
from embeddings.settings import RerankerSettings
from tests.embeddings.cross_encoders import cross_encoder
from tests.tables import each_row

WORDS = ("where", "does", "ann", "live", "she", "lives", "rain", "falls", "on", "spain")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cross_encoder(tmp_path_factory.mktemp("reranker") / "tiny", WORDS)


@pytest.fixture
def encoder(folder: Path, tmp_path: Path) -> CrossEncoder:
    made = create_reranker(RerankerSettings(model=str(folder)), tmp_path)
    assert made is not None
    return made


async def test_the_text_that_answers_best_scores_highest(encoder: CrossEncoder) -> None:
    texts = ["Rain falls on Spain", "Ann lives where she does", "", "Ann", "rain " * 500, "Where does Ann live"]
    await encoder.load()
    scores = await encoder.score("Where does Ann live", texts)
    assert scores.shape == (6,)
    assert scores.dtype == np.float32
    assert 0 <= scores.min() <= scores.max() <= 1
    assert [texts[n] for n in np.argsort(-scores, kind="stable")[:3]] == [texts[5], texts[1], texts[3]]
    await encoder.close()


async def test_without_a_model_there_is_no_reranker(tmp_path: Path) -> None:
    assert create_reranker(RerankerSettings(), tmp_path) is None


async def test_texts_that_cannot_be_encoded_and_no_texts_are_scored_too(encoder: CrossEncoder) -> None:
    assert (await encoder.score("\ud800", ["\ud800", "\x00"])).shape == (2,)
    assert (await encoder.score("Ann", [])).shape == (0,)
    await encoder.close()


async def test_who_gives_up_stops_the_work(encoder: CrossEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    await encoder.load()
    begun, gone = threading.Event(), threading.Event()
    runs: list[int] = []

    def slowly(_self: CrossEncoder, _model: object, pairs: list[tuple[str, str]]) -> np.ndarray[tuple[int], np.dtype]:
        runs.append(len(pairs))
        begun.set()
        gone.wait()
        return np.zeros(len(pairs), dtype=np.float32)

    with monkeypatch.context() as patch:
        patch.setattr(CrossEncoder, "_run", slowly)
        asking = asyncio.ensure_future(encoder.score("Ann", ["Ann"] * 3 * rerank.BATCH))
        await asyncio.to_thread(begun.wait)
        asking.cancel()
        await asyncio.wait([asking])
        gone.set()
        await encoder.close()
    assert runs == [rerank.BATCH]


async def test_after_closing_it_refuses(encoder: CrossEncoder) -> None:
    await encoder.close()
    with pytest.raises(EmbedderClosed):
        await encoder.score("Ann", ["Ann"])


async def test_a_damaged_model_is_told_once_and_remembered(folder: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (damaged / name).write_bytes((folder / name).read_bytes())
    (damaged / "model.onnx").write_bytes(b"no model")
    encoder = CrossEncoder(RerankerSettings(model=str(damaged)), tmp_path)
    for _ in range(2):
        with pytest.raises(RerankerUnusable, match="cannot be loaded"):
            await encoder.load()
    await encoder.close()


@each_row("model", ["relative/folder/model", "name", "../up", "https://example.org/a"])
def test_what_is_neither_a_folder_nor_a_hubs_name_is_refused_at_the_start(model: str) -> None:
    with pytest.raises(ValidationError, match="neither an absolute path nor"):
        RerankerSettings(model=model)


def test_a_folder_without_a_model_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(
        ValidationError, match=r"there is no tokenizer\.json, no tokenizer_config\.json, no model\.onnx"
    ):
        RerankerSettings(model=str(tmp_path))
