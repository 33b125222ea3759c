"""Authenticates tokens (JWTs) of other issuers on every HTTP interface: the issuers, users, agents and scopes accepted.

The issuer decides who a user or an agent is and what its tokens may do; the tenant is that of the issuer's settings. A
token that names a service (`sid`) is an agent's without a user, and must be of this deployment. A token that is not
valid in every way is refused, without saying why.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid5

import httpx
import jwt
import orjson
import structlog
from afterturn_client.errors import InvalidRequestError
from afterturn_client.transport import open_client, read_bounded
from pydantic import TypeAdapter, ValidationError

from producers.errors import InsufficientScope
from producers.mcp.settings import IssuerSettings, McpSettings
from producers.service.fields import Name
from store import identity
from store.authority import read_epoch
from store.tenancy.keys import Grant, Keys
from store.tenancy.spaces import Space

log = structlog.get_logger("afterturn.issuers")

#: Most bytes of a token, and of an issuer's key set.
LONGEST_TOKEN, LONGEST_JWKS = 8_192, 262_144
#: Seconds for which keys are cached. Seconds after which a token for which there is no key has them read again: after a
#: reading that succeeded, and after one that failed.
KEPT_S, AGAIN_S, AFTER_FAILURE_S = 600.0, 10.0, 1.0
#: Time-out for an issuer's keys, in seconds.
TIMEOUT_S = 5.0
REQUIRED = ["exp", "iss", "sub", "aud"]
#: The claim that names the service that a token was issued to: without a user.
SERVICE = "sid"
#: Key types for signatures; shared secrets are not accepted.
SIGNING = frozenset({"RSA", "EC", "OKP"})
_NAME: TypeAdapter[str] = TypeAdapter(Name)


def create_key_client() -> httpx.AsyncClient:
    """Return the client that fetches issuers' keys: over plain HTTP they come from this machine, past any proxy.

    The keys are public: where the environment names a proxy that cannot be used, they are fetched without one.
    """
    try:
        return open_client(httpx.AsyncClient, mounts={"http://": None})
    except InvalidRequestError as error:
        log.warning("issuers' keys are fetched without a proxy", reason=str(error))
        return httpx.AsyncClient(trust_env=False)


class SigningKeys:
    """An issuer's public keys by id, from a file or a URL; read again when they are old or one is missing."""

    def __init__(self, source: str, http: httpx.AsyncClient) -> None:
        """Keep the source (a file or a URL), which is read at the first `find`."""
        self._source = source
        self._http = http
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._read_at = float("-inf")
        self._failed = False
        self._reading = asyncio.Lock()

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """Return the key of this id; without an id, the only key. None: there is none, or none can be read."""
        if self._is_due(key_id):
            async with self._reading:
                if self._is_due(key_id):
                    await self._read()
        return self._pick(key_id)

    def _pick(self, key_id: str | None) -> jwt.PyJWK | None:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _is_due(self, key_id: str | None) -> bool:
        age = time.monotonic() - self._read_at
        if age >= KEPT_S:
            return True
        return age >= (AFTER_FAILURE_S if self._failed else AGAIN_S) and self._pick(key_id) is None

    async def _read(self) -> None:
        """Read the keys; after a failure, the ones read before stay."""
        self._read_at, self._failed = time.monotonic(), True
        try:
            told = jwt.PyJWKSet.from_dict(orjson.loads(await self._fetch()))
        except (OSError, ValueError, TypeError, AttributeError, httpx.HTTPError, jwt.PyJWTError) as error:
            log.warning("issuer_keys_unreadable", source=self._source, error=type(error).__name__)
            return
        self._keys = {key.key_id: key for key in told.keys if key.key_type in SIGNING}
        self._failed = False

    async def _fetch(self) -> bytes:
        if urlsplit(self._source).scheme not in {"http", "https"}:
            return await asyncio.to_thread(Path(self._source).read_bytes)
        async with self._http.stream("GET", self._source, timeout=TIMEOUT_S) as reply:
            if reply.status_code != httpx.codes.OK:
                raise ValueError("no keys")
            body = await read_bounded(reply, LONGEST_JWKS)
        if body is None:
            raise ValueError("too many keys")
        return body


