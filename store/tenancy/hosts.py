"""Creates the row of a tenant, to which all its other rows refer."""

from uuid import UUID

from sqlalchemy.dialects.postgresql import insert

from store import identity
from store.database import Database
from store.schema import HOST

#: Adds a host if it does not exist; takes `host_id` and `name`.
ADD_HOST = insert(HOST).on_conflict_do_nothing()


async def ensure_host(database: Database, name: str) -> UUID:
    """Create a tenant of this name unless it exists; return its id."""
    host = identity.host_id(name)
    async with database.operator() as connection:
        await connection.execute(ADD_HOST, {"host_id": host, "name": name})
    return host
