"""The address of a memory plugin (contract v1), as the service and the contract kit read it."""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

import httpx

from afterturn_client.errors import InvalidRequestError

#: Most characters of an unusable URL that its error repeats.
LONGEST_SHOWN = 400

_URLS = "give http://HOST:PORT, https://HOST, or unix:/PATH/TO.SOCK; a path prefix may follow (unix:/PATH:/PREFIX)"


@dataclass(frozen=True, slots=True)
class PluginTarget:
    """The address of a plugin; `base` ends without a slash, `socket` is the path of a unix socket."""

    shown: str
    base: str
    socket: str | None = None


def parse_target(url: str) -> PluginTarget:
    """Return the target of a URL. Raises InvalidRequestError for an unusable URL."""
    if url.startswith("unix:"):
        socket, _, prefix = re.sub("^//(?=/)", "", url.removeprefix("unix:")).partition(":")
        if not socket.startswith("/") or prefix.strip("/") != prefix.strip("/").strip():
            raise InvalidRequestError(f"{url[:LONGEST_SHOWN]!r} names no socket: {_URLS}")
        return PluginTarget(url, f"http://localhost{_path_prefix(prefix)}", unquote(socket))
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise InvalidRequestError(f"{url[:LONGEST_SHOWN]!r} is no URL: {_URLS}") from None
    if parsed.userinfo:
        raise InvalidRequestError("the URL holds a user or password: give a token with --token-file instead")
    if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.query or parsed.fragment:
        raise InvalidRequestError(f"{url[:LONGEST_SHOWN]!r} is no URL of a plugin: {_URLS}")
    return PluginTarget(url, url.rstrip("/"))


def namespace_path(name: str, ending: str = "") -> str:
    """Return the path of a namespace, its name percent-encoded as the reference client does (`:` stays)."""
    return f"/v1/namespaces/{quote(name, safe=':')}{ending}"


def _path_prefix(path: str) -> str:
    return f"/{path.strip('/')}" if path.strip("/") else ""
