"""Meaning by words alone: texts that share words are near. Enough for a door, whose answers are not judged."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 384


class WordEmbedder:
    """Counts a text's words in places their digests choose; takes no time."""

    name = "words"
    dimensions = DIMENSIONS
    generation = 99

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([_vector(text) for text in texts])

    def estimate_ms(self, texts: Sequence[str]) -> float:
        return 0.01 * len(texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def _vector(text: str) -> NDArray[np.float32]:
    counts = np.full(DIMENSIONS, 1e-6, dtype=np.float32)
    for word in text.lower().split():
        counts[int.from_bytes(hashlib.sha256(word.encode(errors="replace")).digest()[:4], "big") % DIMENSIONS] += 1
    vector: NDArray[np.float32] = counts / np.linalg.norm(counts)
    return vector
