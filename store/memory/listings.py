"""What a tenant has, page by page: sessions and units of a bank, turns of a session, users.

Each list is read behind a place, the values by which its last row was ordered (None: from the start); what is written
meanwhile shifts no page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Row, TextClause, text

from store import identity
from store.database import Database
from store.derived.said_facts import FACT_KIND, ONE_BANK, SaidFact, read_said_facts
from store.expiry import BANK_LASTS, LASTS
from store.tenancy.banks import space_ids
from store.tenancy.spaces import Space, space_of

#: Characters of a unit's text that a list shows.
SHOWN_CHARACTERS = 2_000

# WHY no index of its own: it would be written with every turn, and a bank has few sessions beside its units.
SESSIONS = text(f"""
    select h.session_name, h.session_id, h.turn_count, h.message_count, h.last_position, h.update_ts
      from afterturn.agent_session_history_t h
     where h.host_id = :host and h.bank_id = :bank and h.active and {BANK_LASTS}
       and (cast(:position as bigint) is null
            or (h.last_position, h.session_id) < (cast(:position as bigint), cast(:session as uuid)))
     order by h.last_position desc, h.session_id desc limit :limit""")  # noqa: S608 - put together from constants
# A turn stands where the first of its messages that is remembered does.
TURNS = text(f"""
    select u.turn_name, u.seq, t.position, t.accepted_at,
           (select count(*) from afterturn.agent_memory_unit_t m
             where m.host_id = u.host_id and m.bank_id = u.bank_id and m.turn_id = u.turn_id
               and m.origin = 'message' and m.active and {LASTS.format(of="m")}) as messages
      from afterturn.agent_memory_unit_t u
      join afterturn.turn_t t on t.host_id = u.host_id and t.turn_id = u.turn_id
     where u.host_id = :host and u.bank_id = :bank and u.session_id = :session and u.seq > :seq and u.active
       and {LASTS.format(of="u")} and {BANK_LASTS}
       and not exists (select from afterturn.agent_memory_unit_t p
                        where p.host_id = u.host_id and p.bank_id = u.bank_id and p.turn_id = u.turn_id
                          and p.seq < u.seq and p.active and {LASTS.format(of="p")})
     order by u.seq limit :limit""")  # noqa: S608 - put together from constants
# The item itself is kept in the log alone, as in SessionHistory.
MESSAGES = text(f"""
    select u.unit_id, u.ordinal, u.role, u.name, u.content, u.event_date,
           e.data->>'parts' as parts
      from afterturn.agent_memory_unit_t u
      left join afterturn.event_store_t e
        on e.host_id = u.host_id and e.bank_id = u.bank_id and e.position = u.position
     where u.host_id = :host and u.bank_id = :bank and u.turn_id = :turn and u.origin = 'message' and u.active
       and {LASTS.format(of="u")} and {BANK_LASTS}
     order by u.ordinal""")  # noqa: S608 - put together from constants
UNITS = text(f"""
    select u.unit_id, u.fact_type, left(u.content, :shown) as content, char_length(u.content) > :shown as cut, u.origin,
           u.session_name, u.turn_name, u.ordinal, u.role, u.name, u.event_date, u.position
      from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.bank_id = :bank and u.active and {LASTS.format(of="u")} and {BANK_LASTS}
       and (cast(:unit as uuid) is null or u.unit_id > cast(:unit as uuid))
     order by u.unit_id limit :limit""")  # noqa: S608 - put together from constants
# From user to user over an index, however much each of them said; under the policy of scopes where banks are narrowed.
# A scalar subquery, not `exists`: as a join the planner would read all users, in any order.
USERS = text(f"""
    with recursive users as (
        (select u.user_id from afterturn.agent_memory_unit_t u
          where u.host_id = :host and u.active and u.user_id > cast(:user as uuid) order by u.user_id limit 1)
        union all
        select (select u.user_id from afterturn.agent_memory_unit_t u
                 where u.host_id = :host and u.active and u.user_id > w.user_id order by u.user_id limit 1)
          from users w where w.user_id is not null
    )
    select page.user_id from (
    select w.user_id from users w
     where w.user_id is not null and w.user_id <> :system
       and (select true from afterturn.agent_memory_unit_t u
                     join afterturn.agent_memory_bank_t b on b.host_id = u.host_id and b.bank_id = u.bank_id
                    where u.host_id = :host and u.user_id = w.user_id and u.active and b.active
                      and {LASTS.format(of="u")} and {LASTS.format(of="b")}
                      and (cast(:names as text[]) is null or b.bank_name = any(cast(:names as text[])))
             limit 1)
     limit :limit) page order by page.user_id""")  # noqa: S608 - put together from constants
OWN_BANKS = text("""
    select b.user_id, min(b.bank_name) as bank_name from afterturn.agent_memory_bank_t b
     where b.host_id = :host and b.user_id = any(cast(:users as uuid[])) and b.active group by 1""")
BEFORE_ALL = UUID(int=0)


@dataclass(frozen=True, slots=True)
class SessionListed:
    """A session; `session_id` is the agent's name for it, `last_position` that of its newest turn."""

    session_id: str | None
    key: UUID
    turns: int
    messages: int
    last_position: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TurnListed:
    """A turn of a session and how many of its messages are remembered; `seq`: its first one's number in the session."""

    turn_id: str | None
    seq: int
    position: int
    accepted_at: datetime
    messages: int


