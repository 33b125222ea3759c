"""Profiles as they are asked for: of whom, where, and whether with what was replaced. The same for every door."""

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from producers.errors import Invalid, Problem
from producers.service.banks import listable_names, resolve_bank, resolve_speaker
from producers.service.fields import BankName, Name
from store.derived.persons import Known, Person, Persons, Whom
from store.tenancy.banks import Banks
from store.tenancy.keys import Grant

DEFAULT_BANK = "default"
MAX_LISTED = 1000


class ProfileParameters(BaseModel):
    """Of a user, in one bank or in all that the key reaches; or of whom a bank calls by a name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_id: Name | None = None
    name: Name | None = Field(None, repr=False)
    bank: BankName | None = None
    history: bool = False
    limit: int = Field(200, ge=1, le=MAX_LISTED)


async def read_profile(persons: Persons, banks: Banks, grant: Grant, asked: ProfileParameters) -> Person:
    """Tell what is known of a person. A user's key asks about its own user, and by name in a bank it reaches.

    Raises Invalid where nobody is named, PermissionDenied.
    """
    user = asked.user_id if asked.name else asked.user_id or grant.user
    if user is None and asked.name is None:
        raise Invalid(Problem("user_id", "say whose profile: user_id, name, or both"))
    if user is not None:
        resolve_speaker(grant, user)
    bank = asked.bank or (None if user else DEFAULT_BANK)
    names = listable_names(grant) if bank is None else [await resolve_bank(banks, grant, bank)]
    return await persons.of(
        grant.host_id, grant.space, Whom(user, asked.name), banks=names, history=asked.history, limit=asked.limit
    )


def as_json(person: Person) -> dict[str, Any]:
    """Return a profile as the API shows it."""
    return {
        "names": list(person.names),
        "facts": [_fact_json(one) for one in person.facts],
        "beside": [asdict(one) for one in person.beside],
        "whole": person.whole,
    }


def _fact_json(one: Known) -> dict[str, Any]:
    return {
        "fact_id": one.identity.fact_id,
        "key": one.key,
        "value": one.value,
        "text": one.text,
        "since": one.since,
        "until": one.until,
        "superseded_by": one.superseded_by and str(one.superseded_by),
        "stated": one.stated,
        "confidence": one.confidence,
        "bank": one.bank,
        "unit_id": str(one.unit_id),
        "session_id": one.session_id,
        "turn_id": one.turn_id,
        "said_at": one.said_at,
        "sources": [str(source) for source in one.sources],
        "history": [_fact_json(before) for before in one.history],
    }
