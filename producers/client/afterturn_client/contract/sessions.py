"""Histories of sessions."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMessage(Shape):
    """A message of a session's history."""

    seq: int
    """its number within the session, from 0"""
    role: str | None
    """role of the speaker; null: it has none"""
    name: str | None = field(default=None, repr=False)
    """name of the speaker; null: none is known"""
    content: Any = field(repr=False)
    """text, or the content parts that a command brought"""
    unit_id: UUID | None = None
    """id of the unit that holds it; null: the history alone does"""
    occurred_at: datetime | None = None
    """time of the message; null: none was given"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlace(Shape):
    """The names of a turn."""

    bank: str
    """name of the bank"""
    session_id: str | None
    """the caller's own id of the session; null: it has none"""
    turn_id: str | None
    """the caller's own id of the turn; null: it has none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDetails(Shape):
    """A session with its newest messages."""

    session_id: str | None
    """the caller's own id of the session; null: it has none"""
    turns: int
    """number of its turns, and of what commands appended"""
    messages: int
    """number of its messages, forgotten ones included"""
    version: int
    """version of the history, which a command may expect"""
    updated_at: datetime
    """time of its newest message"""
    history: tuple[SessionMessage, ...]
    """its newest remembered messages, the oldest of them first"""
    has_more: bool
    """whether there are older messages"""
