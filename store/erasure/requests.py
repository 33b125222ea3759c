"""Rows of erasure requests: target, progress and receipt; ids and counts only."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

import orjson
from afterturn_client.contract.erasures import TextsAtModel
from sqlalchemy import Row, Select, Text, Update, cast, insert, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity, schema
from store.errors import NotFound
from store.memory import reflections
from store.snapshot.rows import describe_export, list_exports
from store.tenancy.external_models import split_counts

#: Where every erasure may leave copies that this service cannot reach.
BEYOND_REACH = (
    "backups and replicas of the database, and its write-ahead log",
    "exports and snapshots made earlier",
    "the shadow of a replay that was cut off, until the next replay",
    "logs of the database server",
    "old row versions on disk, until the next VACUUM",
    "turns that still wait in a turn queue, and its dead letters whose content is kept",
    "ids: the id made from a name can be computed by anyone who knows the name",
)
#: Data of a user that stays in this service, since it is not the user's alone.
STAYS = (
    "what others said of the user",
    "names of banks that others share, of sessions in which others wrote, and of things that others spoke of, too",
    "names of sessions at a gateway, in this receipt, so that they can be erased there",
    "labels of keys that are not the user's",
    "targets at a gateway that an operator set, with the gateway's own names of users",
)

_ERASURE = schema.ERASURE.c
_COUNTS = cast(_ERASURE.counts, Text).label("counts")
_DELIVERED = cast(_ERASURE.delivered, Text).label("delivered")
_READ = select(
    _ERASURE.erasure_id,
    _ERASURE.kind,
    _ERASURE.bank_id,
    _ERASURE.target_id,
    _ERASURE.upto,
    _ERASURE.reached,
    _ERASURE.status,
    _COUNTS,
    _DELIVERED,
    _ERASURE.requested_at,
    _ERASURE.finished_at,
)


class Kind(StrEnum):
    """The kinds of targets of an erasure."""

    UNIT = "unit"
    SESSION = "session"
    USER = "user"
    BANK = "bank"
    DOCUMENT = "document"
    DIRECTIVE = "directive"
    #: A single memory, with all that had its id before.
    MEMORY = "memory"
    #: A bank's turns past their retention; requested by maintenance, never by a caller.
    AGE = "age"
    #: A bank's units that expired some time ago; requested by maintenance.
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """The target of an erasure: a user, a `bank`, or something in it.

    Users, banks, sessions and memories are given by the agent's own names, the others by their ids.
    For a user, also units of others that contain one of the names `called`, in the banks where the user spoke.
    """

    kind: Kind
    bank: str | None = None
    name: str = field(default="", repr=False)
    called: tuple[str, ...] = field(default=(), repr=False)

    def ids(self, host: UUID) -> tuple[UUID | None, UUID]:
        """Return the ids of the bank (None: all banks) and of the target. Raises NotFound for an invalid unit id."""
        if self.kind is Kind.USER:
            return None, identity.user_id(host, self.name)
        bank = identity.bank_id(host, self.bank or "")
        if self.kind is Kind.SESSION:
            return bank, identity.session_id(bank, self.name)
        if self.kind is Kind.BANK:
            return bank, bank
        if self.kind is Kind.MEMORY:
            return bank, identity.memory_session(bank, self.name)
        try:
            return bank, UUID(self.name)
        except ValueError:
            raise NotFound(f"no such {self.kind.value}") from None


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of an erasure, without any of the erased content.

    `counts`: rows and events by kind. `delivered`: sessions at a foreign gateway that received erased turns, by the
    names they have there, with how many turns; they must be erased there. `models`: machines that were sent erased
    texts, to embed or to read them. `unreached`: where else copies may be. `stays`: the user's data that stays here.
    """

    erasure_id: UUID
    kind: Kind
    bank_id: UUID | None
    target_id: UUID
    done: bool
    counts: Mapping[str, int]
    delivered: Mapping[str, int]
    requested_at: datetime
    finished_at: datetime | None
    models: tuple[TextsAtModel, ...] = ()
    unreached: tuple[str, ...] = BEYOND_REACH
    stays: tuple[str, ...] = ()


