"""Lists of a key's sessions, turns, units and users, and their wire shapes."""

from dataclasses import asdict, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from afterturn_client.contract.sessions import SessionDetails, TurnPlace
from pydantic import BaseModel, ConfigDict, Field

from producers import fair_queue
from producers.service.banks import listable_names, reaches_bank
from producers.service.dependencies import ServiceDependencies
from producers.service.fields import DefaultBank, Name, SessionId
from producers.service.paging import (
    BankPageParameters,
    ListOrder,
    Page,
    PageAnswer,
    PageParameters,
    read_position,
)
from producers.service.redacting import Redactor
from producers.service.wire import (
    LogPosition,
    Role,
    SessionOf,
    SpeakerName,
    TurnOf,
    UnitId,
    UnitKind,
    UnitOrdinal,
    UnitOrigin,
    UnitTime,
    WireModel,
)
from producers.settings import ApiSettings
from producers.turns.items import measure_value
from store import identity
from store.errors import NotFound
from store.log.event_data import UnitOrigin as StoredOrigin
from store.memory.listings import (
    ALL_UNITS,
    ChosenUnits,
    SessionListed,
    TurnListed,
    TurnMessageShown,
    UnitListed,
    UserListed,
)
from store.off_loop import run_off_loop
from store.tenancy.keys import Grant

#: What the API calls the caller's own names of sessions and turns.
_WIRE_NAMES = {"session_name": "session_id", "turn_name": "turn_id"}
#: The most messages of a session that are shown.
MOST_MESSAGES = 1000
#: What orders a list and is not shown.
_OF_ORDER = frozenset({"key", "seq"})


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


class SessionParameters(BaseModel):
    """The bank of a session, and how many of its newest messages are shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bank: DefaultBank = "default"
    messages: int = Field(
        40, ge=0, le=MOST_MESSAGES, description=f"number of its newest messages to show, up to {MOST_MESSAGES}"
    )


class SessionPlace(SessionParameters):
    """A session of a bank, and how many of its newest messages are shown."""

    session_id: SessionId


class SessionListedAnswer(WireModel):
    """A session."""

    session_id: SessionOf
    turns: int = Field(description="number of its turns")
    messages: int = Field(description="number of its messages")
    last_position: int = Field(description="position of its newest turn in the event log")
    updated_at: datetime = Field(description="time of its newest turn")


class SessionsAnswer(PageAnswer):
    """A page of a bank's sessions, the one with the newest turn first."""

    sessions: list[SessionListedAnswer] = Field(description="sessions, the one with the newest turn first")


class TurnListedAnswer(WireModel):
    """A turn."""

    turn_id: TurnOf
    position: LogPosition
    accepted_at: datetime = Field(description="time at which the turn was accepted")
    messages: int = Field(description="number of its stored messages")


class TurnsAnswer(PageAnswer):
    """A page of a session's turns, in their order."""

    turns: list[TurnListedAnswer] = Field(description="turns, in the order of the session")


class UnitListedAnswer(WireModel):
    """A unit of a list."""

    unit_id: UnitId
    kind: UnitKind
    text: str = Field(description="text, or its first 2,000 characters")
    cut: bool = Field(description="whether the text is longer: get it by `unit_id`")
    origin: UnitOrigin
    session_id: SessionOf
    turn_id: TurnOf
    ordinal: UnitOrdinal
    role: Role
    name: SpeakerName
    occurred_at: UnitTime
    position: LogPosition


class UnitsAnswer(PageAnswer):
    """A page of a bank's units, in the order of their ids."""

    units: list[UnitListedAnswer] = Field(description="units, in the order of their ids")


class UserListedAnswer(WireModel):
    """A user with stored memories."""

    user: UUID = Field(description="id of the user")
    name: str | None = Field(
        description="the caller's own id of the user, where a bank of the user or the key names it; else null"
    )


class UsersAnswer(PageAnswer):
    """A page of the users that the key can read, by id."""

    users: list[UserListedAnswer] = Field(description="users, in the order of their ids")


def row_as_json(row: SessionListed | TurnListed | UnitListed) -> dict[str, Any]:
    """Return the API's JSON of a listed row: the caller's names under the names that the API gives them."""
    return {_WIRE_NAMES.get(name, name): value for name, value in asdict(row).items() if name not in _OF_ORDER}


def _mask_history(redactor: Redactor, found: SessionDetails) -> SessionDetails:
    """Return a session whose messages hold no secrets, however they came into the history."""
    masked = (
        replace(one, name=one.name and redactor.redact_text(one.name), content=redactor.redact_value(one.content))
        for one in found.history
    )
    return replace(found, history=tuple(masked))


