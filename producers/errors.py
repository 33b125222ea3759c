"""Errors of the interfaces.

ProducerError
├── Invalid            the input breaks a rule; names the fields, never their values
├── TooLarge           the input exceeds a size limit; names the limit
├── TooSlow            a request's body, or the sending of its answer, took too long
├── Unauthenticated    no key, or an invalid one
├── PermissionDenied   the key is known, and does not allow this
│   └── InsufficientScope  the token of an issuer is valid, and lacks a scope
├── Overloaded         the service sheds this call; try again after `retry_after_s`
└── Unavailable        a server that is needed cannot answer now; nothing was promised, try again
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Most problems that one answer lists.
PROBLEMS_SHOWN = 10


class ProducerError(Exception):
    """Base of the errors that interfaces raise on purpose; their text never holds content."""

    @property
    def details(self) -> Mapping[str, Any]:
        """Details for programs, without content."""
        return {}


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One broken rule: the dotted path of the field, and the problem with it."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}" if self.field else self.problem


class Invalid(ProducerError):
    """The input breaks a rule."""

    def __init__(self, *problems: FieldProblem) -> None:
        super().__init__("; ".join(map(str, problems[:PROBLEMS_SHOWN])))
        self.problems: Sequence[FieldProblem] = problems[:PROBLEMS_SHOWN]

    @property
    def details(self) -> Mapping[str, Any]:
        """The broken rules, field by field."""
        return {"problems": [{"field": p.field, "problem": p.problem} for p in self.problems]}


class TooLarge(ProducerError):
    """The input exceeds a size limit."""

    def __init__(self, field: str, limit: str, most: int, unit: str = "bytes") -> None:
        """Name the limit and what it counts (`unit`)."""
        super().__init__(f"{field} is larger than {limit} allows: {most} {unit}")
        self._details = {"field": field, "limit": limit, f"limit_{unit}": most}

    @property
    def details(self) -> Mapping[str, Any]:
        """The limit by its name in the settings."""
        return self._details


class TooSlow(ProducerError):
    """A request's body, or the sending of its answer, took too long."""


class Unauthenticated(ProducerError):
    """No key, or an invalid one. `challenge`: the answer's header that says how to get one."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.challenge = "Bearer"


class PermissionDenied(ProducerError):
    """The key is known, and does not allow this."""


class InsufficientScope(PermissionDenied):
    """The token is valid, and lacks a scope."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"the token lacks the scope {scope}")
        self.challenge = f'Bearer error="insufficient_scope", scope="{scope}"'


class Unavailable(ProducerError):
    """A server that is needed cannot answer now: the database, or that of the turn queues."""


class Overloaded(ProducerError):
    """The service sheds this call under load, or for its caller's share or backlog."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
