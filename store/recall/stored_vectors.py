"""Expressions over stored vectors: the rows of one model, a unit's own vector, nearness to the question.

They take `host`, `bank`, `generation` (the model's), and `vector`, the question's.
"""

from uuid import UUID

from sqlalchemy import ColumnElement, Double, Select, and_, bindparam, cast, literal_column, select

from store.schema import UNIT_VECTOR, in_bank
from store.vectors import HalfVector

VECTOR = UNIT_VECTOR.alias("v")
IN_GENERATION = and_(in_bank(VECTOR), VECTOR.c.generation == bindparam("generation"))
#: The question's vector.
ASKED = cast(bindparam("vector"), HalfVector())


def measure_distance(vector: ColumnElement[object], other: ColumnElement[object] = ASKED) -> ColumnElement[float]:
    """Return the negative inner product of two vectors: of unit vectors, the cosine's."""
    return vector.op("<#>", return_type=Double)(other)


def select_vector(unit_id: ColumnElement[UUID]) -> Select[object]:
    """Select the vector of a unit, of a long text that of its beginning."""
    return (
        select(VECTOR.c.embedding)
        .where(IN_GENERATION, VECTOR.c.unit_id == unit_id, VECTOR.c.chunk == literal_column("0"))
        .limit(literal_column("1"))
    )
