"""Lists sessions, units, turns and users of a tenant, page by page.

Each page begins after a place: the sort values of the last row before it (None: from the start); rows that are written
meanwhile shift no page.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from afterturn_client.contract.lists import ListedSession, ListedTurn, ListedUnit, ListedUser
from afterturn_client.contract.sessions import TurnPlace
from afterturn_client.contract.turns import TurnMessage
from sqlalchemy import (
    ColumnElement,
    FromClause,
    Row,
    Select,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    exists,
    func,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY

from store import identity
from store.database import Database
from store.derived.facts import DENIED
from store.derived.said_facts import FACT_KIND, ONE_BANK, SaidFact, read_said_facts
from store.expiry import bank_lasts, row_lasts
from store.log.event_data import UnitOrigin
from store.schema import BANK, EVENT_STORE, SESSION_HISTORY, TURN, UNIT, in_bank, same_bank
from store.sql_constants import ONE, inline
from store.tenancy.banks import scope_of
from store.tenancy.spaces import Space, parse_space
from store.text_lengths import has_at_most

#: Characters of a unit's text that a list shows.
SHOWN_CHARACTERS = 2_000

_SESSION, _UNIT, _EVENT = SESSION_HISTORY.c, UNIT.c, EVENT_STORE.c
# WHY no index: it would be written with every turn, and a bank has few sessions compared with its units.
SESSIONS = (
    select(
        _SESSION.session_id.label("place"),
        _SESSION.session_name.label("session_id"),
        _SESSION.turn_count.label("turns"),
        _SESSION.message_count.label("messages"),
        _SESSION.last_position,
        _SESSION.update_ts.label("updated_at"),
    )
    .where(_SESSION.host_id == bindparam("host"), _SESSION.bank_id == bindparam("bank"), _SESSION.active, bank_lasts())
    .order_by(_SESSION.last_position.desc(), _SESSION.session_id.desc())
)
_REMEMBERED = and_(in_bank(UNIT), _UNIT.active, row_lasts(UNIT), bank_lasts())


def _of_the_turn(other: FromClause) -> ColumnElement[bool]:
    """Return the condition that another unit is remembered and of the same turn."""
    same = (other.c[name] == _UNIT[name] for name in ("host_id", "bank_id", "turn_id"))
    return and_(*same, other.c.active, row_lasts(other))


_MESSAGE, _BEFORE = UNIT.alias("m"), UNIT.alias("p")
_MESSAGES = select(func.count()).select_from(_MESSAGE).where(_of_the_turn(_MESSAGE), _MESSAGE.c.origin == "message")
# A turn stands where the first of its messages that is remembered does.
TURNS = (
    select(
        _UNIT.seq.label("place"),
        _UNIT.turn_name.label("turn_id"),
        TURN.c.position,
        TURN.c.accepted_at,
        _MESSAGES.scalar_subquery().label("messages"),
    )
    .join_from(UNIT, TURN, and_(TURN.c.host_id == _UNIT.host_id, TURN.c.turn_id == _UNIT.turn_id))
    .where(
        _REMEMBERED,
        _UNIT.session_id == bindparam("session"),
        _UNIT.seq > bindparam("after"),
        ~exists().where(_of_the_turn(_BEFORE), _BEFORE.c.seq < _UNIT.seq),
    )
    .order_by(_UNIT.seq)
)
#: Types of parts that hold a message's words: text, and an item that an interface keeps whole.
SPOKEN_PARTS = frozenset({"text", "input_text", "output_text", "response_item"})
# The item itself is kept in the log alone, as in SessionHistory.
MESSAGES = (
    select(
        _UNIT.unit_id,
        _UNIT.ordinal,
        _UNIT.role,
        _UNIT.name,
        _UNIT.content,
        _UNIT.event_date,
        _EVENT.data["parts"].astext.label("parts"),
        _EVENT.data["content"].astext.label("said"),
    )
    .outerjoin_from(
        UNIT,
        EVENT_STORE,
        and_(*(_EVENT[name] == _UNIT[name] for name in ("host_id", "bank_id", "position"))),
    )
    .where(_REMEMBERED, _UNIT.turn_id == bindparam("turn"), _UNIT.origin == "message")
    .order_by(_UNIT.ordinal)
)
_OWN_BANK = and_(BANK.c.host_id == _UNIT.host_id, BANK.c.bank_id == _UNIT.bank_id)
PLACE = (
    select(BANK.c.bank_name, _UNIT.session_name, _UNIT.turn_name)
    .join_from(TURN, UNIT, and_(*(TURN.c[name] == _UNIT[name] for name in ("host_id", "bank_id", "turn_id"))))
    .join(BANK, _OWN_BANK)
    .where(TURN.c.host_id == bindparam("host"), TURN.c.turn_id == bindparam("turn"))
    .where(*(condition for table in (UNIT, BANK) for condition in (table.c.active, row_lasts(table))))
    .limit(ONE)
)
UNITS = (
    select(
        _UNIT.unit_id,
        _UNIT.fact_type.label("kind"),
        func.left(_UNIT.content, SHOWN_CHARACTERS).label("text"),
        (~has_at_most(_UNIT.content, inline(SHOWN_CHARACTERS))).label("cut"),
        _UNIT.origin,
        _UNIT.session_name.label("session_id"),
        _UNIT.turn_name.label("turn_id"),
        _UNIT.ordinal,
        _UNIT.role,
        _UNIT.name,
        _UNIT.event_date.label("occurred_at"),
        _UNIT.position,
    )
    .where(_REMEMBERED, _UNIT["metadata"][inline(DENIED)].is_(None))
    .order_by(_UNIT.unit_id)
)
_USER = _UNIT.user_id
_OF_HOST = _UNIT.host_id == bindparam("host")


def _next_user(after: ColumnElement[UUID]) -> ColumnElement[UUID | None]:
    """Return the expression of the next user of the host, by the index of living units."""
    found = select(_USER).where(_OF_HOST, _UNIT.active, after < _USER).order_by(_USER)
    return found.limit(ONE).scalar_subquery()


# From user to user over an index, however much each of them said; under the policy of scopes where banks are narrowed.
# A scalar subquery, not `exists`: as a join the planner would read all users, in any order.
_USERS = select(_next_user(bindparam("user", type_=Uuid)).label("user_id")).cte("users", recursive=True)
_USERS = _USERS.union_all(select(_next_user(_USERS.c.user_id)).where(_USERS.c.user_id.is_not(None)))
_NAMES = bindparam("names", type_=ARRAY(Text))
_SEEN = (
    select(true())
    .join_from(UNIT, BANK, same_bank(UNIT, BANK))
    .where(
        _OF_HOST,
        _USERS.c.user_id == _USER,
        _UNIT.active,
        BANK.c.active,
        row_lasts(UNIT),
        row_lasts(BANK),
        or_(_NAMES.is_(None), BANK.c.bank_name == any_(_NAMES)),
    )
    .limit(ONE)
)
_PAGE = (
    select(_USERS.c.user_id)
    .where(_USERS.c.user_id.is_not(None), _USERS.c.user_id != bindparam("system"), _SEEN.scalar_subquery())
    .limit(bindparam("limit"))
    .subquery("page")
)
# The name of each user, as the log has it with one living unit of a bank that may be read.
_ASKED = func.unnest(bindparam("users", type_=ARRAY(Uuid))).table_valued("user_id").render_derived(name="asked")
_NAME = (
    select(_EVENT.data["userName"].astext)
    .select_from(UNIT)
    .join(BANK, same_bank(UNIT, BANK))
    .join(EVENT_STORE, and_(*(_EVENT[name] == _UNIT[name] for name in ("host_id", "bank_id", "position"))))
    .where(
        _OF_HOST,
        _ASKED.c.user_id == _USER,
        _UNIT.active,
        _UNIT.origin != "extraction",
        or_(_NAMES.is_(None), BANK.c.bank_name == any_(_NAMES)),
    )
    .limit(ONE)
)
USER_NAMES = select(_ASKED.c.user_id, _NAME.scalar_subquery())
USERS = select(_PAGE.c.user_id).order_by(_PAGE.c.user_id)
BEFORE_ALL = UUID(int=0)


@dataclass(frozen=True, slots=True)
class ChosenUnits:
    """Which units of a bank are listed: those of an origin, a document or a user; all where none is named."""

    origin: UnitOrigin | None = None
    doc_id: UUID | None = None
    user: UUID | None = None

    @property
    def holds_said_facts(self) -> bool:
        """Whether facts that no worker has written yet may be among them."""
        return self.origin in {None, "extraction"} and self.doc_id is None

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """Yield the conditions on a unit."""
        if self.origin is not None:
            yield _UNIT.origin == self.origin
        if self.doc_id is not None:
            yield _UNIT.doc_id == self.doc_id
        if self.user is not None:
            yield _UNIT.user_id == self.user

    def holds(self, said: SaidFact) -> bool:
        """Return whether a fact that no worker has written yet is among them."""
        return self.holds_said_facts and not said.fact.denied and self.user in {None, said.user_id}


ALL_UNITS = ChosenUnits()


class Listings:
    """Reads lists of a tenant's memory; those of an unknown bank are empty."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def sessions(
        self, host: UUID, bank: str, after: tuple[int, UUID] | None, limit: int
    ) -> list[tuple[UUID, ListedSession]]:
        """Return the sessions of a bank with their ids in the log, the one with the newest turn first.

        A session that goes on while pages are read moves to the front.
        """
        query = SESSIONS.limit(limit)
        if after is not None:
            query = query.where(tuple_(_SESSION.last_position, _SESSION.session_id) < tuple_(*after))
        return [(key, ListedSession(**named)) for key, named in await self._read_placed(query, host, bank, {})]

    async def turns(
        self, host: UUID, bank: str, session_name: str, after: int | None, limit: int
    ) -> list[tuple[int, ListedTurn]]:
        """Return the turns of a session in their order, without those of which nothing is remembered.

        Each with the number in the session of its first remembered message.
        """
        session = identity.session_id(identity.bank_id(host, bank), session_name)
        asked = {"session": session, "after": -1 if after is None else after}
        return [
            (seq, ListedTurn(**named)) for seq, named in await self._read_placed(TURNS.limit(limit), host, bank, asked)
        ]

    async def messages(self, host: UUID, bank: str, session_name: str, turn_name: str) -> list[TurnMessage]:
        """Return the remembered messages of a turn, in their order."""
        session = identity.session_id(identity.bank_id(host, bank), session_name)
        rows = await self._read(MESSAGES, host, bank, {"turn": identity.turn_id(session, turn_name)})
        return [_show_message(row) for row in rows]

    async def turn_place(self, host: UUID, turn: UUID) -> TurnPlace | None:
        """Return the names of a turn by its id; None where nothing of it is remembered."""
        async with self._database.tenant(host) as connection:
            found = await connection.execute(PLACE, {"host": host, "turn": turn, "now": self._clock()})
            row = found.one_or_none()
        return None if row is None else TurnPlace(bank=row[0], session_id=row[1], turn_id=row[2])

    async def units(
        self, host: UUID, bank: str, after: UUID | None, limit: int, chosen: ChosenUnits = ALL_UNITS
    ) -> list[ListedUnit]:
        """Return the chosen units of a bank in the order of their ids, without denials.

        Facts of its newest turns are among them before a worker has written them.
        """
        query = UNITS.limit(limit).where(*chosen.conditions())
        if after is not None:
            query = query.where(_UNIT.unit_id > after)
        place = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock()}
        async with self._database.tenant(host) as connection:
            rows = (await connection.execute(query, place)).all()
            said: Sequence[SaidFact] = ()
            if chosen.holds_said_facts:
                said = await read_said_facts(connection, ONE_BANK, place, self._database.retention)
        listed = {
            one.unit_id: _list_said_fact(one)
            for one in said
            if chosen.holds(one) and (after is None or one.unit_id > after)
        }
        listed |= {row.unit_id: ListedUnit(**row._asdict()) for row in rows}
        return sorted(listed.values(), key=lambda unit: unit.unit_id)[:limit]

    async def users(
        self, host: UUID, space: Space, names: Sequence[str] | None, after: UUID | None, limit: int
    ) -> list[ListedUser]:
        """Return the users with units in the banks that a caller of `space` may see, or in those of `names`.

        In the order of their ids. Turns without a user belong to the system user, who is not listed.
        """
        asked = {"user": after or BEFORE_ALL, "system": identity.user_id(host, None), "limit": limit}
        narrowed = None if names is None else list(names)
        async with self._database.scoped(host, *scope_of(host, space)) as connection:
            found = await connection.execute(USERS, {"host": host, "names": narrowed, "now": self._clock(), **asked})
            users = list(found.scalars())
            owners = await connection.execute(
                select(BANK.c.user_id, func.min(BANK.c.bank_name))
                .where(BANK.c.host_id == host, BANK.c.user_id.in_(users), BANK.c.active)
                .group_by(BANK.c.user_id)
            )
            known = {user: parse_space(bank_name).user for user, bank_name in owners}
            said = await connection.execute(USER_NAMES, {"host": host, "names": narrowed, "users": users})
            known |= {user: name for user, name in said if name}
        return [ListedUser(user=user, name=known.get(user)) for user in users]

    async def user_name(self, host: UUID, user: UUID) -> str | None:
        """Return the name under which this user's units were handed in; None for an unknown one."""
        async with self._database.tenant(host) as connection:
            found = await connection.execute(USER_NAMES, {"host": host, "names": None, "users": [user]})
            return next((name for _user, name in found), None)

    async def _read_placed(
        self, statement: Select[*tuple[Any, ...]], host: UUID, bank: str, asked: Mapping[str, Any]
    ) -> list[tuple[Any, Mapping[str, Any]]]:
        """Return the `place` of each row, and its other columns by name."""
        rows = [row._asdict() for row in await self._read(statement, host, bank, asked)]
        return [(row.pop("place"), row) for row in rows]

    async def _read(
        self, statement: Select[*tuple[Any, ...]], host: UUID, bank: str, asked: Mapping[str, Any]
    ) -> Sequence[Any]:
        async with self._database.tenant(host) as connection:
            place = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock(), **asked}
            return (await connection.execute(statement, place)).all()


def _list_said_fact(said: SaidFact) -> ListedUnit:
    text = said.fact.statement
    return ListedUnit(
        unit_id=said.unit_id,
        kind=FACT_KIND,
        text=text[:SHOWN_CHARACTERS],
        cut=len(text) > SHOWN_CHARACTERS,
        origin="extraction",
        session_id=said.session_name,
        turn_id=said.turn_name,
        ordinal=None,
        role=None,
        name=None,
        occurred_at=said.said_at,
        position=said.said,
    )


def _show_message(row: Row[Any]) -> TurnMessage:
    return TurnMessage(
        unit_id=row.unit_id,
        ordinal=row.ordinal,
        role=row.role,
        name=row.name,
        content=row.content,
        occurred_at=row.event_date,
        parts=tuple(_read_parts(row)),
    )


def _read_parts(row: Row[Any]) -> Sequence[Mapping[str, Any]]:
    """Return a message's parts; those with words give place to the text that a correction gave it."""
    parts: Sequence[Mapping[str, Any]] = orjson.loads(row.parts) if row.parts else ()
    if not parts or row.said == row.content:
        return parts
    return ({"type": "text", "text": row.content}, *(part for part in parts if part.get("type") not in SPOKEN_PARTS))
