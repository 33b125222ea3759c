"""Single banks and directives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class BankDetails(Shape):
    """A bank with its settings."""

    bank: str
    """whole name of the bank, with its owner"""
    bank_id: UUID
    """id of the bank in the log"""
    scope: Literal["host", "agent", "user"]
    """whether it belongs to the tenant (`host`), an agent or a user"""
    user: UUID | None
    """id of the user who owns it; null: none"""
    agent: UUID | None
    """id of the agent that owns it; null: none"""
    runtime: bool
    """whether an agent's runtime made it for one session; lists of banks leave it out"""
    background: str | None = field(repr=False)
    """what an operator or agent noted of it; null: nothing"""
    disposition: Mapping[str, Any] = field(repr=False)
    """traits by name, and its `language`"""
    expires_at: datetime | None
    """time from which on no answer shows anything of it; null: never"""
    version: int
    """version of the bank, from 1"""
    updated_at: datetime
    """time of its last change"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectiveDetails(Shape):
    """A directive with its version."""

    directive_id: UUID
    """id of the directive"""
    name: str = field(repr=False)
    """name of the directive"""
    content: str = field(repr=False)
    """instruction for every reader of the bank"""
    priority: int
    """the highest is shown first"""
    laid_down_by: str | None = field(default=None, repr=False)
    """author: `operator`, `user NAME` or `agent NAME`; null: unknown"""
    version: int
    """version of the directive, from 1"""
    updated_at: datetime
    """time of its last change"""
