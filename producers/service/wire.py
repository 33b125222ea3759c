"""Base models of answers, and the blocks that several of them share.

A model declares an answer, it does not build it: hot answers are prepared bytes, the others plain values. A test calls
every operation and validates its answer by the model that is published for it.
"""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

# Fields of several answers.
UnitId = Annotated[UUID, Field(description="id of the unit")]
UnitKind = Annotated[
    str, Field(description="fact type: `world`, `experience`, `opinion`, `observation` or `mental_model`")
]
UnitOrigin = Annotated[
    str,
    Field(description="what it is: `message`, `extraction` (a fact), `document` (a chunk), `memory` or `reflection`"),
]
UnitOrdinal = Annotated[int | None, Field(description="its place in its turn or document, from 0")]
UnitTime = Annotated[datetime, Field(description="when it happened, in UTC")]
SessionOf = Annotated[str | None, Field(description="the caller's own id of the session; null: it has none")]
TurnOf = Annotated[str | None, Field(description="the caller's own id of the turn; null: it has none")]
Role = Annotated[str | None, Field(description="role of the speaker; null: it has none")]
SpeakerName = Annotated[str | None, Field(description="name of the speaker; null: none is known")]
LogPosition = Annotated[int, Field(description="its position in the event log")]
WritePosition = Annotated[
    int, Field(description="position of this in the event log: a recall with it as `min_position` shows this")
]


class WireModel(BaseModel):
    """A body that is sent or answered. A field without a default is always there; the others may be left out."""

    model_config = ConfigDict(frozen=True)


class RequestModel(WireModel):
    """A body that is sent: fields it does not name and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Done(WireModel):
    """The request is done."""

    ok: Literal[True] = Field(description="always true")
