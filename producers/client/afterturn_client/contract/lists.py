"""Lists of what a key reaches: sessions, turns, units and users."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSession(Shape):
    """A session."""

    session_id: str | None
    """the caller's own id of the session; null: it has none"""
    turns: int
    """number of its turns"""
    messages: int
    """number of its messages"""
    last_position: int
    """position of its newest turn in the event log"""
    updated_at: datetime
    """time of its newest turn"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage(Shape):
    """A page of a bank's sessions, the one with the newest turn first."""

    sessions: tuple[ListedSession, ...]
    """sessions, the one with the newest turn first"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTurn(Shape):
    """A turn."""

    turn_id: str | None
    """the caller's own id of the turn; null: it has none"""
    position: int
    """its position in the event log"""
    accepted_at: datetime
    """time at which the turn was accepted"""
    messages: int
    """number of its remembered messages"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPage(Shape):
    """A page of a session's turns, in their order."""

    turns: tuple[ListedTurn, ...]
    """turns, in the order of the session"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedUnit(Shape):
    """A unit of a list."""

    unit_id: UUID
    """id of the unit"""
    kind: str
    """fact type: `world`, `experience`, `opinion`, `observation` or `mental_model`"""
    text: str = field(repr=False)
    """text, or its first 2,000 characters"""
    cut: bool
    """whether the text is longer: get it by `unit_id`"""
    origin: str
    """origin: `message`, `extraction` (a fact), `document` (a chunk), `memory` or `reflection`"""
    session_id: str | None
    """the caller's own id of the session; null: it has none"""
    turn_id: str | None
    """the caller's own id of the turn; null: it has none"""
    ordinal: int | None
    """its place in its turn or document, from 0"""
    role: str | None
    """role of the speaker; null: it has none"""
    name: str | None = field(repr=False)
    """name of the speaker; null: none is known"""
    occurred_at: datetime
    """when it happened, in UTC"""
    position: int
    """its position in the event log"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPage(Shape):
    """A page of a bank's units, in the order of their ids."""

    units: tuple[ListedUnit, ...]
    """units, in the order of their ids"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedUser(Shape):
    """A user with stored memories."""

    user: UUID
    """id of the user"""
    name: str | None = field(repr=False)
    """the caller's own id of the user, where a bank of the user or the key names it; else null"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPage(Shape):
    """A page of the users that the key can read, by id."""

    users: tuple[ListedUser, ...]
    """users, in the order of their ids"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""
