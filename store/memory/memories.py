"""Single memories: one text each, written, replaced and ended by an id that its caller gives, without a turn.

A memory passes the stages like a turn. Its id names a session of its own in the bank; each life of it (from its
beginning to its end) is a turn of that session with one unit.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from afterturn_client.contract.receipts import ForgottenReceipt, MemoryReceipt
from sqlalchemy import Text, bindparam, cast, false, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.retry import Retry, wait_evenly
from store import identity
from store.database import Database
from store.errors import KeyReused, NotFound, TurnBusy
from store.expiry import NOW
from store.log.catalog import EventType
from store.log.envelope import Origin
from store.memory import corrections
from store.memory.offered_turns import OfferedTurn, build_turn_event, index_text
from store.memory.turn_writes import attach_call, write_offered
from store.memory.units import Units
from store.off_loop import run_off_loop
from store.schema import UNIT, in_bank
from store.tenancy.banks import bank_created_fields
from store.tenancy.languages import Languages, rules_for_writing
from store.tenancy.quotas import refusal_of, run_within_quota
from store.text.terms import lexical_text
from store.text.word_rules import WordRules

#: Retries for a memory that another request is writing.
LOOK_AGAIN = Retry(wait_evenly(0.025), attempts=200)

_UNIT = UNIT.c
LIVES = select(
    func.count().label("lives"),
    func.min(cast(_UNIT.unit_id, Text)).filter(_UNIT.active).label("living"),
    func.coalesce(func.bool_or(_UNIT.expires_at <= NOW).filter(_UNIT.active), false()).label("ended"),
    func.min(_UNIT.mentioned_at).filter(_UNIT.active).label("created_at"),
).where(in_bank(UNIT), _UNIT.session_id == bindparam("session"), _UNIT.seq.is_not(None), _UNIT.origin == "memory")

KEPT = select(
    _UNIT.content, _UNIT.fact_type, _UNIT.context, _UNIT["metadata"], _UNIT.event_date, _UNIT.mentioned_at
).where(in_bank(UNIT), _UNIT.unit_id == bindparam("unit"), _UNIT.active)
UNITS = select(_UNIT.unit_id).where(in_bank(UNIT), _UNIT.session_id == bindparam("session"), _UNIT.origin == "memory")

#: Appends a new memory in one call; returns its outcome (`append_turns`) and position.
Append = Callable[[OfferedTurn], Awaitable[tuple[str, int | None]]]
#: Called before an existing memory is replaced; raises where that is not allowed.
Permit = Callable[[UUID], Awaitable[None]]
#: Writes more with a replaced memory, in the same transaction, which holds its bank's lock shared; raises where the
#: memory must stay as it is.
WriteMore = Callable[[AsyncConnection], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A validated memory to write. `bank` is the bank's whole name, `memory_id` the caller's.

    `kind`: its fact type. `occurred_at`: when it happened, None for the time of writing. `created_at`: when it was
    first written, None for now; a replaced memory keeps its time. `metadata` is JSON, stored unchanged.
    `expires_at`: from then on no answer holds it.
    `agent`: the agent whose key hands it in.
    """

    bank: str
    memory_id: str
    content: str = field(repr=False)
    kind: str = "world"
    title: str | None = field(default=None, repr=False)
    user_id: str | None = None
    occurred_at: datetime | None = None
    created_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    expires_at: datetime | None = None
    private_to: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class _Lives:
    """How often a memory has begun, and its living unit, if any."""

    count: int
    living: UUID | None
    ended: bool
    created_at: datetime | None


#: Writes the life of a memory that this turn stands for; replaces the living unit created at that time. None: another
#: request was first.
_Begin = Callable[[UUID], Awaitable[MemoryReceipt | None]]
_Replace = Callable[[UUID, datetime], Awaitable[MemoryReceipt | None]]


def id_of_text(content: str) -> str:
    """Return the id of a memory without an id from its caller: the same text is the same memory."""
    return f"text-{hashlib.sha256(content.encode()).hexdigest()[:32]}"


