"""The sentence model as files: what onnxruntime and the tokenizer make of a folder, and nothing between them.

Pooling and lengths are numpy here; a text is tokenised once, for its length and for the model.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession, SessionOptions  # type: ignore[attr-defined] # untyped
from tokenizers import Tokenizer

from embeddings.batching import batches
from embeddings.model_files import MAX_TOKENS

#: Nobody sees what onnxruntime has to say below an error.
_ERRORS_ONLY = 3
#: Sums and norms apart take a fifth of what they take in one step of onnxruntime's.
_SLOWER_TOGETHER = ["SkipLayerNormFusion"]


class SentenceModel:
    """all-MiniLM-L6-v2 from a folder: mean over the tokens, unit length. Blocks; for one thread at a time."""

    def __init__(self, folder: Path, threads: int) -> None:
        """Load it. Raises onnxruntime's and the tokenizer's own errors for files that are damaged."""
        self._session = _session(folder / "model.onnx", threads)
        self._inputs = frozenset(one.name for one in self._session.get_inputs())
        self._width = int(self._session.get_outputs()[0].shape[-1])
        self._tokenizer = Tokenizer.from_file(os.fspath(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)

    def embed(self, texts: Sequence[str], batch_tokens: int) -> NDArray[np.float32]:
        """Return unit vectors, one a text, in order; at most `batch_tokens` run together."""
        tokens = [found.ids for found in self._tokenizer.encode_batch_fast(texts)]
        vectors = np.empty((len(tokens), self._width), dtype=np.float32)
        for batch in batches([len(ids) for ids in tokens], batch_tokens):
            vectors[batch] = self._run([tokens[index] for index in batch])
        return vectors

    def _run(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the vectors of one batch; the longest comes last."""
        ids = np.zeros((len(tokens), len(tokens[-1])), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, found in enumerate(tokens):
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        told = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = np.asarray(self._session.run(None, {name: told[name] for name in self._inputs})[0])
        sums = np.matmul(mask[:, None, :].astype(np.float32), states)[:, 0]
        unit: NDArray[np.float32] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        return unit


def _session(file: Path, threads: int) -> InferenceSession:
    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    # Threads that wait do so asleep: the cores are others' meanwhile.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = _ERRORS_ONLY
    # The memory arena stays small because batches do: it is flat, and a tenth faster than none.
    return InferenceSession(
        os.fspath(file), options, providers=["CPUExecutionProvider"], disabled_optimizers=_SLOWER_TOGETHER
    )
