"""Bearer keys: they name the tenant, and what of it their holder may touch. Only hashes are kept."""

import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import text

from store import identity
from store.database import Database
from store.errors import NotFound

#: How long an answer is believed without asking again, in seconds: a revoked key works at most that much longer.
CACHE_S = 2.0
CACHE_LIMIT = 10_000

FIND = text("""
    select key_id, host_id, banks, can_write, gateway_user from afterturn.api_key_t
     where key_hash = :hash and revoked_at is null""")
ADD_HOST = text("insert into afterturn.host_t (host_id, name) values (:host, :name) on conflict do nothing")
ADD_KEY = text("""
    insert into afterturn.api_key_t (key_id, host_id, key_hash, label, banks, can_write, gateway_user)
    values (:key, :host, :hash, :label, :banks, :can_write, :gateway_user)""")
LIST = text("""
    select key_id, label, banks, can_write, gateway_user, created_at, revoked_at from afterturn.api_key_t
     where host_id = :host order by created_at, key_id""")
REVOKE = text(
    "update afterturn.api_key_t set revoked_at = now() where key_id = :key and host_id = :host and revoked_at is null"
)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a key allows. `banks` None: every bank of the host; empty: none."""

    key_id: UUID
    host_id: UUID
    banks: frozenset[str] | None
    write: bool
    gateway_user: str | None = None

    def allows(self, bank: str) -> bool:
        """Say whether the key reaches this bank."""
        return self.banks is None or bank in self.banks


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key without its secret."""

    key_id: UUID
    label: str
    banks: tuple[str, ...] | None
    write: bool
    gateway_user: str | None
    created_at: datetime
    revoked_at: datetime | None


def _hash(token: str) -> bytes:
    # A token is 256 random bits: nothing to guess, so a fast hash is enough, and equality of hashes leaks nothing.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Keys:
    """Creates, checks and revokes keys, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[bytes, tuple[float, Grant | None]] = {}

    async def authenticate(self, token: str) -> Grant | None:
        """Return what the token allows, or None: unknown, revoked and malformed tokens look alike."""
        hashed = _hash(token)
        believed = self._known.get(hashed)
        if believed and believed[0] > time.monotonic():
            return believed[1]
        async with self._database.operator() as connection:
            row = (await connection.execute(FIND, {"hash": hashed})).one_or_none()
        grant = (
            None
            if row is None
            else Grant(
                row.key_id,
                row.host_id,
                None if row.banks is None else frozenset(row.banks),
                row.can_write,
                row.gateway_user,
            )
        )
        if len(self._known) >= CACHE_LIMIT:
            self._known.clear()
        self._known[hashed] = (time.monotonic() + CACHE_S, grant)
        return grant

    async def create(
        self,
        host: str,
        label: str,
        *,
        banks: Sequence[str] | None = None,
        write: bool = True,
        gateway_user: str | None = None,
    ) -> str:
        """Create a key of a host (and the host, if new) and return its token: the only time it is seen."""
        token = ("uk_" if gateway_user else "at_") + secrets.token_urlsafe(32)
        host_uuid = identity.host_id(host)
        async with self._database.operator() as connection:
            await connection.execute(ADD_HOST, {"host": host_uuid, "name": host})
            await connection.execute(
                ADD_KEY,
                {
                    "key": uuid4(),
                    "host": host_uuid,
                    "hash": _hash(token),
                    "label": label,
                    "banks": None if banks is None else list(banks),
                    "can_write": write,
                    "gateway_user": gateway_user,
                },
            )
        return token

    async def list(self, host: str) -> list[KeyInfo]:
        """List the keys of a host, revoked ones included, oldest first."""
        async with self._database.operator() as connection:
            rows = await connection.execute(LIST, {"host": identity.host_id(host)})
            return [
                KeyInfo(
                    r.key_id,
                    r.label,
                    None if r.banks is None else tuple(r.banks),
                    r.can_write,
                    r.gateway_user,
                    r.created_at,
                    r.revoked_at,
                )
                for r in rows
            ]

    async def revoke(self, host: str, key_id: UUID) -> None:
        """Revoke a key; it stops working within two seconds everywhere. Raises NotFound."""
        async with self._database.operator() as connection:
            done = await connection.execute(REVOKE, {"key": key_id, "host": identity.host_id(host)})
        if not done.rowcount:
            raise NotFound("no such key, or it is revoked already")
        self._known.clear()
