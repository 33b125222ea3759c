"""Answers of the service as frozen values. Their repr shows no remembered text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from afterturn_client.contract.recall import RecallReply
from afterturn_client.errors import ApiError
from afterturn_client.reading import read_object, read_shape, read_value


@dataclass(frozen=True, slots=True)
class TurnReceipt:
    """The turn is durable. `position` is its position in the log; `duplicate`: it was stored before."""

    session_id: str
    turn_id: str
    position: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class RefusedTurn:
    """A refused turn of a batch, with the error; the other turns are not affected."""

    session_id: str
    turn_id: str
    error: ApiError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallAnswer(RecallReply):
    """The answer of a recall, best results first; `raw` is the service's answer as it came."""

    raw: Mapping[str, Any] = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Return the results to be read, a line each; `repr` does not show their texts."""
        if not self.results:
            return "nothing was found" if self.bank_known else "nothing was found: there is no such bank yet"
        return "\n".join(map(str, self.results))


@dataclass(frozen=True, slots=True)
class RecallJobState:
    """A recall job: pending, done, failed or expired; `answer` when it is done."""

    status: str
    answer: RecallAnswer | None


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the service is ready; `raw` names the failing parts and the reasons of a degraded one."""

    status: Literal["ready", "degraded", "failing"]
    raw: Mapping[str, Any] = field(compare=False)


def read_recall(value: object) -> RecallAnswer:
    """Read the answer of POST /api/v1/recall."""
    return read_shape(RecallAnswer, {**read_object(value, "recall"), "raw": value}, "recall")


def read_job_state(value: object) -> RecallJobState:
    """Read the answer of GET /api/v1/recall/jobs/{id}."""
    told = read_object(value, "recall job")
    result = told.get("result")
    status = read_value(str, told.get("status"), "recall job: status")
    return RecallJobState(status, None if result is None else read_recall(result))