@dataclass(frozen=True, slots=True)
class TurnMessageShown:
    """One remembered message of a turn; `parts` are what came beside its text."""

    unit_id: UUID
    ordinal: int
    role: str | None
    name: str | None = field(repr=False)
    content: str = field(repr=False)
    occurred_at: datetime
    parts: Sequence[Mapping[str, Any]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class UnitListed:
    """A unit with the first `SHOWN_CHARACTERS` of its text; `cut` says that there is more."""

    unit_id: UUID
    kind: str
    text: str = field(repr=False)
    cut: bool
    origin: str
    session_id: str | None
    turn_id: str | None
    ordinal: int | None
    role: str | None
    name: str | None = field(repr=False)
    occurred_at: datetime
    position: int


@dataclass(frozen=True, slots=True)
class UserListed:
    """A user of whom something is remembered; `name` where a bank of the user's own tells it."""

    user: UUID
    name: str | None = field(repr=False)


class Listings:
    """Reads lists; a bank that is not there has none."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def sessions(self, host: UUID, bank: str, after: tuple[int, UUID] | None, limit: int) -> list[SessionListed]:
        """List the sessions of a bank, the one with the newest turn first.

        A session that goes on while pages are read moves to the front.
        """
        position, session = after or (None, None)
        asked = {"position": position, "session": session, "limit": limit}
        return [SessionListed(*row) for row in await self._read(SESSIONS, host, bank, asked)]

    async def turns(self, host: UUID, bank: str, session_id: str, after: int | None, limit: int) -> list[TurnListed]:
        """List the turns of a session in their order; those of which nothing is remembered are left out."""
        session = identity.session_id(identity.bank_id(host, bank), session_id)
        asked = {"session": session, "seq": -1 if after is None else after, "limit": limit}
        return [TurnListed(*row) for row in await self._read(TURNS, host, bank, asked)]

    async def messages(self, host: UUID, bank: str, session_id: str, turn_id: str) -> list[TurnMessageShown]:
        """Return the messages of a turn that are remembered, in their order."""
        session = identity.session_id(identity.bank_id(host, bank), session_id)
        rows = await self._read(MESSAGES, host, bank, {"turn": identity.turn_id(session, turn_id)})
        return [_show_message(row) for row in rows]

    async def units(self, host: UUID, bank: str, after: UUID | None, limit: int) -> list[UnitListed]:
        """List the units of a bank in the order of their ids.

        Facts of its newest turns are among them before a worker has written them.
        """
        asked = {"unit": after, "shown": SHOWN_CHARACTERS, "limit": limit}
        place = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock()}
        async with self._database.tenant(host) as connection:
            rows = (await connection.execute(UNITS, {**place, **asked})).all()
            said = await read_said_facts(connection, ONE_BANK, place)
        listed = {one.unit_id: _list_said_fact(one) for one in said if after is None or one.unit_id > after}
        listed |= {row.unit_id: UnitListed(*row) for row in rows}
        return sorted(listed.values(), key=lambda unit: unit.unit_id)[:limit]

    async def users(
        self, host: UUID, space: Space, names: Sequence[str] | None, after: UUID | None, limit: int
    ) -> list[UserListed]:
        """List the users whose words are in the banks that a caller of `space` may see, of `names` alone where given.

        In the order of their ids. Turns without a user are the host's own and make none.
        """
        asked = {"user": after or BEFORE_ALL, "system": identity.user_id(host, None), "limit": limit}
        narrowed = None if names is None else list(names)
        async with self._database.scoped(host, *space_ids(host, space)) as connection:
            found = await connection.execute(USERS, {"host": host, "names": narrowed, "now": self._clock(), **asked})
            users = list(found.scalars())
            owners = await connection.execute(OWN_BANKS, {"host": host, "users": users})
            known = {row.user_id: space_of(row.bank_name).user for row in owners}
        return [UserListed(user, known.get(user)) for user in users]

    async def _read(self, statement: TextClause, host: UUID, bank: str, asked: Mapping[str, Any]) -> Sequence[Any]:
        async with self._database.tenant(host) as connection:
            place = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock(), **asked}
            return (await connection.execute(statement, place)).all()


def _list_said_fact(said: SaidFact) -> UnitListed:
    text = said.fact.statement
    return UnitListed(
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


def _show_message(row: Row[Any]) -> TurnMessageShown:
    return TurnMessageShown(
        row.unit_id,
        row.ordinal,
        row.role,
        row.name,
        row.content,
        row.event_date,
        orjson.loads(row.parts) if row.parts else (),
    )
