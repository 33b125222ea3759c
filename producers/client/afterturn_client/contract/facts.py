"""The profile of a person: facts, and how many no answer shows any more, and why."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal
from uuid import UUID

from afterturn_client.contract.shape import Shape, show_line


class FactState(StrEnum):
    """How a fact stands."""

    #: It holds.
    ACTIVE = "active"
    #: It holds, and a newer statement says the same.
    CONSOLIDATED = "consolidated"
    #: Another value was said later.
    SUPERSEDED = "superseded"
    #: It was denied later, or its opposite was said.
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(Shape):
    """A fact of a person."""

    fact_id: str
    """id of the fact"""
    key: str
    """property of the person that it states"""
    value: str = field(repr=False)
    """value of the property"""
    text: str = field(repr=False)
    """the fact as a text"""
    since: datetime
    """since when it holds"""
    until: datetime | None
    """until when it held; null: it still holds"""
    superseded_by: UUID | None
    """id of the fact that superseded it"""
    state: FactState
    """`active`: it holds; `superseded`: another value was said later; `contradicted`: it was denied later, or its
    opposite was said; `superseded_by` says by which fact"""
    deletion_proposed_by: tuple[UUID, ...] = ()
    """messages because of which the model that reads turns proposes to delete it; it holds meanwhile"""
    stated: int
    """number of turns that state it; the earlier statements are consolidated in it"""
    confidence: float | None
    """confidence, 0 to 1; null: not known"""
    bank: str
    """bank of the fact"""
    unit_id: UUID
    """id of its newest statement"""
    session_id: str | None
    """the caller's own id of the session; null: it has none"""
    turn_id: str | None
    """the caller's own id of the turn; null: it has none"""
    said_at: datetime
    """time of its newest statement"""
    sources: tuple[UUID, ...]
    """messages of its newest statement"""
    history: tuple["Fact", ...] = field(default=(), repr=False)
    """facts that it replaced, the newest first, told with `history`"""

    def __str__(self) -> str:
        until = f" until {self.until:%Y-%m-%d}" if self.until else ""
        return f"{show_line(self.text)} (since {self.since:%Y-%m-%d}{until})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CooccurringEntity(Shape):
    """A person or thing that occurs together with a person."""

    name: str = field(repr=False)
    """name of the person or thing"""
    kind: str
    """kind of entity, such as `person`"""
    units: int
    """number of units in which both occur"""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Shape):
    """A page of the profile of a person; facts are in the order of their ids, subjects and keys."""

    names: tuple[str, ...] = field(repr=False)
    """names of the person"""
    facts: tuple[Fact, ...]
    """facts of the person"""
    beside: tuple[CooccurringEntity, ...]
    """people and things that occur together with the person"""
    whole: bool
    """false where more facts follow"""
    ended: tuple[EndedFacts, ...] = ()
    """with `history`: how many facts of the person no answer shows any more, and why"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""

    def __str__(self) -> str:
        """Return the facts to be read, a line each; `repr` shows none of them."""
        name = show_line(", ".join(self.names)) or "nobody named"
        return "\n".join([f"{name}: {len(self.facts)} facts", *(f"  {fact}" for fact in self.facts)])
