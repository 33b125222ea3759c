"""Prepares a database before the first request: schema, log stamp and keys."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.fernet import Fernet
from pydantic import SecretStr

from deploy.local import PostgresEndpoint
from deploy.local.private_files import write_private
from store import migrations
from store.database import Database
from store.identity import host_id
from store.log.reader import restamp_log
from store.settings import DatabaseSettings
from store.tenancy.keys import Keys
from store.tenancy.operator_keys import OperatorKeys

HOST = "default"
API_KEY_FILE = "api-key"
OPERATOR_KEY_FILE = "operator-key"
#: Label of the keys that `afterturn up` makes for itself.
UP = "afterturn up"
GATEWAY_USER = "self"
GATEWAY_KEY_FILE = "gateway-key"
SEALING_KEY_FILE = "sealing-key"


@dataclass(frozen=True, slots=True)
class BootstrapKeys:
    """The keys of a local stack: API key of the default host, key of the `--gateway self` user, sealing key."""

    api_key: str = field(repr=False)
    gateway_user: str
    gateway_key: str = field(repr=False)
    sealing_key: str = field(repr=False)


def bootstrap_database(data: Path, endpoint: PostgresEndpoint, gateway_host: str = HOST) -> BootstrapKeys:
    """Migrate the schema, and create the keys in DIR/api-key, DIR/gateway-key and DIR/operator-key (0600) where needed.

    A key that is valid here is kept. The operator's key may make keys of tenants: its reader can read
    the database's passwords beside it, too.
    DIR/sealing-key is created once: gateway keys sealed with it cannot be opened without it. A log that was restored
    from another cluster is bound to this one. Blocks, and must not be called from a running event loop.
    """
    migrations.upgrade_schema(endpoint.owner_url)
    asyncio.run(restamp_log(endpoint.owner_url))
    api_key = _ensure_key_file(data / API_KEY_FILE, endpoint, (HOST, UP, None))
    own = (gateway_host, "afterturn up --gateway self", GATEWAY_USER)
    gateway_key = _ensure_key_file(data / GATEWAY_KEY_FILE, endpoint, own)
    _ensure_operator_key(data / OPERATOR_KEY_FILE, endpoint)
    return BootstrapKeys(api_key, GATEWAY_USER, gateway_key, _kept_sealing_key(data / SEALING_KEY_FILE))


def _kept_sealing_key(path: Path) -> str:
    if not path.exists():
        write_private(path, Fernet.generate_key().decode())
    return path.read_text(encoding="ascii").strip()


def _ensure_key_file(path: Path, endpoint: PostgresEndpoint, wanted: tuple[str, str, str | None]) -> str:
    """Return the key in a file if it is valid here for the host `wanted`, else create one and save it there."""
    kept = path.read_text(encoding="ascii").strip() if path.exists() else ""
    token = asyncio.run(_validate_or_create_key(endpoint, kept, *wanted))
    if token != kept:
        write_private(path, token)
    return token


def _ensure_operator_key(path: Path, endpoint: PostgresEndpoint) -> None:
    """Keep the operator's key in a file if it is valid here, else create one and save it there."""
    kept = path.read_text(encoding="ascii").strip() if path.exists() else ""

    async def validate_or_create() -> str:
        async with _open_database(endpoint) as database:
            keys = OperatorKeys(database)
            known = await keys.authenticate(kept)
            return kept if known is not None and known.makes_keys else await keys.create(UP, makes_keys=True)

    token = asyncio.run(validate_or_create())
    if token != kept:
        write_private(path, token)


async def _validate_or_create_key(
    endpoint: PostgresEndpoint, kept: str, host: str, label: str, gateway_user: str | None
) -> str:
    async with _open_database(endpoint) as database:
        keys = Keys(database)
        grant = await keys.authenticate(kept) if kept else None
        if grant is not None and grant.host_id == host_id(host):
            return kept
        return await keys.create(host, label, gateway_user=gateway_user)


@asynccontextmanager
async def _open_database(endpoint: PostgresEndpoint) -> AsyncIterator[Database]:
    app, operator = SecretStr(endpoint.app_url), SecretStr(endpoint.operator_url)
    database = Database(DatabaseSettings(url=app, operator_url=operator, pool_size=1))
    try:
        yield database
    finally:
        await database.close()
