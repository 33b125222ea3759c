"""Bearer keys: tenant and rights of their holder. Only hashes are stored.

A key reaches everything of its tenant that it does not restrict: to banks, one user, one agent, reading, a time.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from afterturn_client.contract.operators import Key
from asyncpg import Record
from sqlalchemy import Select, bindparam, case, func, insert, literal, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.authority import Authority
from store.database import Database
from store.errors import NotFound
from store.schema import API_KEY, ERASURE, HOST
from store.tenancy.recent_answers import RecentAnswers
from store.tenancy.spaces import Space, has_owner
from store.tenancy.tenants import ADD_HOST, ensure_host, require_tenant_name
from store.tenancy.tokens import is_well_formed, new_token

#: Seconds for which an answer is cached: a revoked key works at most that much longer.
CACHE_S = 2.0
#: Answers kept of each kind, keys and misses; about 300 bytes each.
CACHE_LIMIT = 10_000

FIND = "select * from afterturn.find_key($1)"
_KEY, _SUCCESSOR = API_KEY.c, API_KEY.alias("s").c
_STATE = case((_KEY.revoked_at.is_not(None), "revoked"), (_KEY.expires_at <= func.now(), "expired"), else_="active")
LIST: Select[*tuple[Any, ...]] = (
    select(
        _KEY.key_id,
        _KEY.label,
        _KEY.banks,
        _KEY.can_write.label("write"),
        _KEY.can_curate.label("curate"),
        _KEY.gateway_user,
        _KEY.user_name.label("user"),
        _KEY.agent,
        _KEY.created_at,
        _KEY.revoked_at,
        _KEY.expires_at,
        _SUCCESSOR.key_id.label("replaced_by"),
        _STATE.label("state"),
    )
    .outerjoin_from(API_KEY, _SUCCESSOR.key_id.table, _SUCCESSOR.rotated_from == _KEY.key_id)
    .order_by(_KEY.created_at, _KEY.key_id)
)
ERASED = select(func.max(ERASURE.c.requested_at)).where(
    ERASURE.c.host_id == bindparam("host"),
    ERASURE.c.target_id == bindparam("user"),
    # Written out, for the index `erasure_marks`.
    text("kind in ('user', 'session', 'bank', 'document', 'memory')"),
    ERASURE.c.kind == "user",
)
# The predecessor ends after the overlap, or when it would have ended anyway; its row is locked first, so that two
# rotations at once leave one successor. A key with a lifetime gets a successor with as long a one.
RETIRE = text("""
    with old as (
        select k.key_id, k.expires_at, k.created_at from afterturn.api_key_t k
         where k.key_id = :old and k.host_id = :host and k.revoked_at is null and coalesce(k.expires_at > now(), true)
           for no key update
    )
    update afterturn.api_key_t k set expires_at = least(k.expires_at, now() + :overlap) from old
     where k.key_id = old.key_id
       and not exists (select from afterturn.api_key_t s where s.rotated_from = :old)
    returning now() + (old.expires_at - old.created_at) as expires_at""")
#: Columns that a successor takes over from its predecessor.
INHERITED = ("host_id", "label", "banks", "can_write", "can_curate", "gateway_user", "user_name", "agent")


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a key. `banks` None: every bank of the host; empty: none. `user`, `agent` None: not restricted.

    `curate`: a key of a user or an agent may also write directives and pins in banks that others share.
    `own_key`: the key itself as it came with a request, so that it can be redacted from what is written.
    """

    key_id: UUID
    host_id: UUID
    banks: frozenset[str] | None
    write: bool
    gateway_user: str | None = None
    user: str | None = None
    agent: str | None = None
    curate: bool = False
    own_key: str | None = field(default=None, repr=False, compare=False)
    #: Whether a holder without a user and an agent reaches the private banks of users and agents.
    private_banks: bool = True
    #: The platform's own id of the tenant, which a token of its issuer names.
    platform_host: str | None = field(default=None, compare=False)
    #: Whether the key has a row here, whose end is read again at every write.
    stored: bool = field(default=False, compare=False)
    #: When a token of an issuer was made: the erasure of its user ends it.
    issued: datetime | None = field(default=None, compare=False)

    def since(self, began: datetime) -> Authority:
        """Return the authority of a call of this key's holder that began at this time (of the database's clock)."""
        user = None if self.user is None else identity.user_id(self.host_id, self.user)
        return Authority(began, self.key_id if self.stored else None, user, self.issued)

    @property
    def space(self) -> Space:
        """The name space of the holder's own banks, with the banks of others that the key names."""
        return Space(self.user, self.agent, frozenset(filter(has_owner, self.banks or ())))

    def allows(self, bank: str) -> bool:
        """Return whether the key reaches this bank."""
        return (self.banks is None or bank in self.banks) and (self.private_banks or not has_owner(bank))


@dataclass(frozen=True, slots=True)
class Successor:
    """A key's successor: its id, its token (shown only now), and when it expires, if ever."""

    key_id: UUID
    token: str
    expires_at: datetime | None

    def __repr__(self) -> str:
        return f"Successor({self.key_id})"


def hash_token(token: str) -> bytes:
    """Return the hash under which a token is stored."""
    # A token is 256 random bits: nothing to guess, so a fast hash is enough, and equality of hashes leaks nothing.
    return hashlib.sha256(token.encode("ascii")).digest()


