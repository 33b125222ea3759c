"""Banks: of a list, changed, and one with its settings; single directives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from afterturn_client.contract.knowledge import Directive
from afterturn_client.contract.shape import Done, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBank(Shape):
    """A bank: its owner and its language."""

    bank: str
    """whole name of the bank, with its owner"""
    scope: Literal["host", "agent", "user"]
    """whether it belongs to the tenant (`host`), an agent or a user"""
    user: UUID | None
    """id of the user who owns it; null: none"""
    agent: UUID | None
    """id of the agent that owns it; null: none"""
    language: str
    """code of the language by which its words are cut, `auto` or `none`"""
    settled: bool
    """false while words of older memories still follow a change of language; they are found all the same"""
    expires_at: datetime | None
    """time from which on no answer shows anything of it; null: never"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BankPage(Shape):
    """A page of the banks that the key can read, by name."""

    banks: tuple[ListedBank, ...]
    """banks, by name"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedBank(ListedBank, Done):
    """The bank after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBank(ListedBank, Done):
    """The bank that is there now."""

    created: bool
    """false where it already existed"""


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
    """note of an operator or agent; null: none"""
    disposition: Mapping[str, Any] = field(repr=False)
    """traits by name, and its `language`"""
    expires_at: datetime | None
    """time from which on no answer shows anything of it; null: never"""
    version: int
    """version of the bank, from 1"""
    updated_at: datetime
    """time of its last change"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectiveDetails(Directive):
    """A directive with its version."""

    version: int
    """version of the directive, from 1"""
    updated_at: datetime
    """time of its last change"""
