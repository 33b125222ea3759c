"""Resolves and authorises the bank of every read and write.

A key's banks are compared with the names its holder uses. A key of a user or an agent then reaches its own banks and
those that are shared with it; every other bank is answered like one that does not exist.
"""

from dataclasses import replace
from typing import Annotated, Self

from afterturn_client.contract.banks import ListedBank
from pydantic import AfterValidator, Field, model_validator

from producers.errors import FieldProblem, Invalid, PermissionDenied
from producers.service.fields import BANK_BYTES, End, Moment, Name, NamedBank, Text, field_error
from producers.service.paging import ListOrder, PageParameters, read_name
from producers.service.wire import RequestModel
from store.memory.turns import NewTurn
from store.tenancy.banks import Banks
from store.tenancy.keys import Grant
from store.tenancy.spaces import Space
from store.text.word_rules import AUTO, NONE, supported_languages

NOT_PRIVATE = "this queue does not reach this bank of a user or an agent (queue.private_banks)"


def _parse_language(code: str) -> str:
    known = (AUTO, NONE, *supported_languages())
    if code not in known:
        raise field_error(f"must be one of {', '.join(known)}")
    return code


class BankBody(RequestModel):
    """A bank to create: of a user, of an agent, of both, or of the tenant.

    A bank that is there keeps its end, unless it has ended.
    """

    bank: NamedBank
    user_id: Name | None = Field(None, description="the caller's own id of the user who owns it")
    agent: Name | None = Field(None, description="name of the agent that owns it")
    expires_at: End = None


class BankChange(RequestModel):
    """New properties of a bank."""

    language: Annotated[str, AfterValidator(_parse_language)] | None = Field(
        None,
        description="code of the language by which its words are cut, `auto` or `none`; left out: as before",
    )
    expires_at: Moment | None = Field(
        None, description="time from which on no answer shows anything of it; null: never; left out: as before"
    )

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.language is None and "expires_at" not in self.model_fields_set:
            raise field_error("needs language or expires_at")
        return self


class BanksParameters(PageParameters):
    """Page of banks: `limit`, and either `cursor` or the name `after` to continue from."""

    after: Text = Field(
        "", description="name of a bank: the page begins with the next one in order; not heeded beside `cursor`"
    )
    runtime: bool = Field(False, description="whether banks that an agent's runtime made for one session are listed")


BANKS: ListOrder[ListedBank] = ListOrder("banks", lambda bank: (bank.bank,), (read_name,))


async def resolve_bank(banks: Banks, grant: Grant, bank: str) -> str:
    """Return the whole name of the bank that a key's holder names. Raises PermissionDenied, Invalid if too long."""
    require_bank(grant, bank)
    return fit_name(await banks.resolve(grant.host_id, grant.space, bank))


def require_bank(grant: Grant, bank: str) -> None:
    """Raise PermissionDenied for a name that names no bank which the key reaches."""
    prefix = grant.space.prefix
    if not (grant.allows(bank) or (prefix and grant.allows(bank.removeprefix(prefix)))):
        raise PermissionDenied("this key does not reach this bank" if grant.private_banks else NOT_PRIVATE)


async def reaches_bank(banks: Banks, grant: Grant, name: str) -> bool:
    """Return whether a key reaches the bank of this whole name."""
    try:
        return await resolve_bank(banks, grant, name) == name
    except (PermissionDenied, Invalid):
        return False


def fit_name(name: str) -> str:
    """Return the whole name of a bank. Raises Invalid when it is too long together with its owner's name."""
    if len(name.encode()) > BANK_BYTES:
        raise Invalid(FieldProblem("bank", f"must have at most {BANK_BYTES} bytes together with the name of its owner"))
    return name


def assign_author(grant: Grant, turn: NewTurn, bank: str) -> NewTurn:
    """Return the turn with the key's user and agent as its authors, in this bank.

    Raises PermissionDenied for a turn of another user.
    """
    if grant.user is None and grant.agent is None:
        return turn if turn.bank == bank else replace(turn, bank=bank)
    return replace(turn, bank=bank, user_id=resolve_speaker(grant, turn.user_id), agent=grant.agent)


def resolve_speaker(grant: Grant, user: str | None) -> str | None:
    """Return the writing user: the key's, else the body's. Raises PermissionDenied where these differ."""
    if grant.user is not None and user not in (None, grant.user):
        raise PermissionDenied("this key writes as its own user only")
    return grant.user or user


def choose_space(grant: Grant, body: BankBody) -> Space:
    """Return the owner of a new bank. Raises PermissionDenied for another user or agent than the key's."""
    if grant.agent is not None and body.agent not in (None, grant.agent):
        raise PermissionDenied("this key makes banks of its own agent only")
    if grant.agent is not None and grant.user is None and body.user_id is not None:
        raise PermissionDenied("this key makes no banks of users")
    return Space(resolve_speaker(grant, body.user_id), grant.agent or body.agent)


def listable_names(grant: Grant) -> list[str] | None:
    """Return the whole names of the banks that a key may list; None: all that it sees."""
    if grant.banks is None:
        return None
    return sorted({*grant.banks, *(grant.space.name(bank) for bank in grant.banks)})


def describe_keeper(grant: Grant) -> str:
    """Return the author of a directive by the key: `user NAME`, `agent NAME` or `operator`."""
    if grant.user is not None:
        return f"user {grant.user}"
    return "operator" if grant.agent is None else f"agent {grant.agent}"
