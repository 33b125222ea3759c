"""A client of memory plugins of contract v1: validates requests, and classifies every failure."""

import asyncio
import json
import re
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import httpx
from afterturn_client.closing import AsyncClosing
from afterturn_client.errors import InvalidRequestError
from afterturn_client.plugin_target import PluginTarget, namespace_path, parse_target
from afterturn_client.transport import parse_retry_after, read_bounded
from pydantic import BaseModel, ValidationError

from embeddings.retry import AT_ONCE, Retry, Sleep
from producers.perimeter.breaker import CircuitBreaker
from producers.perimeter.errors import InvalidCall, PluginOverloaded, PluginRefused, PluginUnavailable, UnreadableAnswer
from producers.plugin.wire import (
    ForgetRequest,
    Found,
    Health,
    MemoryWrite,
    Namespace,
    NamespacePatch,
    NamespaceUpsert,
    Problem,
    SearchRequest,
    Written,
    is_namespace,
)
from store.off_loop import run_off_loop

DEFAULT_URL = "http://localhost:9100"
TIMEOUT_S = 2.0
#: A 429 is obeyed RETRIES times, while it asks for LONGEST_PAUSE_S seconds at most; beyond that the caller waits.
RETRIES = 3
LONGEST_PAUSE_S = 5.0
#: The pause of a 429 that asks for none.
DEFAULT_PAUSE_S = 1.0
#: Retries without own waits: each attempt waits for the longest pause that any call was asked for.
OBEY = Retry(AT_ONCE, attempts=RETRIES + 1)
#: Most bytes of an answer that are read: enough for a hundred memories of 64 KiB.
LARGEST_ANSWER = 16_777_216
#: Bytes of an unexpected error body that are repeated in the message.
SHOWN_BYTES = 256
#: Seconds for which a plugin's capabilities are cached.
CAPABILITIES_S = 60.0
CONNECTIONS = 16

_OK, _NO_CONTENT, _REDIRECT, _TOO_MANY, _SERVER_ERROR = 200, 204, 300, 429, 500
#: The code of a refusal whose body names none.
_CODES = {404: "not_found", 403: "forbidden"}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")

Body = TypeVar("Body", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class PluginAddress:
    """The address of a plugin: `http(s)://HOST/PREFIX` or `unix:/SOCKET`, and the time-out of its requests.

    `timeout_s` limits one request as a whole. Raises InvalidCall for an unusable URL.
    """

    url: str = DEFAULT_URL
    timeout_s: float = TIMEOUT_S
    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None

    @property
    def target(self) -> PluginTarget:
        """The URL in its parts."""
        try:
            return parse_target(self.url)
        except InvalidRequestError as error:
            raise InvalidCall(f"MEMORY_PLUGIN_URL: {error}") from None


def parse_timeout(text: str) -> float:
    """Return the seconds of MEMORY_PLUGIN_TIMEOUT, a duration as Go writes it (`2s`, `1m30s`, `500ms`).

    Any other text, and a duration of zero, is the default of 2 s.
    """
    found = _DURATION.fullmatch(text.strip())
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in found.groups()) if found else (0.0,) * 4
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000 or TIMEOUT_S


def build_body(model: type[Body], /, **fields: Any) -> Body:
    """Return a body of the contract. Raises InvalidCall, which names the fields and never their values."""
    try:
        return model(**fields)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'request'}: {one['msg'].removeprefix('Value error, ')}"
            for one in error.errors(include_input=False, include_url=False, include_context=False)
        )
    raise InvalidCall(problems)


