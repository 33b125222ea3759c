"""The tenants there are, for operators: names and ages, nothing of theirs."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from store.database import Database
from store.errors import NotFound

LIST = text("""
    select h.host_id, h.name, h.created_at from afterturn.host_t h
     where h.name collate "C" > :after order by h.name collate "C" limit :limit""")
ONE = text("""
    select h.host_id, h.name, h.created_at,
           (select count(*) from afterturn.api_key_t k
             where k.host_id = h.host_id and k.revoked_at is null and coalesce(k.expires_at > now(), true)) as keys,
           (select count(*) from afterturn.ledger_t l where l.host_id = h.host_id and l.undone) as undone
      from afterturn.host_t h where h.host_id = :host""")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant by id and name."""

    tenant_id: UUID
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TenantShown(Tenant):
    """A tenant, how many of its keys work, and how much of its work is undone."""

    active_keys: int
    undone: int


class Tenants:
    """Reads tenants, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, after: str, limit: int) -> list[Tenant]:
        """List tenants by name, from behind one."""
        async with self._database.operator() as connection:
            return [Tenant(*row) for row in await connection.execute(LIST, {"after": after, "limit": limit})]

    async def get(self, tenant: UUID) -> TenantShown:
        """Return one tenant. Raises NotFound."""
        async with self._database.operator() as connection:
            row = (await connection.execute(ONE, {"host": tenant})).one_or_none()
        if row is None:
            raise NotFound("no such tenant")
        return TenantShown(*row)