class Memories:
    """Writes, replaces and ends single memories."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._units = Units(database, clock)
        self._languages = Languages(database)

    async def keep(
        self,
        host: UUID,
        memory: NewMemory,
        permit: Permit,
        append: Append | None = None,
        write_more: WriteMore | None = None,
    ) -> MemoryReceipt:
        """Write a memory: durable, readable and on its way through the stages when this returns.

        A memory of the same id in the bank is replaced whole, except for its time of creation; facts drawn from
        another text end. The same memory again changes nothing. A stage that works on its text begins anew.
        `permit` is called before a replacement, `append` writes a new memory, and `write_more` writes more in
        the transaction of a replacement. Raises QuotaExceeded, RateLimited, TurnBusy, and the errors of `permit`,
        `append` and `write_more`.
        """
        now = self._clock()
        origin = _origin_of(host, memory, now)
        begin = partial(self._begin, origin, memory, append or partial(self._append, host))
        session = identity.memory_session(origin.bank, memory.memory_id)

        async def replace(unit: UUID, created_at: datetime) -> MemoryReceipt | None:
            await permit(unit)
            return await self._replace(origin, memory, write_more, unit, created_at)

        return await run_within_quota(self._database, host, now, partial(self._keep, origin, session, begin, replace))

    async def keep_first(self, host: UUID, memory: NewMemory) -> MemoryReceipt | None:
        """Write a memory as `keep` does where none of its id was ever written in the bank; None: one was.

        Nothing is read before it is written. Raises QuotaExceeded, RateLimited, TurnEnded.
        """
        origin = _origin_of(host, memory, self._clock())
        first = identity.turn_id(identity.memory_session(origin.bank, memory.memory_id), "0")
        begin = partial(self._begin, origin, memory, partial(self._append, host), first)
        return await run_within_quota(self._database, host, origin.at, begin)

    async def find(self, host: UUID, bank: str, memory_id: str) -> UUID:
        """Return the id of a memory's unit. Raises NotFound for an unknown, ended or foreign memory."""
        bank_id = identity.bank_id(host, bank)
        lives = await self._read_lives(host, bank_id, identity.memory_session(bank_id, memory_id))
        if lives.living is None or lives.ended:
            raise NotFound("no such memory")
        return lives.living

    async def find_same(self, host: UUID, memory: NewMemory) -> UUID:
        """Return the id of the unit that a memory of this id has, where it is this memory, pinned or not.

        Raises NotFound for an unknown or ended one, KeyReused for another memory of this id.
        """
        unit = await self.find(host, memory.bank, memory.memory_id)
        place = {"host": host, "bank": identity.bank_id(host, memory.bank), "unit": unit}
        async with self._database.tenant(host) as connection:
            kept = (await connection.execute(KEPT, place)).one_or_none()
        if kept is None:
            raise NotFound("no such memory")
        *state, metadata, happened, created = kept
        offered = [memory.content, memory.kind, memory.title or None, _unpinned(memory.metadata)]
        if [*state, _unpinned(metadata)] != offered or happened != (memory.occurred_at or created):
            raise KeyReused("another memory was written under this id or key")
        return unit

    async def list_lives(self, host: UUID, bank: str, memory_id: str) -> Sequence[UUID]:
        """Return the ids of all units that a memory of this id had, ended ones included. Raises NotFound."""
        bank_id = identity.bank_id(host, bank)
        place = {"host": host, "bank": bank_id, "session": identity.memory_session(bank_id, memory_id)}
        async with self._database.tenant(host) as connection:
            found = (await connection.scalars(UNITS, place)).all()
        if not found:
            raise NotFound("no such memory")
        return found

    async def end(self, host: UUID, bank: str, memory_id: str, user: str | None = None) -> ForgottenReceipt:
        """End a memory, as `user`: gone from every read when this returns, with the facts drawn from it alone.

        Raises NotFound.
        """
        return await self._units.forget(host, bank, await self.find(host, bank, memory_id), user)

    async def _keep(self, origin: Origin, session: UUID, begin: _Begin, replace: _Replace) -> MemoryReceipt:
        # Most memories are new: for these nothing is read, because the guard of the first life tells the others.
        kept = await begin(identity.turn_id(session, "0"))
        if kept is not None:
            return kept

        async def look() -> MemoryReceipt:
            lives = await self._read_lives(origin.host, origin.bank, session)
            if lives.living is not None:
                found = await replace(lives.living, lives.created_at or origin.at)
            else:
                found = await begin(identity.turn_id(session, str(lives.count)))
            if found is None:
                raise _OvertakenError("this memory is being written by another request")
            return found

        return await LOOK_AGAIN.call(look, lambda error: 0.0 if isinstance(error, _OvertakenError) else None)

    async def _begin(self, origin: Origin, memory: NewMemory, append: Append, turn: UUID) -> MemoryReceipt | None:
        """Write a new memory; None where another request was first, or this life of it is over."""
        rules = rules_for_writing(await self._languages.of(origin.host), origin.bank)
        prepared = await run_off_loop(len(memory.content), prepare_memory, origin, memory, turn, rules)
        outcome, position = await append(attach_call(prepared))
        if error := refusal_of(outcome):
            raise error
        if outcome != "accepted" or position is None:
            return None
        unit = identity.unit_id(turn, 0)
        return MemoryReceipt(id=memory.memory_id, unit_id=unit, position=position, created=True, changed=True)

    async def _append(self, host: UUID, prepared: OfferedTurn) -> tuple[str, int | None]:
        [(outcome, position, _)] = await write_offered(self._database, host, [prepared])
        return outcome, position

    async def _replace(
        self, origin: Origin, memory: NewMemory, write_more: WriteMore | None, unit: UUID, created_at: datetime
    ) -> MemoryReceipt | None:
        """Replace an existing memory in one transaction; None where it ended meanwhile."""
        async with self._database.tenant(origin.host) as connection:
            try:
                found = await corrections.lock_unit(connection, origin, unit)
            except NotFound:
                return None
            if write_more is not None:
                await write_more(connection)
            state, size = _state_of(memory, created_at), _size_of(memory)
            done = await corrections.replace_unit(connection, origin, found, state, size)
        return MemoryReceipt(
            id=memory.memory_id, unit_id=unit, position=done.position, created=False, changed=done.changed
        )

    async def _read_lives(self, host: UUID, bank: UUID, session: UUID) -> _Lives:
        async with self._database.tenant(host) as connection:
            place = {"host": host, "bank": bank, "session": session, "now": self._clock()}
            row = (await connection.execute(LIVES, place)).one()
        return _Lives(row.lives, UUID(row.living) if row.living else None, row.ended, row.created_at)


