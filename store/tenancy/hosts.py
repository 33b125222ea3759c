"""Tenants by name: the row that everything of one hangs on."""

from uuid import UUID

from sqlalchemy.dialects.postgresql import insert

from store import identity
from store.database import Database
from store.schema import HOST

#: Takes `host_id` and `name`.
ADD_HOST = insert(HOST).on_conflict_do_nothing()


async def ensure_host(database: Database, name: str) -> UUID:
    """Return a tenant's id; it is there from now on."""
    host = identity.host_id(name)
    async with database.operator() as connection:
        await connection.execute(ADD_HOST, {"host_id": host, "name": name})
    return host
