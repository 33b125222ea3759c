"""Commands of a portal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReceipt(Shape):
    """The command is durable, and what it changed is readable."""

    ok: Literal[True]
    """always true"""
    action: str
    """name of the action"""
    result: Mapping[str, Any]
    """ids of the log by the action's field names, and the new version where it has one"""
