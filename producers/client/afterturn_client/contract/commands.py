"""Commands of a portal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afterturn_client.contract.shape import Done


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReceipt(Done):
    """The command is durable, and what it changed is readable."""

    action: str
    """name of the action"""
    result: Mapping[str, Any]
    """ids of the log by the action's field names, and the new version where it has one"""