def _session_place(session: SessionListed) -> tuple[object, ...]:
    return session.last_position, session.key


def _turn_place(turn: TurnListed) -> tuple[object, ...]:
    return (turn.seq,)


def _unit_place(unit: UnitListed) -> tuple[object, ...]:
    return (unit.unit_id,)


def _user_place(user: UserListed) -> tuple[object, ...]:
    return (user.user,)


SESSIONS: ListOrder[SessionListed] = ListOrder("sessions", _session_place, (read_position, UUID))
TURNS: ListOrder[TurnListed] = ListOrder("turns", _turn_place, (read_position,))
UNITS: ListOrder[UnitListed] = ListOrder("units", _unit_place, (UUID,))
USERS: ListOrder[UserListed] = ListOrder("users", _user_place, (UUID,))


class Lists:
    """Lists of what a key can read; every call takes its grant."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        """Keep the dependencies; `settings` say which secrets of a history are masked."""
        self._dependencies = dependencies
        self._settings = settings
        self._listings = dependencies.turns.listings

    async def sessions(self, grant: Grant, asked: BankPageParameters) -> Page[SessionListed]:
        """Return a page of a bank's sessions. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        place = SESSIONS.open(grant.host_id, bank, asked.cursor)
        found = await self._listings.sessions(grant.host_id, bank, place, asked.limit + 1)
        return SESSIONS.close(grant.host_id, bank, found, asked.limit)

    async def session(self, grant: Grant, asked: SessionPlace) -> SessionDetails:
        """Return a session with its newest messages, whose secrets are masked. Raises NotFound, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        place = grant.host_id, bank, asked.session_id
        found = await self._dependencies.turns.session_messages.get(*place, asked.messages)
        size = sum(measure_value(one.content) for one in found.history)
        fair_queue.charge_tenant(size)
        return await run_off_loop(size, _mask_history, Redactor.of(self._settings, grant), found)

    async def turns(self, grant: Grant, asked: TurnsParameters) -> Page[TurnListed]:
        """Return a page of a session's turns. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        scope = f"{bank}\0{asked.session_id}"
        place = TURNS.open(grant.host_id, scope, asked.cursor)
        found = await self._listings.turns(
            grant.host_id, bank, asked.session_id, place[0] if place else None, asked.limit + 1
        )
        return TURNS.close(grant.host_id, scope, found, asked.limit)

    async def messages(self, grant: Grant, bank: str, session_name: str, turn_name: str) -> list[TurnMessageShown]:
        """Return the remembered messages of a turn. Raises PermissionDenied."""
        bank = await self._dependencies.reach(grant, bank)
        return await self._listings.messages(grant.host_id, bank, session_name, turn_name)

    async def turn_place(self, grant: Grant, turn: UUID) -> TurnPlace:
        """Return the names of a turn by its id. Raises NotFound, also for one in a bank that the key does not reach."""
        found = await self._listings.turn_place(grant.host_id, turn)
        if found is None or not await reaches_bank(self._dependencies.banks, grant, found.bank):
            raise NotFound("no such turn")
        return found

    async def units(self, grant: Grant, asked: UnitsParameters) -> Page[UnitListed]:
        """Return a page of a bank's units. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        user = None if asked.user_id is None else identity.user_id(grant.host_id, asked.user_id)
        chosen = ChosenUnits(asked.origin, asked.doc_id, user)
        scope = bank if chosen == ALL_UNITS else f"{bank}\0{chosen.origin}\0{chosen.doc_id}\0{chosen.user}"
        place = UNITS.open(grant.host_id, scope, asked.cursor)
        after = place[0] if place else None
        found = await self._listings.units(grant.host_id, bank, after, asked.limit + 1, chosen)
        return UNITS.close(grant.host_id, scope, found, asked.limit)

    async def users(self, grant: Grant, asked: PageParameters) -> Page[UserListed]:
        """Return a page of the users that a key reaches: for a user's key, its own user alone. Raises Invalid."""
        place = USERS.open(grant.host_id, "", asked.cursor)
        names = listable_names(grant)
        if grant.user is not None:
            own = UserListed(identity.user_id(grant.host_id, grant.user), grant.user)
            return Page([] if place else [own], None)
        after = place[0] if place else None
        found = await self._listings.users(grant.host_id, grant.space, names, after, asked.limit + 1)
        return USERS.close(grant.host_id, "", found, asked.limit)
