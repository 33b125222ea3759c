"""Serves the files of the console: one page, its modules, styles and vendored libraries, each read once.

The page may load files of this service alone, run no inline script, and stand in no frame. What it shows comes from the
public API; nothing here reads memory.
"""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    # Kept by the browser, and asked about each time: after an upgrade no page mixes files of two versions.
    "cache-control": "no-cache",
    "vary": "accept-encoding",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is served: its bytes, the same compressed, its type and its tag."""

    body: bytes
    compressed: bytes
    media_type: str
    tag: str

    def respond(self, request: Request) -> Response:
        """Return the file, compressed where the browser takes that; 304 where it has the file."""
        headers = {**HEADERS, "etag": self.tag, "content-type": self.media_type}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.compressed, headers={**headers, "content-encoding": "gzip"})
        return Response(self.body, headers=headers)


def read_files() -> dict[str, StaticFile]:
    """Return the files by their path below the folder."""
    return dict(_read_files(FOLDER))


def _read_files(folder: Path) -> Iterator[tuple[str, StaticFile]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in TYPES:
            body = path.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            file = StaticFile(body, gzip.compress(body, 9, mtime=0), TYPES[path.suffix], tag)
            yield path.relative_to(folder).as_posix(), file


def console_routes() -> APIRouter:
    """Return the routes of the page and of the files that it loads."""
    files, router = read_files(), APIRouter()

    @router.get(PAGE, include_in_schema=False)
    async def show_console(request: Request) -> Response:
        return files[INDEX].respond(request)

    @router.get(f"{ASSETS}/{{name:path}}", include_in_schema=False)
    async def get_console_file(request: Request, name: str) -> Response:
        found = files.get(name)
        return Response(status_code=404) if found is None else found.respond(request)

    return router
