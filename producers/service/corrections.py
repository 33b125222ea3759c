"""Parses requests to correct a unit's text."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from producers.errors import FieldProblem, Invalid
from producers.service.bodies import parse_body
from producers.service.fields import Text
from producers.service.turns import limit_text
from producers.service.wire import RequestModel
from producers.settings import ApiSettings


class CorrectionBody(RequestModel):
    """The new text of a unit; with `version`, only if the unit is still at the version that was seen."""

    content: Text = Field(repr=False)
    version: int | None = Field(None, ge=1, lt=2**63)

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"content": "We fly to Lisbon on Saturday", "version": 1}


def parse_correction(value: Any, settings: ApiSettings) -> CorrectionBody:
    """Return the correction in a JSON value. Raises Invalid, or TooLarge for a text beyond a message's limit."""
    body = parse_body(CorrectionBody, value)
    if not body.content.strip():
        raise Invalid(FieldProblem("content", "must not be blank; to remove a unit, delete it"))
    limit_text("content", len(body.content.encode()), settings)
    return body
