"""An embedder without a model, for checks that do not depend on meaning."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class ConstantEmbedder:
    """An embedder that gives all texts the same vector, so that no unit is too distant to be found."""

    name = "constant"
    dimensions = 384
    generation = 32_000

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the same vector for every text."""
        return np.full((len(texts), self.dimensions), self.dimensions**-0.5, dtype=np.float32)

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Return 0: no time is needed."""
        del texts
        return 0.0