class TokenIssuers:
    """The authenticator of bearer tokens: keys of this service, or tokens of the configured issuers."""

    def __init__(self, keys: Keys, settings: McpSettings, http: httpx.AsyncClient, environment: str = "") -> None:
        """Keep keys and settings; `http` fetches the keys of issuers, `environment` is that of this deployment."""
        self._keys = keys
        self._settings = settings
        self._environment = environment
        self._issuers = {one.issuer: (one, SigningKeys(one.jwks, http)) for one in settings.issuers}
        self._hosts: set[str] = set()

    async def authenticate(self, token: str) -> Grant | None:
        """Return the grant of a token; None for an invalid one.

        Raises InsufficientScope for a valid one without the scope to read.
        """
        if token.count(".") != 2 or len(token) > LONGEST_TOKEN:  # noqa: PLR2004 - header, claims and signature
            return await self._keys.authenticate(token)
        claims = await self._verify(token)
        return None if claims is None else await self._allow(self._issuers[claims["iss"]][0], claims)

    async def _verify(self, token: str) -> Mapping[str, Any] | None:
        """Return the claims of a token whose signature, audience and time are valid, else None."""
        try:
            head = jwt.get_unverified_header(token)
            named = jwt.decode(token, options={"verify_signature": False}).get("iss")
            if not isinstance(named, str) or named not in self._issuers:
                return None
            issuer, keys = self._issuers[named]
            if head.get("alg") not in issuer.algorithms or (key := await keys.find(head.get("kid"))) is None:
                return None
            return jwt.decode(
                token,
                key,
                algorithms=list(issuer.algorithms),
                audience=issuer.audience or self._settings.resource,
                issuer=issuer.issuer,
                leeway=issuer.leeway_seconds,
                options={"require": REQUIRED},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None

    def _is_of_another(self, issuer: IssuerSettings, user: str) -> bool:
        """Return whether the name begins as those of another issuer's users of the tenant do."""
        return any(
            len(other.user_prefix) > len(issuer.user_prefix) and user.startswith(other.user_prefix)
            for other, _ in self._issuers.values()
            if other.tenant == issuer.tenant
        )

    def _is_for_here(self, issuer: IssuerSettings, claims: Mapping[str, Any]) -> bool:
        """Return whether the claims `host`, `env` and `sid` name this deployment.

        A service's token must have all three. A user's may leave out `env`, and `host` where the issuer names none.
        """
        host, environment, service = (claims.get(name) for name in ("host", "env", SERVICE))
        if service is None:
            return (not issuer.host or host == issuer.host) and environment in (None, self._environment or environment)
        named = bool(issuer.host and self._environment)
        return named and (host, environment) == (issuer.host, self._environment) and service in issuer.services

    def _read_holder(self, issuer: IssuerSettings, claims: Mapping[str, Any]) -> Space | None:
        """Return the user and the agent whose token it is; None for a token without either."""
        try:
            subject = _NAME.validate_python(claims["sub"], strict=True)
            told = claims.get(issuer.agent_claim)
            agent = None if told is None else _NAME.validate_python(told, strict=True)
            if SERVICE in claims:
                return Space(agent=agent) if agent else None
            user = _NAME.validate_python(issuer.user_prefix + subject)
        except ValidationError:
            return None
        return None if self._is_of_another(issuer, user) else Space(user, agent)

    async def _allow(self, issuer: IssuerSettings, claims: Mapping[str, Any]) -> Grant | None:
        holder = self._read_holder(issuer, claims)
        if holder is None or not self._is_for_here(issuer, claims):
            return None
        scopes = read_scopes(claims.get(issuer.scope_claim))
        if issuer.read_scope not in scopes:
            raise InsufficientScope(issuer.read_scope)
        if issuer.tenant not in self._hosts:
            await self._keys.add_host(issuer.tenant)
            self._hosts.add(issuer.tenant)
        host = identity.host_id(issuer.tenant)
        issued = read_epoch(claims.get("iat"))
        if holder.user is not None:
            erased = await self._keys.read_erasure(host, identity.user_id(host, holder.user))
            if erased is not None and issued <= erased:
                return None
        key = uuid5(host, f"token:{issuer.issuer}:{holder.prefix if holder.agent else holder.user}")
        write = issuer.write_scope in scopes
        return Grant(
            key,
            host,
            None,
            write=write,
            user=holder.user,
            agent=holder.agent,
            issued=issued,
            platform_host=issuer.host or None,
        )


def read_scopes(claim: object) -> frozenset[str]:
    """Return the scopes of a claim: words of a text, or a list of texts; anything else has none."""
    if isinstance(claim, str):
        return frozenset(claim.split())
    if isinstance(claim, Sequence):
        return frozenset(one for one in claim if isinstance(one, str))
    return frozenset()
