"""Authenticates callers: a bearer key names one workspace; nothing else in a request does."""

import asyncio
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from starlette.requests import Request

from producers.bearer import read_bearer
from producers.perimeter.errors import UnknownCaller

KEY_NEEDED = "a valid key is needed: Authorization: Bearer <key>"


@dataclass(frozen=True, slots=True)
class CallingWorkspace:
    """The workspace of a caller; its own `key` is redacted from texts that it writes."""

    workspace: str
    key: str | None = field(default=None, repr=False)


class Callers(Protocol):
    """The protocol of a look-up of callers by key."""

    async def find(self, key: str) -> CallingWorkspace:
        """Return the caller of this key. Raises UnknownCaller."""
        ...


def read_key(request: Request) -> str:
    """Return the key of a request. Raises UnknownCaller where it has none."""
    if key := read_bearer(request.headers):
        return key
    raise UnknownCaller(KEY_NEEDED)


class CallerFile:
    """Keys in a JSON file that is read at every call: `{"keys": [{"sha256": "...", "workspace": "..."}]}`.

    It holds digests alone; removing a line revokes its key at once.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    async def find(self, key: str) -> CallingWorkspace:
        """Return the caller of this key. Raises UnknownCaller, also for an unreadable file."""
        digest = hashlib.sha256(key.encode(errors="replace")).hexdigest()
        try:
            listed = json.loads(await asyncio.to_thread(self._file.read_bytes))["keys"]
            workspaces = [one["workspace"] for one in listed if hmac.compare_digest(one["sha256"], digest)]
        except (OSError, ValueError, TypeError, KeyError) as error:
            problem = type(error).__name__
        else:
            if key and len(workspaces) == 1 and isinstance(workspaces[0], str):
                return CallingWorkspace(workspaces[0], key)
            raise UnknownCaller(KEY_NEEDED)
        raise UnknownCaller(f"the file of keys ({self._file.name}) cannot be read: {problem}")
