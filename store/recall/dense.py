"""Scoring by meaning: the cosine of the question to a message in the light of its neighbours. Pure rules."""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def cosines(question: Vectors, own: Vectors, before: Vectors, after: Vectors, context: float) -> NDArray[np.float64]:
    """Return max(0, q . unit(m + c before + c after)) for each row; shape (n,).

    `question` is one unit vector, shape (d,); the others have shape (n, d), with a row of zeros where there is no
    such neighbour or no vector yet. What has no vector of its own scores 0: its neighbours' is not its meaning.
    Stored vectors stay as they are; mixing them when asked gives the same as storing the mixture.
    """
    mixed = own + context * (before + after)
    length = np.linalg.norm(mixed, axis=1)
    known = own.any(axis=1) & (length > 0)
    score = np.zeros(len(own))
    score[known] = np.maximum(0.0, (mixed[known] @ question) / length[known])
    return score
