"""Requests of profiles: person, bank, and whether to include superseded facts."""

from afterturn_client.contract.facts import Profile
from pydantic import Field

from producers.errors import FieldProblem, Invalid
from producers.service.banks import listable_names, resolve_bank, resolve_speaker
from producers.service.fields import BankName, Name
from producers.service.paging import Cursor, Limit, ListOrder, read_name
from producers.service.wire import Parameters
from store.derived.facts import Identity
from store.derived.persons import PersonKey, Persons
from store.page_bytes import PageRows
from store.tenancy.banks import Banks
from store.tenancy.keys import Grant

DEFAULT_BANK = "default"
#: The order of the facts of a profile.
FACTS: ListOrder[Identity] = ListOrder(
    "facts of a person", lambda one: (one.fact_id, one.subject, one.key), (read_name, read_name, read_name)
)


class ProfileParameters(Parameters):
    """A user, in one bank or in all that the key can read; or a person by name in a bank."""

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


async def read_profile(persons: Persons, banks: Banks, grant: Grant, asked: ProfileParameters) -> Profile:
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
    page = FACTS.end(grant.host_id, scope, PageRows(last, more=bool(last)))
    return Profile(
        names=person.names,
        facts=person.facts,
        beside=person.beside,
        whole=person.last is None,
        ended=person.ended,
        **page.describe_end(),
    )
