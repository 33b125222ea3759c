"""Builds expressions over stored vectors: the rows of one model, a unit's own vector, the distance to the question.

Their parameters are `host`, `bank`, `generation` (of the model), and `vector`, the question's. The vectors of one
generation have one dimension; an index is on those of a generation, cast to its dimension.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, Double, FromClause, Select, and_, bindparam, cast, select

from store.schema import UNIT_VECTOR, in_bank
from store.sql_constants import ONE, ZERO, inline
from store.vectors import HalfVector

VECTOR = UNIT_VECTOR.alias("v")
IN_GENERATION = and_(in_bank(VECTOR), VECTOR.c.generation == bindparam("generation"))
#: The question's vector.
ASKED = cast(bindparam("vector"), HalfVector())


def measure_distance(vector: ColumnElement[object], other: ColumnElement[object] = ASKED) -> ColumnElement[float]:
    """Return the negative inner product of two vectors: for unit vectors the negative cosine."""
    return vector.op("<#>", return_type=Double)(other)


@dataclass(frozen=True, slots=True)
class IndexedVectors:
    """The vectors of one generation as their index has them: number of the generation, and its dimension."""

    generation: int
    dimension: int

    def measure_distance(self, vectors: FromClause) -> ColumnElement[float]:
        """Return the distance to the question, by which the index is ordered."""
        size = HalfVector(self.dimension)
        return measure_distance(cast(vectors.c.embedding, size), cast(bindparam("vector"), size))

    def contain(self, vectors: FromClause) -> ColumnElement[bool]:
        """Return the condition that a vector is of this generation: a constant, as in the index's predicate."""
        return vectors.c.generation == inline(self.generation)


def select_vector(unit_id: ColumnElement[UUID]) -> Select[object]:
    """Select the vector of a unit; for a text of several chunks, that of the first."""
    return (
        select(VECTOR.c.embedding).where(IN_GENERATION, VECTOR.c.unit_id == unit_id, VECTOR.c.chunk == ZERO).limit(ONE)
    )
