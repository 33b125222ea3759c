"""Keys of operators: they have no tenant, allow operators' calls alone and read no content. Only hashes are stored."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from asyncpg import Record
from sqlalchemy import case, func, insert, select, update

from store.database import Database
from store.errors import NotFound
from store.schema import OPERATOR_KEY
from store.tenancy.keys import CACHE_LIMIT, CACHE_S, hash_token
from store.tenancy.recent_answers import RecentAnswers
from store.tenancy.tokens import OPERATOR_PREFIX, is_well_formed, new_token

FIND = "select * from afterturn.find_operator($1)"
_KEY = OPERATOR_KEY.c
_STATE = case((_KEY.revoked_at.is_not(None), "revoked"), (_KEY.expires_at <= func.now(), "expired"), else_="active")
LIST = select(
    _KEY.key_id, _KEY.label, _KEY.created_at, _KEY.expires_at, _KEY.revoked_at, _STATE.label("state"), _KEY.makes_keys
).order_by(_KEY.created_at, _KEY.key_id)


@dataclass(frozen=True, slots=True)
class OperatorKey:
    """An operator's key without its secret; `state` is active, revoked or expired."""

    key_id: UUID
    label: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    state: str
    makes_keys: bool


@dataclass(frozen=True, slots=True)
class Operator:
    """The holder of an operator's key: the key, and whether it may make keys of tenants.

    `name`: the account of a caller who has the database's password instead of a key.
    """

    key_id: UUID
    makes_keys: bool
    name: str | None = None


class OperatorKeys:
    """Creates, checks and revokes operators' keys, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = RecentAnswers(self._find, CACHE_S, CACHE_LIMIT)

    async def authenticate(self, token: str) -> Operator | None:
        """Return whose key it is, or None: unknown, revoked, expired and malformed tokens look alike."""
        if not token.startswith(OPERATOR_PREFIX) or not is_well_formed(token):
            return None
        return await self._known.get(hash_token(token))

    async def _find(self, hashed: bytes) -> Operator | None:
        rows = await self._database.operator_fetch(FIND, hashed)
        return build_operator(rows[0]) if rows else None

    async def create(
        self, label: str, expires_at: datetime | None = None, *, makes_keys: bool = False, key_id: UUID | None = None
    ) -> str:
        """Create a key and return its token, which is shown only now.

        `key_id`: an id that no key has; without it the key gets a new one. `makes_keys`: it may also make and rotate
        keys of tenants, and so come to read what they read.
        """
        token = new_token(OPERATOR_PREFIX)
        new = {
            "key_id": key_id or uuid4(),
            "key_hash": hash_token(token),
            "label": label,
            "expires_at": expires_at,
            "makes_keys": makes_keys,
        }
        async with self._database.operator() as connection:
            await connection.execute(insert(OPERATOR_KEY).values(new))
        return token

    async def list(self) -> list[OperatorKey]:
        """Return the keys, revoked and expired ones included, oldest first."""
        async with self._database.operator() as connection:
            return [OperatorKey(*row) for row in await connection.execute(LIST)]

    async def revoke(self, key_id: UUID) -> None:
        """Revoke a key; it stops working within two seconds everywhere. Raises NotFound."""
        async with self._database.operator() as connection:
            done = await connection.execute(
                update(OPERATOR_KEY)
                .where(_KEY.key_id == key_id, _KEY.revoked_at.is_(None))
                .values(revoked_at=func.now())
            )
        if not done.rowcount:
            raise NotFound("no such key, or it is revoked already")
        self._known.clear()


def build_operator(row: Record) -> Operator:
    """Return the holder of the key that the database found."""
    # A driver's own UUID type would not compare equal to ours in the audit.
    return Operator(UUID(int=row["key_id"].int), row["makes_keys"])
