"""Vectors on the wire: numpy arrays to pgvector's binary halfvec and back, without a detour through text."""

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
    """A halfvec column that binds and returns numpy arrays: the driver's codec does the work, and no text is made."""

    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> None:
        """Leave the array as it is."""

    def result_processor(self, dialect: Dialect, coltype: object) -> None:
        """Leave what the codec returned as it is."""


async def register_codec(connection: Any) -> None:
    """Teach an asyncpg connection the binary form of halfvec, and of the arrays that statements take.

    Arrays in one look at the catalog: the driver would look for each when it first meets it, for longer than most
    statements take.
    """
    await connection.set_type_codec(
        "halfvec", schema="public", encoder=encode_vector, decoder=decode_vector, format="binary"
    )
    await connection.prepare(_ARRAYS, name="")
