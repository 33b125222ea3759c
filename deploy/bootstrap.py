"""What a database needs before the first request: the newest schema, a log of this cluster, and keys that open it."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from deploy.embedded import PostgresEndpoint
from deploy.private_files import write_private
from store import migrations
from store.database import Database
from store.events.reader import restamp
from store.keys import Keys
from store.settings import DatabaseSettings

HOST = "default"
API_KEY_FILE = "api-key"
GATEWAY_USER = "self"
GATEWAY_KEY_FILE = "gateway-key"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys of the default host: the API's, and that of the user `--gateway self` delivers as."""

    api_key: str = field(repr=False)
    gateway_user: str
    gateway_key: str = field(repr=False)


def bootstrap(data: Path, endpoint: PostgresEndpoint) -> Credentials:
    """Migrate, and make the keys kept in DIR/api-key and DIR/gateway-key (0600) if they open nothing yet.

    A log that was restored from another cluster is stamped for this one. Blocks, and must not be called from a
    running event loop.
    """
    migrations.upgrade(endpoint.owner_url)
    asyncio.run(restamp(endpoint.owner_url))
    api_key = _kept_key(data / API_KEY_FILE, endpoint, "afterturn up", None)
    gateway_key = _kept_key(data / GATEWAY_KEY_FILE, endpoint, "afterturn up --gateway self", GATEWAY_USER)
    return Credentials(api_key, GATEWAY_USER, gateway_key)


def _kept_key(path: Path, endpoint: PostgresEndpoint, label: str, gateway_user: str | None) -> str:
    """Return the key in a file if it opens this database, else make one and keep it there."""
    kept = path.read_text(encoding="ascii").strip() if path.exists() else ""
    token = asyncio.run(_working_key(endpoint, kept, label, gateway_user))
    if token != kept:
        write_private(path, token)
    return token


async def _working_key(endpoint: PostgresEndpoint, kept: str, label: str, gateway_user: str | None) -> str:
    app, operator = SecretStr(endpoint.app_url), SecretStr(endpoint.operator_url)
    database = Database(DatabaseSettings(url=app, operator_url=operator, pool_size=1))
    try:
        keys = Keys(database)
        if kept and await keys.authenticate(kept) is not None:
            return kept
        return await keys.create(HOST, label, gateway_user=gateway_user)
    finally:
        await database.close()
