"""Failures: the body of every answer that is no success."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Shape):
    """What went wrong, for a program and for a person."""

    code: str
    """kind of the failure, for a program"""
    message: str
    """what went wrong, for a person"""
    retryable: bool
    """whether the same request may succeed later"""
    details: Mapping[str, Any]
    """what the code tells beside it, such as `problems` or a limit"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody(Shape):
    """Every answer that is no success."""

    error: Failure
    """what went wrong"""
    request_id: str
    """id of the request; it stands in the log, and in the header `x-request-id`"""
