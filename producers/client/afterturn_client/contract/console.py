"""Sessions of the console, and the links that open one."""

from dataclasses import dataclass

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSession(Shape):
    """Who is signed in, and what the session reaches."""

    tenant: str | None
    """name of the tenant; null: only an operator is signed in"""
    label: str | None
    """label of the tenant's key; null: as `tenant`"""
    banks: tuple[str, ...] | None
    """banks that the key is limited to; null: not limited"""
    user: str | None
    """user that the key is limited to; null: not limited"""
    agent: str | None
    """agent that the key is limited to; null: not limited"""
    write: bool
    """whether the key may change memory"""
    operator: bool
    """whether an operator is signed in: `/api/v1/operator/*` answers"""
    makes_keys: bool
    """whether the operator may make keys of tenants"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedConsoleSession(ConsoleSession):
    """A session that was opened."""

    session: str
    """the page's half of the session, for the header `x-console-session`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleLink(Shape):
    """A one-time link."""

    link: str
    """code of the link; a browser is given it as `/console#link=CODE`"""
    valid_s: int
    """seconds for which it works, once"""
