"""Turns: prepared, kept, and their status in each stage with their stored messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.shape import Done, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput(Shape):
    """The model's input, the current input last."""

    project: str
    """name of the bank that was used"""
    input_items: tuple[Mapping[str, Any], ...] = field(repr=False)
    """the model's input: recalled memory, history, and the current input last"""
    recall_fact_ids: tuple[str, ...]
    """ids of the recalled facts in it"""
    recall_insight_ids: tuple[str, ...]
    """ids of the recalled insights in it"""
    context_token_count: int
    """estimated tokens of `input_items`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTurn(ModelInput):
    """The model's input, with its freshness."""

    position: int
    """the bank's highest position in the event log that this answer shows"""
    freshness: Freshness
    """how fresh the bank is"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTurn(Done):
    """The turn is durable, with how fresh its bank is; sent again, it is the same turn."""

    project: str
    """name of the bank that was used"""
    position: int
    """position of this in the event log: a recall with it as `min_position` shows this"""
    freshness: Freshness
    """how fresh the bank is"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageError(Shape):
    """The error of a turn in a stage."""

    category: str
    """category of the error"""
    reason: str | None = None
    """sanitised reason; null: none is known"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatus(Shape):
    """The status of a turn in one stage."""

    status: Literal["pending", "running", "done", "skipped", "unknown", "dead"]
    """status of the turn in the stage; `dead` is quarantined, `unknown` a delivery that may have arrived"""
    attempts: int
    """number of attempts"""
    updated_at: datetime
    """time of the last change of the status"""
    error: StageError | None = None
    """the last error; null: there was none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMessage(Shape):
    """One stored message of a turn."""

    unit_id: UUID
    """id of the unit"""
    ordinal: int
    """place of the message in the turn, from 0"""
    role: str | None
    """role of the speaker; null: it has none"""
    name: str | None = field(repr=False)
    """name of the speaker; null: none is known"""
    content: str = field(repr=False)
    """text of the message"""
    occurred_at: datetime
    """when it happened, in UTC"""
    parts: tuple[Mapping[str, Any], ...] = field(repr=False)
    """content parts that are not text"""
    cut: bool = False
    """whether `characters` cut its text or parts: get the unit for the whole"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStatus(Shape):
    """A turn's status in each stage, and its messages."""

    id: UUID
    """id of the turn, as its rows of work have it"""
    position: int
    """its position in the event log"""
    accepted_at: datetime
    """time at which the turn was accepted"""
    stages: Mapping[str, StageStatus]
    """status by stage"""
    messages: tuple[TurnMessage, ...] = ()
    """messages of the turn; forgotten ones are left out"""
    more_messages: bool = False
    """whether there are more behind these: ask from the last `ordinal` plus 1"""

    @property
    def settled(self) -> bool:
        """Whether no stage is pending or running any more."""
        return all(stage.status not in {"pending", "running"} for stage in self.stages.values())
