"""Reference vectors of the true model, to detect a wrong one.

The first numbers of the vectors of sentence-transformers/all-MiniLM-L6-v2 in full precision. The texts hold
capitals, accents and more than 256 tokens: a wrong tokenizer, window or pooling shows too.
"""

import numpy as np
from numpy.typing import NDArray

#: 8-bit variants reach .97 and more on these few numbers; another model is near 0.
LEAST_COSINE = 0.9

TEXTS = (
    "Where did we agree to meet on Friday?",
    "Ana's flight to Lisbon leaves at 6:40 from GATE B12; Café João is closed.",
    "rain " * 400,
)

# fmt: off
_HEADS = (
    (0.018, 0.005, 0.025, 0.01, 0.008, -0.026, 0.036, -0.068, -0.005, -0.019, -0.024, 0.026,
     -0.05, -0.004, 0.089, -0.064, -0.039, -0.073, -0.034, 0.044, -0.078, 0.02, -0.008, 0.053),
    (0.094, -0.002, -0.012, 0.059, 0.051, 0.081, 0.008, 0.0, 0.038, 0.082, -0.003, -0.059,
     -0.135, -0.046, -0.034, 0.052, -0.042, -0.101, -0.05, 0.047, 0.072, -0.006, -0.07, 0.074),
    (-0.073, -0.009, 0.058, -0.023, 0.003, -0.005, 0.041, -0.085, -0.033, 0.018, 0.019, -0.089,
     0.071, -0.037, -0.04, 0.043, -0.025, -0.019, -0.06, -0.069, 0.026, 0.039, -0.034, -0.048),
)
# fmt: on


def least_cosine(vectors: NDArray[np.float32]) -> float:
    """Return the lowest cosine between these vectors of TEXTS and the true ones, by their first numbers."""
    true = np.array(_HEADS, dtype=np.float32)
    seen = vectors[:, : true.shape[1]]
    lengths = np.linalg.norm(true, axis=1) * np.linalg.norm(seen, axis=1)
    return float(np.min(np.sum(true * seen, axis=1) / np.maximum(lengths, 1e-9)))
