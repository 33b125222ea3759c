"""What a failure is called that becomes known outside: its kind, never its words."""

from asyncpg.exceptions import DivisionByZeroError
from sqlalchemy.exc import NoResultFound

from embeddings.errors import EmbeddingError
from tests.tables import each_row
from workers.errors import Transient
from workers.retry import name_failure


@each_row(
    "error, category",
    [
        (DivisionByZeroError("what somebody said"), "database"),
        (NoResultFound("what somebody said"), "database"),
        (ConnectionRefusedError("what somebody said"), "database"),
        (EmbeddingError("what somebody said"), "embedding"),
        (ValueError("what somebody said"), "internal"),
    ],
)
def test_a_failure_nobody_foresaw_is_told_by_its_kind_alone(error: Exception, category: str) -> None:
    assert name_failure(error) == (category, type(error).__name__)


def test_a_failure_on_purpose_names_itself() -> None:
    assert name_failure(Transient("gateway", "no answer came")) == ("gateway", "no answer came")
