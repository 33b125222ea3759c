"""Serves the files of the console: one page, its modules, styles and vendored libraries, each read once.

The page may load files of this service alone, run no inline script, and stand in no frame. What it shows comes from the
public API; nothing here reads memory. It names its files by a digest of all of them, so a browser keeps them for good,
and after an upgrade no page mixes files of two versions.
"""

import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

FOLDER = Path(__file__).with_name("static")
PAGE, ASSETS = "/console", "/console/assets"
INDEX = "index.html"
TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; "
    # A text that would become markup is refused by the browser itself.
    "require-trusted-types-for 'script'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "vary": "accept-encoding",
}
#: Of the page, and of files under another version's name: kept by the browser, and asked about each time.
ASKED: Mapping[str, str] = {"cache-control": "no-cache"}
#: Of files under this version's name, which never change.
KEPT: Mapping[str, str] = {"cache-control": "public, max-age=31536000, immutable"}
VERSION = re.compile(r"([0-9a-f]{32})/(.+)")
MODULES = "<!-- modules -->"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is served: its bytes, the same compressed, its type and its tag."""

    body: bytes
    compressed: bytes
    media_type: str
    tag: str

    def respond(self, request: Request, caching: Mapping[str, str]) -> Response:
        """Return the file, compressed where the browser takes that; 304 where it has the file."""
        headers = {**HEADERS, **caching, "etag": self.tag, "content-type": self.media_type}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.compressed, headers={**headers, "content-encoding": "gzip"})
        return Response(self.body, headers=headers)


@cache
def read_files() -> Mapping[str, StaticFile]:
    """Return the files by their path below the folder; the page names this version of the others."""
    bodies = dict(_read_bodies())
    bodies[INDEX] = _name_files(bodies[INDEX].decode(), find_version(bodies), bodies).encode()
    return {name: _make_file(name, body) for name, body in bodies.items()}


def find_version(bodies: Mapping[str, bytes]) -> str:
    """Return a digest of all files."""
    digests = (f"{name}:{hashlib.sha256(body).hexdigest()}\n" for name, body in sorted(bodies.items()))
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:32]


@cache
def _read_bodies() -> Mapping[str, bytes]:
    paths = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in TYPES]
    return {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}


def _name_files(page: str, version: str, names: Iterable[str]) -> str:
    """Return the page with this version's names, and all modules told at once: else each would tell of the next."""
    modules = (f'<link rel="modulepreload" href="{ASSETS}/{name}" />' for name in names if name.endswith(".js"))
    return page.replace(MODULES, "\n    ".join(modules)).replace(f"{ASSETS}/", f"{ASSETS}/{version}/")


def _make_file(name: str, body: bytes) -> StaticFile:
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return StaticFile(body, gzip.compress(body, 9, mtime=0), TYPES[Path(name).suffix], tag)


def console_routes() -> APIRouter:
    """Return the routes of the page and of the files that it loads."""
    files, version, router = read_files(), find_version(_read_bodies()), APIRouter()

    @router.get(PAGE, include_in_schema=False)
    async def show_console(request: Request) -> Response:
        return files[INDEX].respond(request, ASKED)

    @router.get(f"{ASSETS}/{{name:path}}", include_in_schema=False)
    async def get_console_file(request: Request, name: str) -> Response:
        # During an upgrade, a page of one version may ask a process of another.
        versioned = VERSION.fullmatch(name)
        found = files.get(versioned[2] if versioned else name)
        if found is None:
            return Response(status_code=404)
        return found.respond(request, KEPT if versioned and versioned[1] == version else ASKED)

    return router
