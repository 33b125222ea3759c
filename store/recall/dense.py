"""Scores messages by meaning: the cosine of the question and the message, mixed with its neighbours. Pure rules.

A message's vector is mixed with its neighbours' at query time. That needs only the inner products of these vectors, so
stored vectors are neither changed nor read out of the database.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

#: Bytes below which a message is short, about forty words.
SHORT = 220
#: Most by which the neighbours of a short message of the same topic are multiplied.
MOST = 2.0
#: Cosine from which on two neighbours are taken to have one topic.
SAME = 0.25

Vectors = NDArray[np.float32]
Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Products:
    """Inner products of unit vectors, a row for each message: its own, that of the message before, of the one after.

    `question`: of the question with own, before, after; shape (n, 3). `between`: own with before, own with after,
    before with after; shape (n, 3). 0 where a vector is missing; `known` says which exist, shape (n, 3).
    """

    question: Table = field(repr=False)
    between: Table = field(repr=False)
    known: NDArray[np.bool_] = field(repr=False)

    def and_those_of(self, others: "Products") -> "Products":
        """Return the rows of both, those of `others` last."""
        own, more = ((of.question, of.between, of.known) for of in (self, others))
        return Products(*(np.concatenate(pair) for pair in zip(own, more, strict=True)))


def compute_products(question: Vectors, own: Vectors, before: Vectors, after: Vectors) -> Products:
    """Return the products of one question, shape (d,), with messages, shape (n, d); zeros are missing vectors."""
    three = np.stack([own, before, after], axis=1).astype(np.float64)
    pairs = (own * before, own * after, before * after)
    between = np.stack([pair.sum(axis=1, dtype=np.float64) for pair in pairs], axis=1)
    known: NDArray[np.bool_] = np.any(three != 0, axis=2)
    return Products(three @ question.astype(np.float64), between, known)


def compute_context_weights(of: Products, sizes: NDArray[np.int_]) -> Table:
    """Return by which factor the neighbours before and after each message count, 1 to MOST; shape (n, 2).

    `sizes` are the messages' bytes, shape (n,). A short message says little itself, so neighbours of the same topic
    count more, the more the shorter it is; neighbours of another topic would only hide it and count once.
    """
    more = np.clip(SHORT / np.maximum(1, sizes), 1.0, MOST)[:, None]
    return np.where(of.between[:, :2] >= SAME, more, 1.0)


def compute_context_cosines(of: Products, before: Table, after: Table) -> Table:
    """Return max(0, q . unit(m + b before + a after)) for each row; b, a and the result have shape (n,).

    A message without a vector of its own scores 0: its neighbours' meaning is not its own.
    """
    weights = np.stack([np.ones_like(before), before, after], axis=1)
    crossed = 2 * np.stack([before, after, before * after], axis=1)
    length = np.sqrt(np.maximum(1e-12, np.sum(of.known * weights**2 + of.between * crossed, axis=1)))
    return np.where(of.known[:, 0], np.maximum(0.0, np.sum(of.question * weights, axis=1) / length), 0.0)
