"""Base models of answers, and the blocks that several of them share.

A model declares an answer, it does not build it: hot answers are prepared bytes, the others plain values. A test calls
every operation and validates its answer by the model that is published for it.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A body that is sent or answered. A field without a default is always there; the others may be left out."""

    model_config = ConfigDict(frozen=True)

    #: The body as it stands in the description of the API.
    EXAMPLE: ClassVar[Mapping[str, Any]]


class RequestModel(WireModel):
    """A body that is sent: fields it does not name and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Done(WireModel):
    """The request is done."""

    ok: Literal[True]


class FreshnessBlock(WireModel):
    """The log position up to which each stage of the bank is complete.

    `position` is the bank's highest that this answer shows, `pending` counts the undone rows of extraction, embedding
    and projection. `waited_ms` and `met` tell of the position that the call was to wait for.
    """

    position: int
    embedded: int
    extracted: int
    projected: int
    pending: int
    waited_ms: int
    met: bool

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "position": 42,
        "embedded": 42,
        "extracted": 41,
        "projected": 41,
        "pending": 2,
        "waited_ms": 0,
        "met": True,
    }
