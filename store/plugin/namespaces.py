"""Namespaces of the memory plugin: banks that were upserted through it, with what their callers said of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.errors import NotFound
from store.tenancy.banks import Banks

_COLUMNS = "n.bank_id, n.name, n.kind, n.expires_at, n.metadata, n.created_at"
#: A namespace exists while its bank lives and it was not deleted; of several, in the order of their ids.
LIVING = f"""
    select {_COLUMNS} from afterturn.plugin_namespace_t n
      join afterturn.agent_memory_bank_t b on b.host_id = n.host_id and b.bank_id = n.bank_id and b.active
     where n.host_id = :host and n.bank_id = any(cast(:banks as uuid[])) and not n.ending"""  # noqa: S608 - constants
READ = text(f"{LIVING} order by n.bank_id")
ENDING = text("""
    select n.ending from afterturn.plugin_namespace_t n where n.host_id = :host and n.bank_id = :bank""")
# Of a namespace whose bank ended, nothing is left: it begins anew.
UPSERT = text("""
    insert into afterturn.plugin_namespace_t as n (host_id, bank_id, name, kind, expires_at, metadata, created_at)
    values (:host, :bank, :name, :kind, :expires_at, :metadata, :now)
    on conflict (host_id, bank_id) do update
       set kind = excluded.kind,
           expires_at = case when :anew or :with_end then excluded.expires_at else n.expires_at end,
           metadata = case when :anew or :with_metadata then excluded.metadata else n.metadata end,
           created_at = case when :anew then excluded.created_at else n.created_at end""")
CHANGE = text("""
    update afterturn.plugin_namespace_t n
       set expires_at = case when :with_end then :expires_at else n.expires_at end,
           metadata = case when :with_metadata then :metadata else n.metadata end
     where n.host_id = :host and n.bank_id = :bank and not n.ending""")
# Alone: who writes a memory there holds the bank, and has committed before this says that the namespace ends.
LOCK_BANK = text("select pg_advisory_xact_lock(afterturn.lock_key('bank', :bank))")
BEGIN_END = text("""
    update afterturn.plugin_namespace_t n set ending = true
     where n.host_id = :host and n.bank_id = :bank and not n.ending""")
REMOVE = text("delete from afterturn.plugin_namespace_t n where n.host_id = :host and n.bank_id = :bank")
REMOVE_VECTORS = text("delete from afterturn.plugin_vector_t v where v.host_id = :host and v.bank_id = :bank")


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
        """Say whether it expired: nothing of it is read any more, until its end is moved."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class NamespaceChange:
    """What is said of a namespace; a field that is not `named` stays as it is."""

    named: frozenset[str]
    expires_at: datetime | None = None
    metadata: str | None = field(default=None, repr=False)

    def parameters(self) -> Mapping[str, Any]:
        """Return what the statements take."""
        return {
            "with_end": "expires_at" in self.named,
            "expires_at": self.expires_at,
            "with_metadata": "metadata" in self.named,
            "metadata": self.metadata,
        }


class Namespaces:
    """Makes, changes and reads the namespaces of a tenant."""

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
        """Return those of the named namespaces that are there, each once."""
        async with self._database.tenant(host) as connection:
            return await read_namespaces(connection, host, names)

    async def upsert(self, host: UUID, name: str, kind: str, change: NamespaceChange) -> NamespaceRow:
        """Make a namespace and its bank, or change its kind and what `change` names. Raises QuotaExceeded."""
        _, fresh = await self._banks.create(host, None, name)
        arguments = {"host": host, "bank": identity.bank_id(host, name), "name": name, "kind": kind}
        async with self._database.tenant(host) as connection:
            await connection.execute(UPSERT, {**arguments, **change.parameters(), "anew": fresh, "now": self._clock()})
        return await self.get(host, name)

    async def change(self, host: UUID, name: str, change: NamespaceChange) -> NamespaceRow:
        """Change what `change` names. Raises NotFound."""
        await self.get(host, name)
        place = {"host": host, "bank": identity.bank_id(host, name)}
        async with self._database.tenant(host) as connection:
            await connection.execute(CHANGE, {**place, **change.parameters()})
        return await self.get(host, name)

    async def is_ending(self, host: UUID, name: str) -> bool:
        """Say whether the deletion of a namespace was begun and is not over."""
        async with self._database.tenant(host) as connection:
            place = {"host": host, "bank": identity.bank_id(host, name)}
            return bool((await connection.execute(ENDING, place)).scalar())

    async def begin_end(self, host: UUID, name: str) -> None:
        """Have a namespace be gone for every reader of the plugin. Raises NotFound."""
        await self.get(host, name)
        bank = identity.bank_id(host, name)
        async with self._database.tenant(host) as connection:
            await connection.execute(LOCK_BANK, {"bank": bank})
            await connection.execute(BEGIN_END, {"host": host, "bank": bank})

    async def remove(self, host: UUID, name: str) -> None:
        """Remove what is known of a namespace beside its bank, vectors included."""
        place = {"host": host, "bank": identity.bank_id(host, name)}
        async with self._database.tenant(host) as connection:
            await connection.execute(REMOVE_VECTORS, place)
            await connection.execute(REMOVE, place)


async def read_namespaces(connection: AsyncConnection, host: UUID, names: Sequence[str]) -> list[NamespaceRow]:
    """Return those of the named namespaces that are there, each once, in the tenant's transaction."""
    banks = list({identity.bank_id(host, name) for name in names})
    return [NamespaceRow(*tuple(row)) for row in await connection.execute(READ, {"host": host, "banks": banks})]
