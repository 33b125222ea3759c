"""HTTP to the plugin under test: where it listens, one bounded request, and what it answered."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from afterturn_client.plugin_target import PluginTarget
from afterturn_client.transport import parse_retry_after, read_bounded

from producers.contract_kit.errors import NoAnswerError, UnusableError
from producers.contract_kit.findings import show_text
from producers.contract_kit.wire import parse_json

#: Most concurrent connections, also for cases that write in parallel.
CONNECTIONS = 10
#: Most bytes of an answer that are read; a hundred memories of the kit have far fewer.
LARGEST_ANSWER = 8_388_608
#: How often a 429 with Retry-After is obeyed, and how many seconds of it at most.
RETRIES = 3
LONGEST_RETRY_S = 5.0
_TOO_MANY = 429


@dataclass(frozen=True, slots=True)
class PluginReply:
    """The plugin's answer to one request; `did` and `saw` describe request and answer for a person."""

    did: str
    status: int
    content_type: str
    raw: bytes = field(repr=False)
    secret: str | None = field(default=None, repr=False)

    @property
    def value(self) -> Any:
        """The JSON value of the body; None where it is none."""
        try:
            return parse_json(self.raw)
        except ValueError:
            return None

    @property
    def is_json(self) -> bool:
        """Whether the body is JSON by the RFC."""
        try:
            parse_json(self.raw)
        except ValueError:
            return False
        return True

    def get(self, name: str) -> Any:
        """Return a field of the body's object; None where there is none."""
        value = self.value
        return value.get(name) if isinstance(value, dict) else None

    @property
    def saw(self) -> str:
        """The answer for a person: status and the beginning of the body, never the token."""
        text = self.raw[:2000].decode(errors="replace")
        text = text.replace(self.secret, "[token]") if self.secret else text
        return show_text(f"{self.status} {text.strip() or '(empty body)'}")


class Plugin:
    """The plugin under test: sends one request after another, each within `timeout_s` as a whole.

    Reads no proxy and no credential from the environment.
    """

    def __init__(
        self, target: PluginTarget, *, timeout_s: float = 5.0, token: str | None = None, ca_file: Path | None = None
    ) -> None:
        self.target = target
        self._timeout_s = timeout_s
        self._token = token
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._places = asyncio.Semaphore(CONNECTIONS)
        # WHY no httpx.Client: redirects, cookies and the environment's credentials are no part of the contract.
        self._http = httpx.AsyncHTTPTransport(
            verify=_load_certificates(ca_file) if target.base.startswith("https") else False,
            uds=target.socket,
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=2),
            trust_env=False,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, method: str, path: str, body: Mapping[str, Any] | bytes | None = None) -> PluginReply:
        """Send one request; `path` is sent as it is, `body` as JSON unless it is bytes.

        A 429 that names its Retry-After is obeyed a few times. Raises NoAnswerError where no answer came.
        """
        content = json.dumps(body).encode() if isinstance(body, Mapping) else body
        did = show_text(f"{method} {path} {'' if content is None else content.decode(errors='replace')}".rstrip())
        async with self._places:
            for _ in range(RETRIES):
                answer, retry_after_s = await self._send_once(did, method, path, content)
                if retry_after_s is None:
                    break
                await asyncio.sleep(retry_after_s)
        return answer

    async def _send_once(
        self, did: str, method: str, path: str, content: bytes | None
    ) -> tuple[PluginReply, float | None]:
        """Send a request once; return the answer, and how many seconds it asks to wait."""
        request = httpx.Request(method, self.target.base + path, headers=self._headers, content=content)
        if content is not None:
            request.headers["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._http.handle_async_request(request)
                async with aclosing(response):
                    raw = await read_bounded(response, LARGEST_ANSWER)
        except TimeoutError:
            raise NoAnswerError(did, f"no whole answer within {self._timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise NoAnswerError(did, f"no answer: {show_text(str(error)) or type(error).__name__}") from None
        if raw is None:
            raise NoAnswerError(did, f"an answer of more than {LARGEST_ANSWER} bytes")
        answer = PluginReply(did, response.status_code, response.headers.get("content-type", ""), raw, self._token)
        return answer, _retry_after_s(response)


def _retry_after_s(response: httpx.Response) -> float | None:
    asked_s = parse_retry_after(response.headers.get("retry-after")) if response.status_code == _TOO_MANY else None
    return None if asked_s is None else min(asked_s, LONGEST_RETRY_S)


def _load_certificates(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError):
        raise UnusableError(f"--ca-file {ca_file}: no certificates can be read from it; give a PEM file") from None
