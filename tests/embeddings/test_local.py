"""The local sentence model, for real: made from installed packages, checked, and asked."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from embeddings import local
from embeddings.errors import EmbedderClosed, ModelMismatch
from embeddings.local import LocalEmbedder
from embeddings.minilm.reference import TEXTS, least_cosine
from embeddings.model_files import model_folder
from embeddings.protocol import Embedder, TokenCounter
from embeddings.registry import create_embedder
from embeddings.settings import EmbeddingSettings, Variant
from tests.patience import PATIENCE_S, until


def _length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(vectors, axis=1)
    return lengths


async def test_vectors_are_unit_length_and_single_precision(embedder: LocalEmbedder) -> None:
    vectors = await embedder.embed(["The train leaves at nine.", "Hello"])
    assert vectors.shape == (2, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(_length(vectors), 1, atol=1e-5)


async def test_texts_without_words_give_numbers_all_the_same(embedder: LocalEmbedder) -> None:
    vectors = await embedder.embed(["", " ", "\n\t", "\x00", "\ud800", "\U0001f600"])
    assert not np.isnan(vectors).any()
    assert np.allclose(_length(vectors), 1, atol=1e-5)


async def test_no_texts_give_no_vectors(embedder: LocalEmbedder) -> None:
    assert (await embedder.embed([])).shape == (0, embedder.dimensions)


async def test_order_of_the_answers_is_the_order_of_the_texts(embedder: LocalEmbedder) -> None:
    texts = [f"number {n} " * (1 + n * 7 % 11) for n in range(40)]
    together = await embedder.embed(texts)
    alone = np.concatenate([await embedder.embed([text]) for text in texts])
    assert (np.argmax(together @ alone.T, axis=1) == np.arange(len(texts))).mean() > 0.9
    assert np.sum(together * alone, axis=1).min() > 0.97


async def test_like_meanings_are_nearer_than_unlike_ones(embedder: LocalEmbedder) -> None:
    question, near, far = await embedder.embed(
        ["Which animal does she keep at home?", "Her cat sleeps on the sofa.", "The invoice is overdue."]
    )
    assert question @ near > question @ far + 0.1


async def test_what_lies_beyond_the_window_is_not_read(embedder: LocalEmbedder) -> None:
    left, right = await embedder.embed(["rain " * 400, "rain " * 400 + "and a word at the very end"])
    assert left @ right > 0.999


async def test_a_loaded_model_answers_like_the_true_one(embedder: LocalEmbedder) -> None:
    assert least_cosine(await embedder.embed(TEXTS)) > 0.97


async def test_the_event_loop_runs_on_while_texts_are_embedded(
    embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model begins when the loop says so: a loop that waited for it could not."""
    begun, may_run, run = threading.Event(), threading.Event(), local._embed_batch

    def when_told(model: Any, texts: list[str]) -> tuple[NDArray[np.float32], float]:
        begun.set()
        assert may_run.wait(PATIENCE_S)
        return run(model, texts)

    monkeypatch.setattr(local, "_embed_batch", when_told)
    work = asyncio.create_task(embedder.embed(["a sentence"]))
    await until(begun.is_set, "the model is asked")
    may_run.set()
    assert len(await work) == 1


