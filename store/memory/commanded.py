"""Appends the event of a command and applies its projection, in one transaction.

A command with a key is done once: its event's id follows from the key, so the log itself knows whether it was done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store import schema
from store.database import Database
from store.derived import bank_state
from store.errors import ConcurrencyError, KeyReused, NotFound
from store.expiry import BANK_EXPIRED, lock_lasting_bank
from store.log.append import append_events, read_versions
from store.log.catalog import AGGREGATES, EVENTS, Aggregate, EventType
from store.log.envelope import Origin, build_command
from store.log.locks import ENTER_LOG, hold_lock, share_lock
from store.tenancy.quotas import charge_quota

#: Aggregates whose changes are counted by the projection stage.
COUNTED = frozenset({Aggregate.ENTITY, Aggregate.UNIT_ENTITY})
#: Fields that the log adds up, which do not tell two commands apart.
_ADDED = frozenset({"bytes", "erased"})
# Commands of one bank follow each other, so that each sees what the one before it made.
LOCK = select(
    ENTER_LOG, share_lock("quota", "host"), share_lock("bank", "bank"), hold_lock("entities", "bank"), BANK_EXPIRED
)
# A session's history is appended to by turns, too.
LOCK_SESSION = select(hold_lock("session", "session"))
_EVENT = schema.EVENT_STORE.c


@dataclass(frozen=True, slots=True)
class Command:
    """A change of one aggregate of a bank: the type of its event, and its data without host, bank and versions.

    `expected`: the version that the caller saw; None: any. `identity`: the event's id where it follows from a key.
    `units`: units of the bank that must live. `size`: the bytes that quotas are charged.
    """

    kind: EventType
    fields: Mapping[str, Any] = field(repr=False)
    expected: int | None = None
    identity: UUID | None = None
    units: Sequence[UUID] = ()
    size: int = 0

    @property
    def aggregate(self) -> Aggregate:
        """The aggregate that it changes."""
        return EVENTS[self.kind].aggregate

    def is_same(self, kind: str, data: Mapping[str, Any], offered: Mapping[str, Any]) -> bool:
        """Return whether an event of the log is that of this command, which offers this data."""
        if kind != self.kind.value:
            return False
        return "erased" in data or _drop_added(data) == _drop_added(offered)


@dataclass(frozen=True, slots=True)
class CommandDone:
    """The result of a command: a read that shows `position` shows it; the aggregate's version; whether it was new."""

    position: int
    version: int
    new: bool


async def apply_command(database: Database, origin: Origin, command: Command) -> CommandDone:
    """Append a command's event, projected; the same key again changes nothing.

    Raises ConcurrencyError (another version than expected, or it lives already), NotFound (it does not live, or a unit
    does not), TurnEnded (the bank has expired), InvalidEvent, KeyReused, QuotaExceeded.
    """
    offered = build_command(origin, command.kind, command.fields)
    async with database.tenant(origin.host) as connection:
        await lock_bank(connection, origin)
        if command.aggregate is Aggregate.SESSION:
            await connection.execute(LOCK_SESSION, {"session": UUID(offered["data"]["sessionId"])})
        known = await _find_done(connection, origin, command, offered["data"])
        return known or await _append_event(connection, origin, command, offered)


async def lock_bank(connection: AsyncConnection, origin: Origin) -> None:
    """Take the locks of a command on a bank, until the transaction ends. Raises TurnEnded for an expired bank."""
    await lock_lasting_bank(connection, LOCK, {"host": origin.host, "bank": origin.bank, "now": origin.at})


async def require_units(connection: AsyncConnection, origin: Origin, units: Sequence[UUID]) -> None:
    """Raise NotFound unless each of these units of a bank lives."""
    wanted, unit = set(units), schema.UNIT.c
    living = select(func.count()).where(
        unit.host_id == origin.host, unit.bank_id == origin.bank, unit.unit_id.in_(sorted(wanted)), unit.active
    )
    if wanted and await connection.scalar(living) != len(wanted):
        raise NotFound("no such unit")


async def _append_event(
    connection: AsyncConnection, origin: Origin, command: Command, offered: dict[str, Any]
) -> CommandDone:
    subject = offered["subject"]
    version = (await read_versions(connection, origin.host, [subject]))[subject]
    await _check_precondition(connection, origin, command, offered["data"], version)
    event = offered | {"id": str(command.identity or uuid4()), "version": version + 1}
    position = await append_events(connection, origin.host, [event])
    if position is None:
        raise ConcurrencyError(command.aggregate.value, version, version + 1)
    if command.aggregate in COUNTED:
        await bank_state.request_recount(connection, origin, position)
    if command.size:
        await charge_quota(connection, origin.host, origin.bank, command.size)
    return CommandDone(position, version + 1, new=True)


async def _check_precondition(
    connection: AsyncConnection, origin: Origin, command: Command, data: Mapping[str, Any], version: int
) -> None:
    name, lives = command.aggregate.value, await _is_living(connection, origin, command.aggregate, data)
    if EVENTS[command.kind].begins and lives:
        raise ConcurrencyError(name, 0, version)
    if not EVENTS[command.kind].begins and not lives:
        raise NotFound("no such thing in this bank")
    if command.expected not in (None, version):
        raise ConcurrencyError(name, command.expected, version)
    await require_units(connection, origin, command.units)
    if command.kind is EventType.UNIT_ENTITY_LINKED and not await _is_living(
        connection, origin, Aggregate.ENTITY, data
    ):
        raise NotFound("no such entity")


async def _is_living(
    connection: AsyncConnection, origin: Origin, aggregate: Aggregate, data: Mapping[str, Any]
) -> bool:
    spec = AGGREGATES[aggregate]
    table = schema.METADATA.tables[f"afterturn.{spec.table}"]
    lives: ColumnElement[bool] = table.c.removed_at.is_(None) if "removed_at" in table.c else table.c.active
    named = (
        table.c[column] == (UUID(data[name]) if name.endswith("Id") else data[name])
        for name, column in spec.ids.items()
    )
    query = select(lives).where(table.c.host_id == origin.host, table.c.bank_id == origin.bank, *named)
    return bool(await connection.scalar(query))


async def _find_done(
    connection: AsyncConnection, origin: Origin, command: Command, offered: Mapping[str, Any]
) -> CommandDone | None:
    """Return what the command did before, by its key; None: nothing. Raises KeyReused for another command."""
    if command.identity is None:
        return None
    query = select(_EVENT.event_type, _EVENT.data, _EVENT.position, _EVENT.aggregate_version).where(
        _EVENT.host_id == origin.host, _EVENT.id == command.identity
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    if not command.is_same(row.event_type, row.data, offered):
        raise KeyReused("this idempotency key was used for another command")
    return CommandDone(row.position, row.aggregate_version, new=False)


def _drop_added(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in _ADDED and value is not None}