class Keys:
    """Creates, checks and revokes keys, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = RecentAnswers(self._find, CACHE_S, CACHE_LIMIT)
        self._erased = RecentAnswers(self._find_erasure, CACHE_S, CACHE_LIMIT)

    async def authenticate(self, token: str) -> Grant | None:
        """Return the rights of a token, or None: unknown, revoked and malformed tokens look alike.

        A malformed one costs no query; any other answer is cached for `CACHE_S` seconds.
        """
        if not is_well_formed(token):
            return None
        return await self._known.get(hash_token(token))

    async def _find(self, hashed: bytes) -> Grant | None:
        rows = await self._database.operator_fetch(FIND, hashed)
        return build_grant(rows[0]) if rows else None

    async def read_erasure(self, host: UUID, user: UUID) -> datetime | None:
        """Return when the erasure of a user was last requested; None: never. Cached for `CACHE_S` seconds."""
        return await self._erased.get((host, user))

    async def _find_erasure(self, whose: tuple[UUID, UUID]) -> datetime | None:
        host, user = whose
        async with self._database.tenant(host) as connection:
            found: datetime | None = await connection.scalar(ERASED, {"host": host, "user": user})
        return found

    async def create(
        self,
        host: str,
        label: str,
        *,
        banks: Sequence[str] | None = None,
        write: bool = True,
        curate: bool = False,
        gateway_user: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        expires_at: datetime | None = None,
        key_id: UUID | None = None,
    ) -> str:
        """Create a key of a host (and the host, if new) and return its token, which is shown only now.

        `key_id`: an id that no key has; without it the key gets a new one.
        """
        token = _make_token(gateway_user)
        host_uuid = identity.host_id(require_tenant_name(host))
        async with self._database.operator() as connection:
            await connection.execute(ADD_HOST, {"host_id": host_uuid, "name": host})
            await connection.execute(
                insert(API_KEY).values(
                    key_id=key_id or uuid4(),
                    host_id=host_uuid,
                    key_hash=hash_token(token),
                    label=label,
                    banks=None if banks is None else list(banks),
                    can_write=write,
                    can_curate=curate,
                    gateway_user=gateway_user,
                    user_name=user,
                    agent=agent,
                    expires_at=expires_at,
                )
            )
        return token

    async def add_host(self, host: str) -> None:
        """Create a host of this name, if there is none."""
        await ensure_host(self._database, host)

    async def hosts(self) -> dict[UUID, str]:
        """Return the names of all hosts by id."""
        async with self._database.operator() as connection:
            return {row.host_id: row.name for row in await connection.execute(select(HOST.c.host_id, HOST.c.name))}

    async def list(self, host: str) -> list[Key]:
        """Return the keys of a host, revoked and expired ones included, oldest first."""
        async with self._database.operator() as connection:
            rows = (await connection.execute(LIST.where(_KEY.host_id == identity.host_id(host)))).mappings()
            return [Key(**{**row, "banks": None if row["banks"] is None else tuple(row["banks"])}) for row in rows]

    async def rotate(
        self, host: str, key_id: UUID, overlap: timedelta, *, expires_at: datetime | None = None
    ) -> Successor:
        """Create a key with the same rights, and let this one expire after `overlap`; both work meanwhile.

        Without `expires_at` the successor gets the lifetime of its predecessor. Raises NotFound for a key that is
        unknown, revoked, expired or replaced already.
        """
        host_uuid = identity.host_id(host)
        async with self._database.operator() as connection:
            arguments = {"old": key_id, "host": host_uuid, "overlap": overlap}
            retired = (await connection.execute(RETIRE, arguments)).one_or_none()
            if retired is None:
                raise NotFound("no such key, or it is revoked, expired or replaced already")
            successor = await self._succeed(connection, key_id, expires_at or retired.expires_at)
        self._known.clear()
        return successor

    async def _succeed(self, connection: AsyncConnection, old: UUID, expires_at: datetime | None) -> Successor:
        kind = await connection.scalar(select(_KEY.gateway_user).where(_KEY.key_id == old))
        token, key = _make_token(kind), uuid4()
        own = {"key_id": key, "key_hash": hash_token(token), "expires_at": expires_at, "rotated_from": old}
        inherited = select(
            *(_KEY[name] for name in INHERITED), *(literal(value, API_KEY.c[name].type) for name, value in own.items())
        ).where(_KEY.key_id == old)
        await connection.execute(insert(API_KEY).from_select([*INHERITED, *own], inherited))
        return Successor(key, token, expires_at)

    async def revoke(self, host: str, key_id: UUID) -> None:
        """Revoke a key; it stops working within two seconds everywhere. Raises NotFound."""
        async with self._database.operator() as connection:
            done = await connection.execute(
                update(API_KEY)
                .where(_KEY.key_id == key_id, _KEY.host_id == identity.host_id(host), _KEY.revoked_at.is_(None))
                .values(revoked_at=func.now())
            )
        if not done.rowcount:
            raise NotFound("no such key, or it is revoked already")
        self._known.clear()


def _make_token(gateway_user: str | None) -> str:
    return new_token("uk_" if gateway_user else "at_")


def build_grant(row: Record) -> Grant:
    """Return the grant of a row that the database found a key by."""
    return Grant(
        row["key_id"],
        row["host_id"],
        None if row["banks"] is None else frozenset(row["banks"]),
        row["can_write"],
        row["gateway_user"],
        row["user_name"],
        row["agent"],
        row["can_curate"],
        stored=True,
    )