class PluginClient(AsyncClosing):
    """The client of one plugin; reads no proxy and no credential from the environment. Belongs to one event loop.

    Requests are validated before they are sent. Raises InvalidCall; PluginRefused for a 4xx; PluginUnavailable
    (CircuitOpen, PluginOverloaded) for no answer or a 5xx; UnreadableAnswer for a 2xx that does not fit the contract.
    Without a `breaker` every call is tried.
    """

    def __init__(
        self,
        address: PluginAddress,
        *,
        breaker: CircuitBreaker | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        target = address.target
        self._base, self._timeout_s = target.base, address.timeout_s
        self._breaker, self._now, self._sleep = breaker, now, sleep
        self._pause_until = 0.0
        self._capabilities: tuple[float, frozenset[str]] | None = None
        self._headers = {"accept": "application/json"}
        if address.token:
            self._headers["authorization"] = f"Bearer {address.token}"
        # WHY no httpx.AsyncClient: it logs URLs, which name workspaces, and obeys redirects, cookies and proxies.
        self._http = httpx.AsyncHTTPTransport(
            verify=_load_certificates(address.ca_file) if target.base.startswith("https") else False,
            uds=target.socket,
            limits=httpx.Limits(max_connections=CONNECTIONS),
            trust_env=False,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def health(self) -> Health:
        """Return the plugin's health; a 503 with any body is PluginUnavailable."""
        health = await self._ask("GET", "/v1/health", None, Health)
        self._capabilities = (self._now(), frozenset(health.capabilities))
        return health

    async def capabilities(self) -> frozenset[str]:
        """Return the plugin's capabilities, at most a minute old; while it is away, the last known ones.

        Raises like every call where none were ever known, since fields that a plugin ignores must not be sent unawares.
        """
        known = self._capabilities
        if known is None:
            return frozenset((await self.health()).capabilities)
        if self._now() - known[0] >= CAPABILITIES_S:
            with suppress(PluginUnavailable, PluginRefused, UnreadableAnswer):
                return frozenset((await self.health()).capabilities)
        return known[1]

    async def upsert_namespace(self, name: str, body: NamespaceUpsert) -> Namespace:
        """Create a namespace, or change the fields that the body names."""
        return await self._ask("PUT", _build_path(name), body.as_json(), Namespace)

    async def patch_namespace(self, name: str, body: NamespacePatch) -> Namespace:
        """Change the fields of a namespace that the body names; null clears one."""
        return await self._ask("PATCH", _build_path(name), body.as_json(), Namespace)

    async def delete_namespace(self, name: str) -> None:
        """Delete a namespace and its memories."""
        await self._exchange("DELETE", _build_path(name), None)

    async def write(self, namespace: str, body: MemoryWrite) -> Written:
        """Write a memory."""
        written = await self._ask("POST", _build_path(namespace, "/memories"), body.as_json(), Written)
        if body.id is not None and written.id.lower() != str(body.id):
            raise UnreadableAnswer("the plugin answered a write with another id than it was given")
        return written

    async def search(self, body: SearchRequest) -> Found:
        """Return the memories that a search finds."""
        return await self._ask("POST", "/v1/search", body.as_json(), Found)

    async def forget(self, memory_id: UUID, body: ForgetRequest) -> None:
        """Forget a memory of the namespace that the body names."""
        await self._exchange("DELETE", f"/v1/memories/{memory_id}", body.as_json())

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, answer: type[Body]) -> Body:
        """Send a request and return its answer."""
        status, raw = await self._exchange(method, path, body)
        try:
            return await run_off_loop(len(raw), _parse_answer, answer, status, raw)
        except (ValueError, RecursionError):  # pydantic's error is a ValueError, and repeats what it read
            pass
        raise UnreadableAnswer(f"the plugin answered {status} with a body that the contract does not know")

    async def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        """Send a request, again only after a 429, and return a 2xx."""
        return await OBEY.call(partial(self._exchange_once, method, path, body), _find_retry_delay)

    async def _exchange_once(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        """Send a request after any pause. Raises PluginOverloaded, after noting the plugin's Retry-After."""
        await self._wait()
        status, headers, raw = await self._send(method, path, body)
        if _OK <= status < _REDIRECT:
            return status, raw
        if status != _TOO_MANY:
            raise _build_refusal(status, raw)
        asked_s = parse_retry_after(headers.get("retry-after"))
        pause_s = DEFAULT_PAUSE_S if asked_s is None else asked_s
        self._pause_until = max(self._pause_until, self._now() + pause_s)
        raise PluginOverloaded(pause_s)

    async def _wait(self) -> None:
        """Wait for the pause that the plugin asked for. Raises PluginOverloaded where that is long, CircuitOpen."""
        pause_s = self._pause_until - self._now()
        if pause_s > LONGEST_PAUSE_S:
            raise PluginOverloaded(pause_s)
        if pause_s > 0:
            await self._sleep(pause_s)
        if self._breaker:
            self._breaker.check()

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request once, and record its outcome in the breaker."""
        content = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        headers = self._headers if content is None else {**self._headers, "content-type": "application/json"}
        request = httpx.Request(method, self._base + path, content=content, headers=headers)
        problem = None
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._http.handle_async_request(request)
                async with aclosing(response):
                    raw = await _read_body(response)
        except TimeoutError:
            problem = f"no answer within {self._timeout_s:g} s"
        except httpx.HTTPError as error:  # its text may repeat the URL
            problem = type(error).__name__
        if problem is None and response.status_code < _SERVER_ERROR:
            if self._breaker:
                self._breaker.record_success()
            return response.status_code, response.headers, raw
        if self._breaker:
            self._breaker.record_failure()
        raise PluginUnavailable(
            f"the memory plugin cannot be reached ({problem})"
            if problem
            else _choose_message(response.status_code, raw)
        )


def _parse_answer(answer: type[Body], status: int, raw: bytes) -> Body:
    """Return the object of an answer. Raises ValueError, RecursionError."""
    return answer.model_validate({"memories": None} if status == _NO_CONTENT else json.loads(raw))


def _find_retry_delay(error: Exception) -> float | None:
    return 0.0 if isinstance(error, PluginOverloaded) and error.retry_after_s <= LONGEST_PAUSE_S else None


async def _read_body(response: httpx.Response) -> bytes:
    raw = await read_bounded(response, LARGEST_ANSWER)
    if raw is None:
        raise UnreadableAnswer(f"the plugin's answer is longer than {LARGEST_ANSWER} bytes")
    return raw


def _build_refusal(status: int, raw: bytes) -> PluginRefused:
    problem = _parse_problem(raw)
    code = problem.code if problem else _CODES.get(status, "bad_request")
    return PluginRefused(status, code, _choose_message(status, raw), problem.details if problem else None)


def _choose_message(status: int, raw: bytes) -> str:
    """Return the message of an unsuccessful answer, for the caller."""
    problem = _parse_problem(raw)
    if problem:
        return problem.message
    return f"status {status}: {raw[:SHOWN_BYTES].decode(errors='replace')}" if raw else f"status {status} (empty body)"


def _parse_problem(raw: bytes) -> Problem | None:
    try:
        return Problem.model_validate(json.loads(raw))
    except (ValueError, RecursionError):
        return None


def _build_path(name: str, ending: str = "") -> str:
    if not is_namespace(name):
        raise InvalidCall("namespace: must be like workspace:abc, in at most 256 bytes")
    return namespace_path(name, ending)


def _load_certificates(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError):
        raise InvalidCall("MEMORY_PLUGIN_CA_FILE: it holds no certificates in PEM") from None
