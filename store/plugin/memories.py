"""Writes and forgets memories of the memory plugin: single units of a bank whose mark holds the caller's fields.

The mark is a JSON object in a unit's metadata, where other interfaces write only strings, so none of them can forge
one. A memory's times are in UTC, to the microsecond.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid4
from weakref import WeakValueDictionary

import orjson
from sqlalchemy import Integer, Text, and_, bindparam, cast, exists, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.coalescing import Coalescer
from store.database import Database
from store.driver_rows import DriverRow
from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import NotFound
from store.log.refusals import translate_refusals
from store.memory.memories import Memories, NewMemory
from store.memory.offered_turns import OfferedTurn
from store.memory.turn_writes import append_arguments, authorities_of
from store.memory.turns import MOST_BYTES
from store.plugin.marks import MARK, has_mark, is_marked, read_mark
from store.plugin.namespaces import read_namespaces
from store.plugin.vectors import CallersVector, insert_vector, keep_only
from store.schema import DIRECTIVE, DOC, SESSION_HISTORY, UNIT, in_bank
from store.sql_constants import inline
from store.tenancy.quotas import retry_on_quota

#: Memories that are ended per query when a namespace is forgotten.
PAGE = 200
NO_NAMESPACE = "no such namespace"
#: Takes the tenant, the memories (`append_arguments`), the digest, norm and dimension of each one's vector, the numbers
#: of all vectors, the traceparent of each, whether to wait for other writers, and the authority of each one's call.
APPEND = "select outcomes, positions from afterturn.accept_plugin_memories($1, $2, $3, $4, $5, $6, $7, $8, $9)"

_UNIT = UNIT.alias("u")
STATE = select(_UNIT.c.unit_id, cast(read_mark(_UNIT), Text).label("mark")).where(
    in_bank(_UNIT), _UNIT.c.session_id == bindparam("session"), _UNIT.c.seq.is_not(None), is_marked(_UNIT)
)
OWN = (
    select(_UNIT.c.turn_name)
    .where(in_bank(_UNIT), is_marked(_UNIT))
    .order_by(_UNIT.c.unit_id)
    .limit(bindparam("page", type_=Integer))
)
_IS_OTHER = or_(
    _UNIT.c.origin.in_((inline("message"), inline("document"))),
    and_(_UNIT.c.origin == inline("memory"), ~has_mark(_UNIT)),
)
# Whether a bank holds anything that was not written through the plugin, apart from data derived from memories.
OTHERS = select(
    or_(
        exists().where(in_bank(_UNIT), _UNIT.c.active, _IS_OTHER),
        *(exists().where(in_bank(table), table.c.active) for table in (DIRECTIVE, DOC, SESSION_HISTORY)),
    )
)


@dataclass(frozen=True, slots=True)
class PluginMemory:
    """A memory as its caller wrote it; `propagation` is JSON text, kept unchanged."""

    memory_id: UUID | None
    content: str = field(repr=False)
    kind: str
    source: str
    expires_at: datetime | None = None
    propagation: str | None = field(default=None, repr=False)
    pin: bool = False
    vector: CallersVector | None = field(default=None, repr=False)
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory as it is read; `score` is None in a listing."""

    bank: UUID
    unit: UUID
    memory_id: UUID
    content: str = field(repr=False)
    kind: str
    source: str
    created_at: datetime
    expires_at: datetime | None
    propagation: str | None = field(repr=False)
    pin: bool
    score: float | None = None

    @property
    def size(self) -> int:
        """The bytes of what its caller wrote."""
        return len(self.content.encode()) + len((self.propagation or "").encode())


#: A memory to append, with its caller's vector.
Offered = tuple[OfferedTurn, CallersVector | None]
#: The outcome of appending it (`append_plugin_memories`), and its position.
Outcome = tuple[str, int | None]
#: Bytes of one number of a vector on the wire.
NUMBER_BYTES = 4


