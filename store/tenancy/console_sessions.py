"""Sessions of the console: a browser's stand-in for a key that was shown once. Only digests are stored.

A session's secret has two halves. The browser keeps one in a cookie, which no script reads, and which it sends to every
server on the same machine; the page keeps the other, which no other origin reads. One half alone opens nothing.
A session ends after 12 hours without a call, and with its keys.
"""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Select, bindparam, select

from store.database import Database
from store.schema import API_KEY, HOST
from store.tenancy.keys import CACHE_LIMIT, CACHE_S, Grant, build_grant, hash_token
from store.tenancy.operator_keys import Operator, build_operator
from store.tenancy.recent_answers import RecentAnswers
from store.tenancy.tokens import LINK_PREFIX, SECRET_BYTES, SESSION_PREFIX, is_well_formed, new_token

OPEN = "select afterturn.open_console_session($1, $2, $3) as done"
WIDEN = "select afterturn.widen_console_session($1, $2, $3) as done"
FOLLOW = "select afterturn.follow_console_link($1, $2) as done"
CLOSE = "select afterturn.close_console_session($1)"
FIND_KEY = "select * from afterturn.find_key_of_session($1)"
FIND_OPERATOR = "select * from afterturn.find_operator_of_session($1)"
HOLDER: Select[tuple[str, str]] = (
    select(HOST.c.name, API_KEY.c.label)
    .join_from(API_KEY, HOST, HOST.c.host_id == API_KEY.c.host_id)
    .where(API_KEY.c.key_id == bindparam("key"))
)
PAGE_HALF = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SessionSecret:
    """Both halves of a session's secret: the cookie's and the page's."""

    cookie: str = field(repr=False)
    page: str = field(repr=False)

    @property
    def is_well_formed(self) -> bool:
        """Whether the halves have the form of a session's: others cost no query."""
        own = self.cookie.startswith(SESSION_PREFIX) and is_well_formed(self.cookie)
        return own and PAGE_HALF.fullmatch(self.page) is not None

    def digest(self) -> bytes:
        """Return the digest under which the session is stored."""
        return hashlib.sha256(f"{self.cookie}.{self.page}".encode("ascii")).digest()


@dataclass(frozen=True, slots=True)
class SessionHolder:
    """The names of a session's tenant and of its key; None where it has none."""

    tenant: str | None
    label: str | None


class ConsoleSessions:
    """Opens, finds and closes sessions of the console, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._grants = RecentAnswers(self._find_grant, CACHE_S, CACHE_LIMIT)
        self._operators = RecentAnswers(self._find_operator, CACHE_S, CACHE_LIMIT)

    async def open(self, *keys: str) -> SessionSecret | None:
        """Open a session for the holder of these keys: of one of a tenant, of one of an operator, or of both.

        None: one of them is unknown, revoked, expired, malformed, or of a gateway's user.
        """
        secret = _new_secret()
        return secret if await self._store(secret.digest(), keys, is_link=False) else None

    async def widen(self, old: SessionSecret, key: str) -> SessionSecret | None:
        """Return a session with the keys of another, which ends, and with this one in the place of that of its kind.

        None: the session or the key has ended, or is none.
        """
        if not old.is_well_formed or not is_well_formed(key):
            return None
        secret = _new_secret()
        rows = await self._database.operator_fetch(WIDEN, secret.digest(), old.digest(), hash_token(key))
        self._grants.clear()
        self._operators.clear()
        return secret if rows[0]["done"] else None

    async def create_link(self, *keys: str) -> str | None:
        """Return the code of a link that opens one session for these keys within an hour; None as in `open`."""
        code = new_token(LINK_PREFIX)
        return code if await self._store(hash_token(code), keys, is_link=True) else None

    async def _store(self, digest: bytes, keys: Sequence[str], *, is_link: bool) -> bool:
        if not keys or not all(map(is_well_formed, keys)):
            return False
        rows = await self._database.operator_fetch(OPEN, digest, is_link, [hash_token(key) for key in keys])
        return bool(rows[0]["done"])

    async def follow_link(self, code: str) -> SessionSecret | None:
        """Open the session of a link, which works no more then; None: it does not work (any more)."""
        if not code.startswith(LINK_PREFIX) or not is_well_formed(code):
            return None
        secret = _new_secret()
        rows = await self._database.operator_fetch(FOLLOW, hash_token(code), secret.digest())
        return secret if rows[0]["done"] else None

    async def find_grant(self, secret: SessionSecret) -> Grant | None:
        """Return what the session's key of a tenant allows; None: the session or its key has ended, or has none.

        Cached for `CACHE_S` seconds, as keys are.
        """
        return await self._grants.get(secret.digest()) if secret.is_well_formed else None

    async def find_operator(self, secret: SessionSecret) -> Operator | None:
        """Return the holder of the session's operator's key; None as in `find_grant`."""
        return await self._operators.get(secret.digest()) if secret.is_well_formed else None

    async def describe_holder(self, grant: Grant) -> SessionHolder:
        """Return the names of the tenant and the key of a grant."""
        async with self._database.operator() as connection:
            row = (await connection.execute(HOLDER, {"key": grant.key_id})).one_or_none()
        return SessionHolder(row.name, row.label) if row else SessionHolder(None, None)

    async def close(self, secret: SessionSecret) -> None:
        """End the session; other processes answer it for two seconds at most."""
        if secret.is_well_formed:
            await self._database.operator_fetch(CLOSE, secret.digest())
            self._grants.clear()
            self._operators.clear()

    async def _find_grant(self, digest: bytes) -> Grant | None:
        rows = await self._database.operator_fetch(FIND_KEY, digest)
        return build_grant(rows[0]) if rows else None

    async def _find_operator(self, digest: bytes) -> Operator | None:
        rows = await self._database.operator_fetch(FIND_OPERATOR, digest)
        return build_operator(rows[0]) if rows else None


def _new_secret() -> SessionSecret:
    return SessionSecret(new_token(SESSION_PREFIX), secrets.token_urlsafe(SECRET_BYTES))
