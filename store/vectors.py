"""Converts numpy arrays to pgvector's binary halfvec and back, without a detour through text."""

from typing import Any

import numpy as np
import pgvector
from numpy.typing import NDArray
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import Dialect

_ARRAYS = "select " + ", ".join(
    f"${nth}::{element}[]"
    for nth, element in enumerate(("uuid", "int8", "int4", "float8", "bool", "timestamptz", "interval"), 1)
)


def encode_vector(vector: NDArray[np.float32]) -> bytes:
    """Return the binary halfvec of one vector."""
    encoded: bytes = pgvector.HalfVector(vector).to_binary()
    return encoded


def decode_vector(data: bytes) -> NDArray[np.float32]:
    """Return the vector of a binary halfvec, as float32."""
    return np.asarray(pgvector.HalfVector.from_binary(data).to_numpy(), dtype=np.float32)


class HalfVector(HALFVEC):
    """A column type for halfvec that binds and returns numpy arrays; the driver's codec converts them."""

    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> None:
        """Return no conversion: the driver's codec takes the array."""

    def result_processor(self, dialect: Dialect, coltype: object) -> None:
        """Return no conversion: the driver's codec returns an array."""


async def register_codec(connection: Any) -> None:
    """Register the binary codec of halfvec, and of the arrays that statements take, with an asyncpg connection.

    The array types are read from the catalog at once: the driver would look up each at its first use, which takes
    longer than most statements.
    """
    await connection.set_type_codec(
        "halfvec", schema="public", encoder=encode_vector, decoder=decode_vector, format="binary"
    )
    await connection.prepare(_ARRAYS, name="")
