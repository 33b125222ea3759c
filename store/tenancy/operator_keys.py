"""Keys of operators: they have no tenant, open the operator's calls alone and read no content. Only hashes are kept."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import case, func, insert, select, text, update

from store.database import Database
from store.errors import NotFound
from store.schema import OPERATOR_KEY
from store.tenancy.keys import RecentAnswers, hash_token
from store.tenancy.tokens import OPERATOR_PREFIX, is_well_formed, new_token

FIND = text("select * from afterturn.find_operator_key(:hash)")
_KEY = OPERATOR_KEY.c
_STATE = case((_KEY.revoked_at.is_not(None), "revoked"), (_KEY.expires_at <= func.now(), "expired"), else_="active")
LIST = select(
    _KEY.key_id, _KEY.label, _KEY.created_at, _KEY.expires_at, _KEY.revoked_at, _STATE.label("state")
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


class OperatorKeys:
    """Creates, checks and revokes operators' keys, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: RecentAnswers[UUID] = RecentAnswers()
        self._missed: RecentAnswers[bool] = RecentAnswers()

    async def authenticate(self, token: str) -> UUID | None:
        """Return the key's id, or None: unknown, revoked, expired and malformed tokens look alike."""
        if not token.startswith(OPERATOR_PREFIX) or not is_well_formed(token):
            return None
        hashed = hash_token(token)
        if known := self._known.get(hashed):
            return known
        if self._missed.get(hashed):
            return None
        async with self._database.operator() as connection:
            found: UUID | None = await connection.scalar(FIND, {"hash": hashed})
        if found is None:
            self._missed.put(hashed, True)
            return None
        self._known.put(hashed, found)
        return found

    async def create(self, label: str, expires_at: datetime | None = None) -> str:
        """Create a key and return its token: the only time it is seen."""
        token = new_token(OPERATOR_PREFIX)
        new = {"key_id": uuid4(), "key_hash": hash_token(token), "label": label, "expires_at": expires_at}
        async with self._database.operator() as connection:
            await connection.execute(insert(OPERATOR_KEY).values(new))
        return token

    async def list(self) -> list[OperatorKey]:
        """List the keys, revoked and expired ones included, oldest first."""
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
