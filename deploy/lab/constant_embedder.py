"""A stand-in for the sentence model, for checks to which meaning makes no difference."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class ConstantEmbedder:
    """An embedder to which all texts mean the same: every unit is as near as any other, so nothing hides far away."""

    name = "blunt"
    dimensions = 384
    generation = 32_000

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the same vector for every text."""
        return np.full((len(texts), self.dimensions), self.dimensions**-0.5, dtype=np.float32)

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Return how long that takes: nothing."""
        del texts
        return 0.0
