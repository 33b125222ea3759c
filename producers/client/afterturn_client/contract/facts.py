"""Facts that no answer shows any more: how many, and why."""

from dataclasses import dataclass
from typing import Literal

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedFacts(Shape):
    """Facts of a person that ended in one state for one reason; their text is in no answer."""

    state: Literal["deleted", "expired"]
    """`deleted`: forgotten, or drawn from something that is; `expired`: past its end"""
    why: Literal["forgotten", "source_forgotten", "source_corrected", "tier", "source_expired"]
    """`forgotten`: by itself; `source_forgotten`, `source_corrected`, `source_expired`: what it was drawn from was
    forgotten, says something else, or is past its end; `tier`: the days of its tier are over"""
    facts: int
    """number of facts"""
