"""Open turns of memory_run_turn: kept for an hour behind a token, until their output arrives.

    rt_ | 64 characters of base64url: the row's id (16 bytes), then a MAC (32) of tenant, holder and id

The MAC's key is the row's own, so any process that reads the row can judge the token, and one whose row is gone opens
nothing. A token holds nothing of its turn and is kept nowhere. The output that it is first used with is the only one:
the same again may be a retry, another is a conflict.
"""

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
from sqlalchemy import Update, func, insert, or_, select, update

from store import identity
from store.database import Database
from store.errors import NotFound, RateLimited, TurnConflict
from store.log.append import admit_call
from store.log.refusals import translate_refusals
from store.schema import OPEN_TURN
from store.tenancy.banks import space_ids
from store.tenancy.quotas import run_within_quota
from store.tenancy.spaces import parse_space
from store.tenancy.tokens import OPEN_TURN_CHARACTERS, OPEN_TURN_PREFIX

#: How long a turn waits for its output.
OPEN_FOR = timedelta(hours=1)
#: The most open turns of a tenant, the most bytes of their requests, and the Retry-After of a refusal in seconds.
MOST_OPEN, MOST_BYTES, RETRY_AFTER_S = 256, 67_108_864, 60

#: The fields of a request that identify the turn.
PLACE = ("project", "session_id", "turn_id")
_FORM = re.compile(rf"{OPEN_TURN_PREFIX}[A-Za-z0-9_-]{{{OPEN_TURN_CHARACTERS}}}", re.ASCII)
_ID_BYTES = 16

_TURN = OPEN_TURN.c


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """An open turn by its token: its request, or only the request's `PLACE` fields once the turn is `kept`."""

    token_id: UUID
    kept: bool
    request: Mapping[str, Any] = field(repr=False)
    mac_key: bytes = field(repr=False)


class OpenTurns:
    """Stores open turns, which expire by `clock`. Only the `holder` that got a token can use it."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def open(
        self, host: UUID, holder: str, bank: str, request: Mapping[str, Any], user: str | None = None
    ) -> tuple[str, datetime]:
        """Store a turn's request; return its token, which is shown only this once, and when it expires.

        `user`: whose turn it will be. Raises RateLimited where too many turns of the tenant are open already, or hold
        too many bytes; QuotaExceeded; AuthorityEnded, ErasedMeanwhile.
        """
        bank_id, user_id = identity.bank_id(host, bank), identity.user_id(host, user)
        now, token_id, key = self._clock(), uuid4(), secrets.token_bytes(32)
        sizes = func.coalesce(func.sum(func.octet_length(_TURN.request)), 0)
        waiting = select(func.count().label("turns"), sizes.label("bytes")).where(
            _TURN.host_id == host, _TURN.expires_at > now, _TURN.kept.is_(False)
        )
        concerned = [user_id, space_ids(host, parse_space(bank))[0] or user_id]
        row = {
            "host_id": host,
            "token_id": token_id,
            "bank_id": bank_id,
            "user_id": user_id,
            "mac_key": key,
            "request": orjson.dumps(request).decode(),
            "expires_at": now + OPEN_FOR,
        }

        async def write() -> None:
            with translate_refusals():
                async with self._database.tenant(host) as connection:
                    await admit_call(connection, host, [bank_id], concerned)
                    held = (await connection.execute(waiting)).one()
                    if held.turns >= MOST_OPEN:
                        raise RateLimited("max_open_turns", "host", MOST_OPEN, RETRY_AFTER_S)
                    if held.bytes >= MOST_BYTES:
                        raise RateLimited("max_bytes_of_open_turns", "host", MOST_BYTES, RETRY_AFTER_S)
                    await connection.execute(insert(OPEN_TURN).values(row))

        await run_within_quota(self._database, host, now, write)
        return _write_token(token_id, _sign_token(key, host, holder, token_id)), now + OPEN_FOR

    async def read(self, host: UUID, holder: str, token: str) -> OpenTurn:
        """Return the turn of a token. Raises NotFound for one that expired, is another holder's, or is none."""
        token_id, mac = _read_token(token)
        async with self._database.tenant(host) as connection:
            query = select(_TURN.mac_key, _TURN.request, _TURN.kept).where(
                _TURN.host_id == host, _TURN.token_id == token_id, _TURN.expires_at > self._clock()
            )
            row = (await connection.execute(query)).one_or_none()
        if row is None or not hmac.compare_digest(mac, _sign_token(row.mac_key, host, holder, token_id)):
            raise NotFound("no such open turn")
        return OpenTurn(token_id, row.kept, orjson.loads(row.request), row.mac_key)

    async def claim(self, host: UUID, turn: OpenTurn, output: Any) -> None:
        """Bind a turn to this output (JSON); later calls with another output get a conflict.

        Raises TurnConflict where another output came first, in this process or another.
        """
        mac = hmac.digest(turn.mac_key, orjson.dumps(output, option=orjson.OPT_SORT_KEYS), "sha256")
        async with self._database.tenant(host) as connection:
            same = or_(_TURN.output_mac.is_(None), _TURN.output_mac == mac)
            claimed = await connection.execute(_update_turn(host, turn).where(same).values(output_mac=mac))
            if not claimed.rowcount:
                raise TurnConflict("the token of this turn was used with another output")

    async def close(self, host: UUID, turn: OpenTurn) -> None:
        """Delete a turn's request, which is in the log now. The token stays known as used until it expires."""
        place = {name: turn.request[name] for name in PLACE}
        async with self._database.tenant(host) as connection:
            known = {"kept": True, "request": orjson.dumps(place).decode()}
            await connection.execute(_update_turn(host, turn).values(known))


def _update_turn(host: UUID, turn: OpenTurn) -> Update:
    return update(OPEN_TURN).where(_TURN.host_id == host, _TURN.token_id == turn.token_id)


def _sign_token(key: bytes, host: UUID, holder: str, token_id: UUID) -> bytes:
    return hmac.digest(key, f"{host}\0{token_id}\0{holder}".encode(), "sha256")


def _write_token(token_id: UUID, mac: bytes) -> str:
    return OPEN_TURN_PREFIX + base64.urlsafe_b64encode(token_id.bytes + mac).decode("ascii")


def _read_token(token: str) -> tuple[UUID, bytes]:
    if _FORM.fullmatch(token) is None:
        raise NotFound("no such open turn")
    try:
        told = base64.urlsafe_b64decode(token[3:])
    except binascii.Error:
        raise NotFound("no such open turn") from None
    return UUID(bytes=told[:_ID_BYTES]), told[_ID_BYTES:]