class PluginMemories:
    """The writer of memories: writes and forgets them in a tenant's namespaces."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._memories = Memories(database, clock)
        self._erasures = Erasures(database, clock)
        self._writes: WeakValueDictionary[UUID, Coalescer[Offered, Outcome]] = WeakValueDictionary()

    async def write(self, host: UUID, namespace: str, memory: PluginMemory) -> UUID:
        """Write a memory and return its id; durable and found when this returns. Replaces one of this id in all fields.

        Raises NotFound for a namespace that does not exist, QuotaExceeded, RateLimited, TurnBusy.
        """
        memory_id = memory.memory_id or uuid4()

        async def permit(_unit: UUID) -> None:
            """Permit that a memory is replaced: only the plugin uses its name."""

        append = partial(self._append, host, memory.vector)
        write_vector = partial(self._replace_vector, host, namespace, memory_id, memory.vector)
        kept = _as_kept(namespace, memory_id, memory)
        await self._memories.keep(host, kept, permit, append, write_vector)
        return memory_id

    async def _append(self, host: UUID, vector: CallersVector | None, memory: OfferedTurn) -> Outcome:
        """Append a memory with its vector, coalesced with concurrent writes. Raises NotFound without its namespace."""
        outcome, position = await self._find_coalescer(host).ask((memory, vector))
        if outcome == "held":
            [(outcome, position)] = await self._write(host, [(memory, vector)], wait=True)
        if outcome == "gone":
            raise NotFound(NO_NAMESPACE)
        return outcome, position

    def _find_coalescer(self, host: UUID) -> Coalescer[Offered, Outcome]:
        """Return the tenant's coalescer of concurrent writes: the higher the load, the cheaper is each write."""
        if (found := self._writes.get(host)) is None:
            write = partial(self._write, host, wait=False)
            # One call at a time: with two, 16 writers found one free for almost every memory, and their p95 was 1.5 x.
            found = self._writes[host] = Coalescer(write, MOST_BYTES, weigh=_weigh_write, eager=True)
        return found

    async def _write(self, host: UUID, offered: Sequence[Offered], *, wait: bool) -> list[Outcome]:
        """Append memories in one call and return their outcomes; the later of two of one name is `busy`."""
        first = {memory.turn: n for n, (memory, _) in reversed(list(enumerate(offered)))}
        once = sorted(first.values())
        memories = [offered[n][0] for n in once]
        vectors = [offered[n][1] for n in once]
        arguments = (
            *append_arguments(host, memories, wait=wait)[:2],
            [vector and vector.digest for vector in vectors],
            [vector and vector.norm for vector in vectors],
            [vector.dimension if vector else 0 for vector in vectors],
            [number for vector in vectors if vector for number in vector.numbers],
            [memory.traceparent for memory in memories],
            wait,
            authorities_of(memories),
        )

        async def write() -> list[Outcome]:
            [(outcomes, positions)] = await self._database.fetch(APPEND, *arguments)
            return list(zip(outcomes, positions, strict=True))

        with translate_refusals():
            found = dict(zip(once, await retry_on_quota(write), strict=True))
        return [found.get(n, ("busy", None)) for n in range(len(offered))]

    async def _replace_vector(
        self, host: UUID, namespace: str, memory_id: UUID, vector: CallersVector | None, connection: AsyncConnection
    ) -> None:
        """Replace a memory's vector in the transaction of its text. Raises NotFound without its namespace."""
        if not await read_namespaces(connection, host, [namespace]):
            raise NotFound(NO_NAMESPACE)
        place = _locate_memory(host, namespace, memory_id)
        if vector is not None:
            await insert_vector(connection, place, vector, self._clock())
        await keep_only(connection, place, vector.digest if vector else "")

    async def forget(self, host: UUID, namespace: str, memory_id: UUID) -> UUID:
        """Forget a memory, which no read finds after this; return the erasure that removes its text.

        `Erasures.run` continues the erasure. Raises NotFound.
        """
        place = _locate_memory(host, namespace, memory_id)
        async with self._database.tenant(host) as connection:
            row = (await connection.execute(STATE, place)).one_or_none()
        if row is None or _has_passed(orjson.loads(row.mark).get("expires_at"), self._clock()):
            raise NotFound("memory not found in namespace")
        erasure = await self._erasures.request(host, ErasureTarget(Kind.UNIT, namespace, str(row.unit_id)))
        await self._memories.end(host, namespace, name_memory(memory_id))
        async with self._database.tenant(host) as connection:
            await keep_only(connection, place, "")
        return erasure

    async def forget_all(self, host: UUID, namespace: str) -> list[UUID]:
        """Forget all memories of a namespace; return the erasures that remove their texts.

        A bank that holds nothing else is erased as a whole; data from other interfaces stays.
        """
        bank = identity.bank_id(host, namespace)
        async with self._database.tenant(host) as connection:
            others = bool((await connection.execute(OTHERS, {"host": host, "bank": bank})).scalar())
        if not others:
            return [await self._erasures.request(host, ErasureTarget(Kind.BANK, namespace))]
        erasures: list[UUID] = []
        while names := await self._own(host, bank):
            erasures += [await self._end(host, namespace, name) for name in names]
        return erasures

    async def _own(self, host: UUID, bank: UUID) -> Sequence[str]:
        async with self._database.tenant(host) as connection:
            found = await connection.execute(OWN, {"host": host, "bank": bank, "page": PAGE})
            return list(found.scalars())

    async def _end(self, host: UUID, namespace: str, name: str) -> UUID:
        unit = await self._memories.find(host, namespace, name)
        erasure = await self._erasures.request(host, ErasureTarget(Kind.UNIT, namespace, str(unit)))
        await self._memories.end(host, namespace, name)
        return erasure


