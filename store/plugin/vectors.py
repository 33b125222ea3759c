"""Vectors that callers of the memory plugin bring: of any dimension, kept at unit length, compared within their own."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# A vector is bound as an array of numbers: the driver knows these.
INSERT = text("""
    insert into afterturn.plugin_vector_t
           (host_id, bank_id, session_id, digest, dimension, norm, embedding, written_at)
    values (:host, :bank, :session, :digest, :dimension, :norm,
            cast(cast(:numbers as real[]) as public.vector), :now)
    on conflict do nothing""")
KEEP_ONE = text("""
    delete from afterturn.plugin_vector_t v
     where v.host_id = :host and v.bank_id = :bank and v.session_id = :session and v.digest <> :digest""")
DIMENSIONS = text("""
    select distinct v.dimension from afterturn.plugin_vector_t v
     where v.host_id = :host and v.bank_id = any(cast(:banks as uuid[])) order by 1""")


@dataclass(frozen=True, slots=True)
class CallersVector:
    """A vector at unit length (float32), what its length was, and its digest, by which a memory names it."""

    numbers: Sequence[float] = field(repr=False)
    norm: float
    digest: str

    @property
    def dimension(self) -> int:
        """How many numbers it has."""
        return len(self.numbers)


def normalise(numbers: Sequence[float]) -> CallersVector:
    """Return a caller's vector at unit length. Takes at least one finite number that is not zero.

    The length is worked out beside the largest number, so that none overflows and none is lost.
    """
    largest = max(map(abs, numbers))
    scaled = np.array([number / largest for number in numbers], dtype=np.float64)
    length = float(np.sqrt(scaled @ scaled))
    unit = (scaled / length).astype(np.float32)
    norm = min(largest * length, math.nextafter(math.inf, 0))
    # With its length: another vector of the same direction is another vector.
    digest = hashlib.sha256(unit.tobytes() + repr(norm).encode()).hexdigest()[:32]
    return CallersVector(unit.tolist(), norm, digest)


async def insert_vector(
    connection: AsyncConnection, place: dict[str, Any], vector: CallersVector, now: datetime
) -> None:
    """Write a vector; `place` has host, bank and session. It is read once its memory names it."""
    await connection.execute(
        INSERT,
        {
            **place,
            "digest": vector.digest,
            "dimension": vector.dimension,
            "norm": vector.norm,
            "numbers": list(vector.numbers),
            "now": now,
        },
    )


async def keep_only(connection: AsyncConnection, place: dict[str, Any], digest: str) -> None:
    """Remove all vectors of a memory but the one of this digest."""
    await connection.execute(KEEP_ONE, {**place, "digest": digest})


async def read_dimensions(connection: AsyncConnection, host: UUID, banks: Sequence[UUID]) -> list[int]:
    """Return the dimensions of the vectors that these banks hold."""
    return list((await connection.execute(DIMENSIONS, {"host": host, "banks": list(banks)})).scalars())