@dataclass(slots=True)
class Erasure:
    """An erasure under way, locked by this transaction."""

    host: UUID
    erasure_id: UUID
    kind: Kind
    bank: UUID | None
    target: UUID
    at: datetime
    upto: int = 0
    reached: int = 0
    done: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    delivered: Counter[str] = field(default_factory=Counter)
    #: The user's erasure of which this one is a part.
    parent: UUID | None = None


async def find_running(connection: AsyncConnection, host: UUID, kind: Kind, target: UUID) -> UUID | None:
    """Return the id of a running erasure of this target, None when there is none."""
    erasure: UUID | None = await connection.scalar(
        select(_ERASURE.erasure_id).where(
            _ERASURE.host_id == host,
            _ERASURE.target_id == target,
            _ERASURE.kind == kind.value,
            _ERASURE.status == "running",
        )
    )
    return erasure


async def write_request(connection: AsyncConnection, host: UUID, target: ErasureTarget, now: datetime) -> Erasure:
    """Write a new erasure of a caller's target, and return it. Raises NotFound, IsReflection."""
    bank, thing = target.ids(host)
    if target.kind is Kind.UNIT and bank is not None:
        await reflections.refuse_reflection(connection, host, bank, thing)
    return await begin_request(connection, Erasure(host, uuid4(), target.kind, bank, thing, now))


async def begin_request(connection: AsyncConnection, erasure: Erasure) -> Erasure:
    """Insert the row of a new erasure, and return it."""
    await connection.execute(
        insert(schema.ERASURE).values(
            host_id=erasure.host,
            erasure_id=erasure.erasure_id,
            kind=erasure.kind.value,
            bank_id=erasure.bank,
            target_id=erasure.target,
            upto=erasure.upto,
            requested_at=erasure.at,
            updated_at=erasure.at,
            parent_id=erasure.parent,
        )
    )
    return erasure


async def lock_request(connection: AsyncConnection, host: UUID, erasure: UUID, now: datetime) -> Erasure:
    """Return an erasure, and lock its row until the transaction ends. Raises NotFound."""
    row = await _read_row(connection, _READ.with_for_update(), host, erasure)
    return Erasure(
        host,
        row.erasure_id,
        Kind(row.kind),
        row.bank_id,
        row.target_id,
        now,
        row.upto,
        row.reached,
        row.status == "done",
        Counter(orjson.loads(row.counts)),
        Counter(orjson.loads(row.delivered)),
    )


async def renew_request(connection: AsyncConnection, host: UUID, erasure: UUID, now: datetime) -> Erasure:
    """Return a running erasure, locked, as requested now: calls that began before now write nothing to its target.

    That of a user reads the user's banks, keys and events from the beginning again.
    """
    await connection.execute(_update_request(host, erasure).values(requested_at=now))
    found = await lock_request(connection, host, erasure, now)
    found.reached = 0 if found.kind is Kind.USER else found.reached
    return found


async def save_progress(connection: AsyncConnection, erasure: Erasure) -> None:
    """Write the erasure's progress and counts."""
    await connection.execute(
        _update_request(erasure.host, erasure.erasure_id).values(
            reached=erasure.reached,
            upto=erasure.upto,
            counts=dict(erasure.counts),
            delivered=dict(erasure.delivered),
            updated_at=erasure.at,
        )
    )


async def adopt_erasure(connection: AsyncConnection, erasure: UUID, parent: Erasure) -> None:
    """Make a running erasure part of a user's."""
    # Another user's erasure may cover the same bank: the part then counts for both.
    adopted = _update_request(parent.host, erasure).where(_ERASURE.status == "running")
    await connection.execute(adopted.values(parent_id=parent.erasure_id))


async def add_parts(connection: AsyncConnection, erasure: Erasure) -> None:
    """Add the counts of an erasure's parts to its own."""
    parts = select(_COUNTS, _DELIVERED).where(
        _ERASURE.host_id == erasure.host, _ERASURE.parent_id == erasure.erasure_id
    )
    for row in await connection.execute(parts):
        erasure.counts.update(orjson.loads(row.counts))
        erasure.delivered.update(orjson.loads(row.delivered))