def _weigh_write(offered: Offered) -> int:
    memory, vector = offered
    return memory.weight + (NUMBER_BYTES * vector.dimension if vector else 0)


def build_memory(row: DriverRow, score: float | None = None) -> StoredMemory:
    """Return the memory that a row of `memory_columns` holds."""
    mark = orjson.loads(row.mark)
    end = mark.get("expires_at")
    return StoredMemory(
        bank=row.bank_id,
        unit=row.unit_id,
        memory_id=UUID(mark["id"]),
        content=row.content,
        kind=mark["kind"],
        source=mark["source"],
        created_at=row.mentioned_at,
        expires_at=None if end is None else datetime.fromisoformat(end),
        propagation=mark.get("propagation"),
        pin=row.pinned,
        score=score,
    )


def name_memory(memory_id: UUID) -> str:
    """Return the name of a memory in its bank: names from other interfaces have no line break."""
    return f"plugin\n{memory_id}"


def _locate_memory(host: UUID, namespace: str, memory_id: UUID) -> dict[str, Any]:
    bank = identity.bank_id(host, namespace)
    return {"host": host, "bank": bank, "session": identity.memory_session(bank, name_memory(memory_id))}


def _as_kept(namespace: str, memory_id: UUID, memory: PluginMemory) -> NewMemory:
    mark: Mapping[str, Any] = {
        "id": str(memory_id),
        "kind": memory.kind,
        "source": memory.source,
        "pin": memory.pin or None,
        "expires_at": memory.expires_at and memory.expires_at.astimezone(UTC).isoformat(),
        "propagation": memory.propagation,
        "vector": memory.vector and memory.vector.digest,
    }
    name, told = name_memory(memory_id), {name: value for name, value in mark.items() if value is not None}
    return NewMemory(namespace, name, memory.content, metadata={MARK: told}, created_at=memory.created_at)


def _has_passed(end: str | None, now: datetime) -> bool:
    return end is not None and datetime.fromisoformat(end) <= now
