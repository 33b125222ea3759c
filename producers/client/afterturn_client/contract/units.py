"""Single units with their provenance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnFact(Shape):
    """A fact that was drawn from a unit and still holds."""

    unit_id: UUID
    """id of the fact"""
    text: str = field(repr=False)
    """text of the fact"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link(Shape):
    """A link to another unit."""

    unit_id: UUID
    """id of the other unit"""
    kind: str
    """kind of the link, one of seven types"""
    weight: float
    """weight of the link, 0 to 1"""
    direction: Literal["to", "from"]
    """whether the link leads `to` the other unit or comes `from` it"""
    excerpt: str = field(repr=False)
    """beginning of the other unit's text, at most 200 characters"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerVersion(Shape):
    """A version of a unit that a correction or a pin replaced."""

    version: int
    """number of the version, from 1"""
    text: str = field(repr=False)
    """text that the unit had"""
    pinned: bool
    """whether it was pinned"""
    recorded_at: datetime
    """time at which the log took it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit(Shape):
    """A unit with its provenance: turn, sources, derived facts and links."""

    unit_id: UUID
    """id of the unit"""
    kind: str
    """fact type: `world`, `experience`, `opinion`, `observation` or `mental_model`"""
    text: str = field(repr=False)
    """whole text"""
    origin: str
    """origin: `message`, `extraction` (a fact), `document` (a chunk), `memory` or `reflection`"""
    session_id: str | None = None
    """the caller's own id of the session; null: it has none"""
    turn_id: str | None = None
    """the caller's own id of the turn; null: it has none"""
    ordinal: int | None = None
    """its place in its turn or document, from 0"""
    role: str | None = None
    """role of the speaker; null: it has none"""
    name: str | None = field(default=None, repr=False)
    """name of the speaker; null: none is known"""
    occurred_at: datetime
    """when it happened, in UTC"""
    position: int
    """its position in the event log"""
    metadata: Mapping[str, Any] = field(repr=False)
    """metadata by name: texts, and `tags`, a list of texts"""
    sources: tuple[UUID, ...] = ()
    """units that a fact was drawn from"""
    entities: tuple[str, ...] = field(default=(), repr=False)
    """names of people and things in it"""
    valid_from: datetime | None = None
    """since when a fact holds; null: it is no projected fact"""
    valid_to: datetime | None = None
    """until when a fact held; null: it still holds"""
    superseded_by: UUID | None = None
    """id of the fact that superseded it"""
    state: Literal["active", "consolidated", "superseded", "contradicted"] | None = None
    """how a fact stands: it holds; a newer statement says the same; another value, or a denial or its opposite, was
    said later; null: it is no projected fact, or a denial"""
    state_by: UUID | None = None
    """id of the fact by which it has this state; null: it is active"""
    deletion_proposed_by: tuple[UUID, ...] = ()
    """messages because of which the model that reads turns proposes to delete a fact; it holds meanwhile"""
    version: int = 1
    """version of the unit, from 1; every correction and every pin is another"""
    pinned: bool = False
    """whether every answer of its bank holds it"""
    former: tuple[FormerVersion, ...] = ()
    """versions before this one, the newest first, at most 50; erased ones are not among them"""
    expires_at: datetime | None = None
    """time from which on no answer shows it; null: never"""
    facts: tuple[DrawnFact, ...] = ()
    """facts that were drawn from it"""
    links: tuple[Link, ...] = ()
    """its strongest links to other units, at most 20"""
