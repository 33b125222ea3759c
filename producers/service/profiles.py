"""Requests of profiles: person, bank, and whether to include superseded facts."""

from datetime import datetime
from typing import Any
from uuid import UUID

from afterturn_client.contract.facts import EndedFacts
from pydantic import BaseModel, ConfigDict, Field

from producers.errors import FieldProblem, Invalid
from producers.service.banks import listable_names, resolve_bank, resolve_speaker
from producers.service.fields import BankName, Name
from producers.service.paging import Cursor, Limit, ListOrder, Page, PageAnswer, read_name
from producers.service.wire import SessionOf, TurnOf, WireModel
from store.derived.fact_states import FactState
from store.derived.facts import Identity
from store.derived.persons import CooccurringEntity, Person, PersonFact, PersonKey, Persons
from store.page_bytes import PageRows
from store.tenancy.banks import Banks
from store.tenancy.keys import Grant

DEFAULT_BANK = "default"
#: The order of the facts of a profile.
FACTS: ListOrder[Identity] = ListOrder(
    "facts of a person", lambda one: (one.fact_id, one.subject, one.key), (read_name, read_name, read_name)
)


class ProfileParameters(BaseModel):
    """A user, in one bank or in all that the key can read; or a person by name in a bank."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_id: Name | None = Field(
        None, description="the caller's own id of the user; left out, without `name`: the user of the key"
    )
    name: Name | None = Field(None, repr=False, description="name of the person, as it is said in the bank")
    bank: BankName | None = Field(
        None, description="bank to read; left out: all that the key reads for a user, `default` for a name alone"
    )
    history: bool = Field(False, description="whether each fact lists those that it replaced, up to 63")
    limit: Limit = 200
    cursor: Cursor = None


class FactAnswer(WireModel):
    """A fact of a person."""

    fact_id: str = Field(description="id of the fact")
    key: str = Field(description="what of the person it tells")
    value: str = Field(description="what it tells")
    text: str = Field(description="the fact as a text")
    since: datetime = Field(description="since when it holds")
    until: datetime | None = Field(description="until when it held; null: it still holds")
    superseded_by: UUID | None = Field(description="id of the fact that superseded it")
    state: FactState = Field(
        description="`active`: it holds; `superseded`: another value was said later; `contradicted`: it was denied "
        "later, or its opposite was said; `superseded_by` says by which fact"
    )
    deletion_proposed_by: list[UUID] = Field(
        description="messages because of which the model that reads turns proposes to delete it; it holds meanwhile"
    )
    stated: int = Field(description="number of turns that state it; the earlier statements are consolidated in it")
    confidence: float | None = Field(description="confidence, 0 to 1; null: not known")
    bank: str = Field(description="bank of the fact")
    unit_id: UUID = Field(description="id of its newest statement")
    session_id: SessionOf
    turn_id: TurnOf
    said_at: datetime = Field(description="time of its newest statement")
    sources: list[UUID] = Field(description="messages of its newest statement")
    history: list["FactAnswer"] = Field(description="facts that it replaced, the newest first, told with `history`")


class ProfileAnswer(PageAnswer):
    """A page of the profile of a person; facts are in the order of their ids, subjects and keys."""

    names: list[str] = Field(description="names of the person")
    facts: list[FactAnswer] = Field(description="facts of the person")
    beside: list[CooccurringEntity] = Field(description="people and things that occur together with the person")
    whole: bool = Field(description="false where more facts follow")
    ended: list[EndedFacts] = Field(
        description="with `history`: how many facts of the person no answer shows any more, and why"
    )


async def read_profile(
    persons: Persons, banks: Banks, grant: Grant, asked: ProfileParameters
) -> tuple[Person, Page[Identity]]:
    """Return a page of a person's profile. A user's key can ask for its own user, and by name in a bank it reaches.

    Raises Invalid where no person is named, PermissionDenied.
    """
    user = asked.user_id if asked.name else asked.user_id or grant.user
    if user is None and asked.name is None:
        raise Invalid(FieldProblem("user_id", "say whose profile: user_id, name, or both"))
    if user is not None:
        resolve_speaker(grant, user)
    bank = asked.bank or (None if user else DEFAULT_BANK)
    names = listable_names(grant) if bank is None else [await resolve_bank(banks, grant, bank)]
    scope = "\0".join(map(str, (user, asked.name, asked.bank, asked.history)))
    after = FACTS.open(grant.host_id, scope, asked.cursor)
    person = await persons.of(
        grant.host_id,
        grant.space,
        PersonKey(user, asked.name),
        banks=names,
        history=asked.history,
        limit=asked.limit,
        after=None if after is None else Identity(*after),
    )
    last = [] if person.last is None else [person.last]
    return person, FACTS.end(grant.host_id, scope, PageRows(last, more=bool(last)))


def as_json(person: Person, page: Page[Identity]) -> dict[str, Any]:
    """Return the API's JSON of a page of a profile."""
    return {
        "names": list(person.names),
        "facts": [_fact_json(one) for one in person.facts],
        "beside": list(person.beside),
        "whole": person.last is None,
        "ended": list(person.ended),
        "cursor": page.cursor,
        "has_more": page.cursor is not None,
    }


def _fact_json(one: PersonFact) -> dict[str, Any]:
    return {
        "fact_id": one.identity.fact_id,
        "key": one.key,
        "value": one.value,
        "text": one.text,
        "since": one.since,
        "until": one.until,
        "superseded_by": one.superseded_by and str(one.superseded_by),
        "state": one.state,
        "deletion_proposed_by": [str(message) for message in one.deletion_proposed_by],
        "stated": one.stated,
        "confidence": one.confidence,
        "bank": one.bank,
        "unit_id": str(one.unit_id),
        "session_id": one.session_name,
        "turn_id": one.turn_name,
        "said_at": one.said_at,
        "sources": [str(source) for source in one.sources],
        "history": [_fact_json(before) for before in one.history],
    }
