"""Whether the service runs, and whether it can do its work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness(Shape):
    """The process is alive."""

    status: Literal["live"] = "live"
    """always `live`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness(Shape):
    """Whether the service can do its work."""

    status: Literal["ready", "degraded", "failing"]
    """whether the service can do its work"""
    failing: Mapping[str, str]
    """parts that do not work, each with the reason"""
    reasons: tuple[str, ...]
    """why the service is degraded"""

    @classmethod
    def of(cls, *, failing: Mapping[str, str] | None = None, degraded: Sequence[str] = ()) -> "Readiness":
        """Return it with the status that follows from the parts that fail and the reasons of degradation."""
        status: Literal["ready", "degraded", "failing"] = "failing" if failing else "degraded" if degraded else "ready"
        return cls(status=status, failing=failing or {}, reasons=tuple(degraded))