class _OvertakenError(TurnBusy):
    """Another request wrote this memory first; its result can be read."""


def _unpinned(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != corrections.PINNED}


def _origin_of(host: UUID, memory: NewMemory, now: datetime) -> Origin:
    return Origin(host, identity.bank_id(host, memory.bank), identity.user_id(host, memory.user_id), now)


def _size_of(memory: NewMemory) -> int:
    """Return the bytes that quotas are charged for a memory."""
    metadata = len(orjson.dumps(memory.metadata)) if memory.metadata else 0
    return len(memory.content.encode()) + len((memory.title or "").encode()) + metadata


def _state_of(memory: NewMemory, created_at: datetime) -> dict[str, Any]:
    """Return the state of a memory, created at this time, by the fields of events: all that a replacement sets."""
    return {
        "content": memory.content,
        "factType": memory.kind,
        "eventDate": memory.occurred_at or created_at,
        "mentionedAt": created_at,
        "metadata": dict(memory.metadata),
        **({"context": memory.title} if memory.title else {}),
        **({"expiresAt": memory.expires_at} if memory.expires_at else {}),
    }


def prepare_memory(origin: Origin, memory: NewMemory, turn: UUID, rules: WordRules) -> OfferedTurn:
    """Return a new memory in the form `append_turns` takes: a turn with one unit."""
    unit, session = identity.unit_id(turn, 0), identity.memory_session(origin.bank, memory.memory_id)
    state = _state_of(memory, memory.created_at or origin.at)
    place = {"unitId": unit, "sessionId": session, "turnId": turn, "turnName": memory.memory_id, "ordinal": 0}
    by: dict[str, Any] = {"agentDefId": identity.agent_id(origin.host, memory.agent)} if memory.agent else {}
    by |= {"userName": memory.user_id} if memory.user_id else {}
    retained = {**place, **state, **by, "origin": "memory", "bytes": _size_of(memory)}
    bank = bank_created_fields(origin.host, memory.bank, memory.private_to)
    said = index_text(lexical_text(memory.title, state["eventDate"], memory.content, rules), rules)
    return OfferedTurn(
        turn=turn,
        bank=origin.bank,
        session=session,
        user=origin.user,
        # The state of the memory decides what is the same, not the guard of its turn.
        digest=hashlib.sha256(turn.bytes).digest(),
        gateway=False,
        accepted_at=origin.at,
        size=_size_of(memory),
        begins=True,
        events=[
            build_turn_event(origin, EventType.BANK_CREATED, (), bank),
            build_turn_event(origin, EventType.UNIT_RETAINED, (unit,), retained, indexed=said),
        ],
    )
