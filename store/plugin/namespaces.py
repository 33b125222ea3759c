"""Stores namespaces of the memory plugin: banks that were upserted through it, with their callers' fields."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Executable, Update, Uuid, and_, any_, bindparam, delete, func, select, true, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.driver_rows import fetch_rows
from store.errors import NotFound
from store.expiry import NOW
from store.log.locks import hold_lock
from store.log.refusals import translate_refusals
from store.schema import BANK, PLUGIN_NAMESPACE, PLUGIN_VECTOR, same_bank
from store.tenancy.banks import Banks
from store.tenancy.quotas import run_within_quota

_SPACE, _BANK = PLUGIN_NAMESPACE.alias("n"), BANK.alias("b")
#: A namespace exists while its bank is active and its own deletion was not begun.
LIVING = (
    select(*(_SPACE.c[name] for name in ("bank_id", "name", "kind", "expires_at", "metadata", "created_at")))
    .join_from(_SPACE, _BANK, and_(same_bank(_BANK, _SPACE), _BANK.c.active))
    .where(
        _SPACE.c.host_id == bindparam("host"),
        _SPACE.c.bank_id == any_(bindparam("banks", type_=ARRAY(Uuid))),
        ~_SPACE.c.ending,
    )
)
READ = LIVING.order_by(_SPACE.c.bank_id)
#: The banks of the namespaces that have not expired at `now`.
LASTING = LIVING.with_only_columns(_SPACE.c.bank_id).where(func.coalesce(_SPACE.c.expires_at > NOW, true()))
_NAMESPACE = PLUGIN_NAMESPACE.c
# Exclusive: writers of memories hold a shared lock on the bank and have committed before this marks the namespace.
LOCK_BANK = select(hold_lock("bank", "bank"))


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """A namespace; `metadata` is the JSON text that its caller sent."""

    bank: UUID
    name: str
    kind: str
    expires_at: datetime | None
    metadata: str | None = field(repr=False)
    created_at: datetime

    def has_ended(self, now: datetime) -> bool:
        """Return whether the namespace has expired: its memories are hidden until `expires_at` is moved."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class NamespaceChange:
    """A change of a namespace; a field that is not in `named` stays unchanged."""

    named: frozenset[str]
    expires_at: datetime | None = None
    metadata: str | None = field(default=None, repr=False)

    def values(self) -> dict[str, Any]:
        """Return the new values of the columns in `named`."""
        told = {"expires_at": self.expires_at, "metadata": self.metadata}
        return {name: value for name, value in told.items() if name in self.named}


class Namespaces:
    """The store of a tenant's namespaces: creates, changes, reads and removes them."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._banks = Banks(database, clock)

    async def get(self, host: UUID, name: str) -> NamespaceRow:
        """Return a namespace. Raises NotFound."""
        found = await self.of(host, [name])
        if not found:
            raise NotFound("no such namespace")
        return found[0]

    async def of(self, host: UUID, names: Sequence[str]) -> list[NamespaceRow]:
        """Return the namespaces of these names that exist, each once."""
        async with self._database.tenant(host) as connection:
            return await read_namespaces(connection, host, names)

    async def upsert(self, host: UUID, name: str, kind: str, change: NamespaceChange) -> NamespaceRow:
        """Create a namespace and its bank, or change its kind and the fields in `change`. Raises QuotaExceeded."""
        _, fresh = await self._banks.create(host, None, name)
        new = {"kind": kind, "expires_at": change.expires_at, "metadata": change.metadata, "created_at": self._clock()}
        key = {"host_id": host, "bank_id": identity.bank_id(host, name)}
        # If the bank is new, a row of an earlier namespace is overwritten as a whole.
        changed = new if fresh else {"kind": kind, **change.values()}
        upsert = insert(PLUGIN_NAMESPACE).values(**key, name=name, **new)
        await self._write(host, upsert.on_conflict_do_update(index_elements=list(key), set_=changed))
        return await self.get(host, name)

    async def change(self, host: UUID, name: str, change: NamespaceChange) -> NamespaceRow:
        """Set the fields in `change` and return the namespace. Raises NotFound, QuotaExceeded."""
        await self.get(host, name)
        if values := change.values():
            await self._write(host, _update_living(host, identity.bank_id(host, name)).values(values))
        return await self.get(host, name)

    async def _write(self, host: UUID, statement: Executable) -> None:
        """Write a namespace, which its tenant's quotas are charged for. Raises QuotaExceeded."""

        async def write() -> None:
            with translate_refusals():
                async with self._database.tenant(host) as connection:
                    await connection.execute(statement)

        await run_within_quota(self._database, host, self._clock(), write)

    async def is_ending(self, host: UUID, name: str) -> bool:
        """Return whether the deletion of a namespace was begun and is not complete."""
        async with self._database.tenant(host) as connection:
            place = {"host_id": host, "bank_id": identity.bank_id(host, name)}
            return bool(await connection.scalar(select(_NAMESPACE.ending).filter_by(**place)))

    async def begin_end(self, host: UUID, name: str) -> None:
        """Hide a namespace from all readers of the plugin, as the first step of its deletion. Raises NotFound."""
        await self.get(host, name)
        bank = identity.bank_id(host, name)
        async with self._database.tenant(host) as connection:
            await connection.execute(LOCK_BANK, {"bank": bank})
            await connection.execute(_update_living(host, bank).values(ending=True))

    async def remove(self, host: UUID, name: str) -> None:
        """Delete a namespace's row and its callers' vectors; its bank stays."""
        place = {"host_id": host, "bank_id": identity.bank_id(host, name)}
        async with self._database.tenant(host) as connection:
            await connection.execute(delete(PLUGIN_VECTOR).filter_by(**place))
            await connection.execute(delete(PLUGIN_NAMESPACE).filter_by(**place))


def _update_living(host: UUID, bank: UUID) -> Update:
    """Return the update of a namespace whose deletion was not begun."""
    return update(PLUGIN_NAMESPACE).where(
        _NAMESPACE.host_id == host, _NAMESPACE.bank_id == bank, _NAMESPACE.ending.is_(False)
    )


async def read_namespaces(connection: AsyncConnection, host: UUID, names: Sequence[str]) -> list[NamespaceRow]:
    """Return the namespaces of these names that exist, each once, in the tenant's transaction."""
    banks = list({identity.bank_id(host, name) for name in names})
    return [NamespaceRow(*row) for row in await fetch_rows(connection, READ, {"host": host, "banks": banks})]