async def open_units(connection: AsyncConnection, parent: Erasure, units: Sequence[tuple[UUID, UUID]]) -> None:
    """Add units (bank and unit) to a user's erasure as its parts."""
    part = {"host_id": parent.host, "kind": Kind.UNIT.value, "upto": 0, "parent_id": parent.erasure_id}
    at = {"requested_at": parent.at, "updated_at": parent.at}
    # A unit with a running erasure is erased by that one.
    opened = postgresql.insert(schema.ERASURE).on_conflict_do_nothing()
    if units:
        rows = [{**part, **at, "erasure_id": uuid4(), "bank_id": bank, "target_id": unit} for bank, unit in units]
        await connection.execute(opened, rows)


async def next_units(connection: AsyncConnection, parent: Erasure, limit: int) -> Sequence[Row[UUID, UUID, UUID]]:
    """Return the next units (erasure_id, bank_id, target_id) of a user's erasure that are not erased yet."""
    running = select(_ERASURE.erasure_id, _ERASURE.bank_id, _ERASURE.target_id).where(
        _ERASURE.host_id == parent.host,
        _ERASURE.parent_id == parent.erasure_id,
        _ERASURE.kind == Kind.UNIT.value,
        _ERASURE.status == "running",
    )
    ordered = running.order_by(_ERASURE.bank_id, _ERASURE.erasure_id).limit(limit)
    return (await connection.execute(ordered)).all()


async def finish_units(connection: AsyncConnection, parent: Erasure, erasures: Sequence[UUID]) -> None:
    """Mark parts of a user's erasure as done; their counts are in the user's."""
    parts = update(schema.ERASURE).where(_ERASURE.host_id == parent.host, _ERASURE.erasure_id.in_(erasures))
    await connection.execute(parts.values(status="done", finished_at=parent.at, updated_at=parent.at))


async def put_off(connection: AsyncConnection, host: UUID, erasure: UUID, since: datetime) -> None:
    """Set the time of a running erasure's last progress to `since`."""
    running = _update_request(host, erasure).where(_ERASURE.status == "running")
    await connection.execute(running.values(updated_at=since))


async def finish_request(connection: AsyncConnection, erasure: Erasure) -> None:
    """Mark an erasure as done."""
    ended = {"status": "done", "finished_at": erasure.at, "updated_at": erasure.at}
    await connection.execute(_update_request(erasure.host, erasure.erasure_id).values(ended))
    erasure.done = True


async def read_receipt(connection: AsyncConnection, host: UUID, erasure: UUID) -> Receipt:
    """Return the receipt of an erasure, done or not. Raises NotFound, for foreign ones too."""
    row = await _read_row(connection, _READ, host, erasure)
    counts, models = split_counts(orjson.loads(row.counts))
    exports = await list_exports(connection, host, row.bank_id, row.finished_at)
    return Receipt(
        erasure_id=row.erasure_id,
        kind=Kind(row.kind),
        bank_id=row.bank_id,
        target_id=row.target_id,
        done=row.status == "done",
        counts=counts,
        models=models,
        delivered=orjson.loads(row.delivered),
        requested_at=row.requested_at,
        finished_at=row.finished_at,
        unreached=(*BEYOND_REACH, *map(describe_export, exports)),
        stays=STAYS if row.kind == Kind.USER else (),
    )


def _update_request(host: UUID, erasure: UUID) -> Update:
    return update(schema.ERASURE).where(_ERASURE.host_id == host, _ERASURE.erasure_id == erasure)


async def _read_row(
    connection: AsyncConnection, query: Select[*tuple[Any, ...]], host: UUID, erasure: UUID
) -> Row[Any]:
    found = await connection.execute(query.where(_ERASURE.host_id == host, _ERASURE.erasure_id == erasure))
    row = found.one_or_none()
    if row is None:
        raise NotFound("no such erasure")
    return row
