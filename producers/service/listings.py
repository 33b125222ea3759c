"""Lists of a key's sessions, turns, units and users, and their wire shapes."""

from dataclasses import replace
from uuid import UUID

from afterturn_client.contract.lists import (
    ListedSession,
    ListedTurn,
    ListedUnit,
    ListedUser,
    SessionPage,
    TurnPage,
    UnitPage,
    UserPage,
)
from afterturn_client.contract.sessions import SessionDetails, TurnPlace
from afterturn_client.contract.turns import TurnMessage
from pydantic import Field

from producers import fair_queue
from producers.service.banks import listable_names, reaches_bank
from producers.service.dependencies import ServiceDependencies
from producers.service.fields import DefaultBank, Name, SessionId
from producers.service.paging import (
    BankPageParameters,
    ListOrder,
    PageParameters,
    read_position,
)
from producers.service.redacting import Redactor
from producers.service.wire import Parameters
from producers.settings import ApiSettings
from producers.turns.items import measure_value
from store import identity
from store.errors import NotFound
from store.log.event_data import UnitOrigin as StoredOrigin
from store.memory.listings import (
    ALL_UNITS,
    ChosenUnits,
)
from store.off_loop import run_off_loop
from store.tenancy.keys import Grant

#: The most messages of a session that are shown.
MOST_MESSAGES = 1000


class TurnsParameters(BankPageParameters):
    """A session of a bank, and the page of its turns."""

    session_id: SessionId


class UnitsParameters(BankPageParameters):
    """A bank, which of its units are listed, and the page."""

    origin: StoredOrigin | None = Field(None, description="lists the units of this origin alone; left out: of any")
    doc_id: UUID | None = Field(None, description="lists the chunks of this document alone; left out: of any")
    user_id: Name | None = Field(
        None, description="lists the units of this user alone, by the caller's own id; left out: of anybody"
    )


class SessionParameters(Parameters):
    """The bank of a session, and how many of its newest messages are shown."""

    bank: DefaultBank = "default"
    messages: int = Field(
        40, ge=0, le=MOST_MESSAGES, description=f"number of its newest messages to show, up to {MOST_MESSAGES}"
    )


class SessionPlace(SessionParameters):
    """A session of a bank, and how many of its newest messages are shown."""

    session_id: SessionId


def _mask_history(redactor: Redactor, found: SessionDetails) -> SessionDetails:
    """Return a session whose messages hold no secrets, however they came into the history."""
    masked = (
        replace(one, name=one.name and redactor.redact_text(one.name), content=redactor.redact_value(one.content))
        for one in found.history
    )
    return replace(found, history=tuple(masked))


SESSIONS: ListOrder[tuple[UUID, ListedSession]] = ListOrder(
    "sessions", lambda one: (one[1].last_position, one[0]), (read_position, UUID)
)
TURNS: ListOrder[tuple[int, ListedTurn]] = ListOrder("turns", lambda one: one[:1], (read_position,))
UNITS: ListOrder[ListedUnit] = ListOrder("units", lambda one: (one.unit_id,), (UUID,))
USERS: ListOrder[ListedUser] = ListOrder("users", lambda one: (one.user,), (UUID,))


class Lists:
    """Lists of what a key can read; every call takes its grant."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        """Keep the dependencies; `settings` say which secrets of a history are masked."""
        self._dependencies = dependencies
        self._settings = settings
        self._listings = dependencies.turns.listings

    async def sessions(self, grant: Grant, asked: BankPageParameters) -> SessionPage:
        """Return a page of a bank's sessions. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        place = SESSIONS.open(grant.host_id, bank, asked.cursor)
        found = await self._listings.sessions(grant.host_id, bank, place, asked.limit + 1)
        page = SESSIONS.close(grant.host_id, bank, found, asked.limit)
        return SessionPage(sessions=tuple(one for _, one in page.rows), **page.describe_end())

    async def session(self, grant: Grant, asked: SessionPlace) -> SessionDetails:
        """Return a session with its newest messages, whose secrets are masked. Raises NotFound, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        place = grant.host_id, bank, asked.session_id
        found = await self._dependencies.turns.session_messages.get(*place, asked.messages)
        size = sum(measure_value(one.content) for one in found.history)
        fair_queue.charge_tenant(size)
        return await run_off_loop(size, _mask_history, Redactor.of(self._settings, grant), found)

    async def turns(self, grant: Grant, asked: TurnsParameters) -> TurnPage:
        """Return a page of a session's turns. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        scope = f"{bank}\0{asked.session_id}"
        place = TURNS.open(grant.host_id, scope, asked.cursor)
        found = await self._listings.turns(
            grant.host_id, bank, asked.session_id, place[0] if place else None, asked.limit + 1
        )
        page = TURNS.close(grant.host_id, scope, found, asked.limit)
        return TurnPage(turns=tuple(one for _, one in page.rows), **page.describe_end())

    async def messages(self, grant: Grant, bank: str, session_name: str, turn_name: str) -> list[TurnMessage]:
        """Return the remembered messages of a turn. Raises PermissionDenied."""
        bank = await self._dependencies.reach(grant, bank)
        return await self._listings.messages(grant.host_id, bank, session_name, turn_name)

    async def turn_place(self, grant: Grant, turn: UUID) -> TurnPlace:
        """Return the names of a turn by its id. Raises NotFound, also for one in a bank that the key does not reach."""
        found = await self._listings.turn_place(grant.host_id, turn)
        if found is None or not await reaches_bank(self._dependencies.banks, grant, found.bank):
            raise NotFound("no such turn")
        return found

    async def units(self, grant: Grant, asked: UnitsParameters) -> UnitPage:
        """Return a page of a bank's units. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        user = None if asked.user_id is None else identity.user_id(grant.host_id, asked.user_id)
        chosen = ChosenUnits(asked.origin, asked.doc_id, user)
        scope = bank if chosen == ALL_UNITS else f"{bank}\0{chosen.origin}\0{chosen.doc_id}\0{chosen.user}"
        return await UNITS.read_page(
            UnitPage,
            grant.host_id,
            scope,
            asked,
            lambda place, most: self._listings.units(grant.host_id, bank, place[0] if place else None, most, chosen),
        )

    async def users(self, grant: Grant, asked: PageParameters) -> UserPage:
        """Return a page of the users that a key reaches: for a user's key, its own user alone. Raises Invalid."""
        place = USERS.open(grant.host_id, "", asked.cursor)
        names = listable_names(grant)
        if grant.user is not None:
            own = ListedUser(user=identity.user_id(grant.host_id, grant.user), name=grant.user)
            return UserPage(users=() if place else (own,), cursor=None, has_more=False)
        after = place[0] if place else None
        found = await self._listings.users(grant.host_id, grant.space, names, after, asked.limit + 1)
        page = USERS.close(grant.host_id, "", found, asked.limit)
        return UserPage(users=tuple(page.rows), **page.describe_end())