async def test_a_short_call_goes_between_the_batches_of_a_long_one(
    embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await embedder.load()
    begun, may_run, run, runs = threading.Event(), threading.Event(), local._embed_batch, list[str]()

    def when_told(model: Any, texts: list[str]) -> tuple[NDArray[np.float32], float]:
        runs.append(texts[0])
        begun.set()
        assert may_run.wait(PATIENCE_S)
        return run(model, texts)

    monkeypatch.setattr(local, "_embed_batch", when_told)
    long = asyncio.create_task(embedder.embed([f"{n} " + "rain " * 300 for n in range(12)]))
    await until(begun.is_set, "the long call has begun")
    short = asyncio.create_task(embedder.embed(["a sentence"]))
    await asyncio.sleep(0)
    may_run.set()
    await asyncio.gather(long, short)
    assert len(runs) == 13
    assert runs.index("a sentence") <= 2


async def test_closing_lets_a_call_of_many_batches_end(data_folder: Path) -> None:
    closing = LocalEmbedder(EmbeddingSettings(), data_folder / "models")
    await closing.load()
    call = asyncio.create_task(closing.embed([f"{n} " + "rain " * 300 for n in range(4)]))
    await asyncio.sleep(0)
    await closing.close()
    assert len(await call) == 4


async def test_calls_at_once_all_get_their_own_answer(embedder: LocalEmbedder) -> None:
    texts = [f"city number {n}" for n in range(8)]
    answers = await asyncio.gather(*(embedder.embed([text]) for text in texts))
    alone = [await embedder.embed([text]) for text in texts]
    assert all(np.array_equal(a, b) for a, b in zip(answers, alone, strict=True))


async def test_more_text_is_estimated_to_take_longer(embedder: LocalEmbedder) -> None:
    await embedder.embed(["warm up"])
    assert 0 < embedder.estimate_ms(["short"]) < embedder.estimate_ms(["short", "much longer " * 30])


async def test_the_estimate_counts_what_waits_for_the_model(embedder: LocalEmbedder) -> None:
    await embedder.load()
    alone = embedder.estimate_ms(["short"])
    calls = [asyncio.ensure_future(embedder.embed(["something longer"] * 8)) for _ in range(4)]
    await asyncio.sleep(0)
    behind = embedder.estimate_ms(["short"])
    calls[-1].cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert behind > 4 * alone
    assert embedder.estimate_ms(["short"]) < behind / 2


async def test_the_estimate_follows_the_machine(embedder: LocalEmbedder) -> None:
    texts = ["A turn of ordinary length, as people write them to each other every day."] * 8
    loop = asyncio.get_running_loop()
    took = []
    for _ in range(12):
        start = loop.time()
        await embedder.embed(texts)
        took.append((loop.time() - start) * 1000)
    assert min(took) / 10 < embedder.estimate_ms(texts) < max(took) * 10


async def test_tokens_are_counted_beyond_the_window_and_without_the_frame(embedder: LocalEmbedder) -> None:
    assert isinstance(embedder, TokenCounter)
    assert embedder.count_tokens(["", "rain", "rain " * 400, "\ud800"])[:3] == [0, 1, 400]


async def test_a_model_with_other_numbers_is_refused(data_folder: Path) -> None:
    settings = EmbeddingSettings(variant=Variant.WEIGHTS)
    file = model_folder(settings, data_folder / "models") / "model.onnx"
    graph = onnx.load(file)
    largest = max(graph.graph.initializer, key=lambda weights: len(weights.raw_data))
    largest.raw_data = largest.raw_data[::-1]
    onnx.save(graph, file)
    with pytest.raises(ModelMismatch, match="remove it"):
        await create_embedder(settings, data_folder).load()


async def test_a_cut_off_model_file_is_refused(tmp_path: Path) -> None:
    settings = EmbeddingSettings(variant=Variant.WEIGHTS)
    file = model_folder(settings, tmp_path / "models") / "model.onnx"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ModelMismatch, match="cannot be loaded"):
        await create_embedder(settings, tmp_path).load()


async def test_a_closed_embedder_says_so(tmp_path: Path) -> None:
    embedder: Embedder = create_embedder(EmbeddingSettings(), tmp_path)
    assert isinstance(embedder, LocalEmbedder)
    await embedder.close()
    with pytest.raises(EmbedderClosed):
        await embedder.embed(["late"])


def test_variants_that_are_compared_share_a_generation_and_others_have_their_own(tmp_path: Path) -> None:
    made = {variant: create_embedder(EmbeddingSettings(variant=variant), tmp_path).generation for variant in Variant}
    assert made == {Variant.LEAN: 1, Variant.DYNAMIC: 1, Variant.WEIGHTS: 2}


async def test_vectors_in_8_bits_are_near_those_of_full_precision_whoever_runs_beside(
    embedder: LocalEmbedder, tmp_path: Path
) -> None:
    texts = [
        *TEXTS,
        "",
        "ok",
        "\u6211\u6628\u5929\u5728\u5317\u4eac",
        "def f(x): return x ** 2",
        "AAAA " * 50,
        "1, 2, 3 " * 9,
    ]
    full = create_embedder(EmbeddingSettings(variant=Variant.WEIGHTS), tmp_path)
    true = np.concatenate([await full.embed([text]) for text in texts])
    await full.close()
    alone = np.concatenate([await embedder.embed([text]) for text in texts])
    assert np.sum(true * await embedder.embed(texts), axis=1).min() > 0.98
    assert np.sum(true * alone, axis=1).min() > 0.98


def test_no_sum_of_products_overflows_on_a_processor_that_adds_two_in_16_bits(data_folder: Path) -> None:
    for variant in (Variant.LEAN, Variant.DYNAMIC):
        graph = onnx.load(model_folder(EmbeddingSettings(variant=variant), data_folder / "models") / "model.onnx").graph
        kept = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        products = [node for node in graph.node if node.op_type.startswith("MatMulInteger")]
        assert products
        assert max(int(np.abs(kept[node.input[1]].astype(int)).max()) for node in products) <= (2**15 - 1) // (2 * 255)


def test_making_an_embedder_touches_no_disk(tmp_path: Path) -> None:
    create_embedder(EmbeddingSettings(), tmp_path)
    assert not list(tmp_path.iterdir())


async def test_memory_stays_flat_however_many_lengths_are_embedded(embedder: LocalEmbedder) -> None:
    """What a long batch needed is used again by the next: nothing is kept for each length that was ever seen."""
    for words in (64, 1, 32):
        await embedder.embed(["rain " * words] * 4)
    before = psutil.Process().memory_info().rss
    for words in range(1, 64, 2):
        await embedder.embed(["rain " * words] * 4)
    assert psutil.Process().memory_info().rss - before < 30 * 1024 * 1024
