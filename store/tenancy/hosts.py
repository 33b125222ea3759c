"""Tenants by name: the row that everything of one hangs on."""

from uuid import UUID

from sqlalchemy import text

from store import identity
from store.database import Database

ADD_HOST = text("insert into afterturn.host_t (host_id, name) values (:host, :name) on conflict do nothing")


async def ensure_host(database: Database, name: str) -> UUID:
    """Return a tenant's id; it is there from now on."""
    host = identity.host_id(name)
    async with database.operator() as connection:
        await connection.execute(ADD_HOST, {"host": host, "name": name})
    return host
