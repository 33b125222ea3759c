"""Authenticates callers: a bearer key names one workspace; nothing else in a request does."""

import asyncio
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from producers.perimeter.errors import UnknownCaller


@dataclass(frozen=True, slots=True)
class CallingWorkspace:
    """A workspace that calls; its own `key` is replaced in what it writes."""

    workspace: str
    key: str | None = field(default=None, repr=False)


class Callers(Protocol):
    """Knows whose a key is."""

    async def find(self, key: str) -> CallingWorkspace:
        """Return who calls with this key. Raises UnknownCaller."""
        ...


class CallerFile:
    """Keys in a JSON file that is read at every call: `{"keys": [{"sha256": "...", "workspace": "..."}]}`.

    It holds digests alone; a line that is taken out revokes its key at once.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    async def find(self, key: str) -> CallingWorkspace:
        """Return who calls with this key. Raises UnknownCaller, for a file that cannot be read, too."""
        digest = hashlib.sha256(key.encode(errors="replace")).hexdigest()
        try:
            listed = json.loads(await asyncio.to_thread(self._file.read_bytes))["keys"]
            workspaces = [one["workspace"] for one in listed if hmac.compare_digest(one["sha256"], digest)]
        except (OSError, ValueError, TypeError, KeyError) as error:
            problem = type(error).__name__
        else:
            if key and len(workspaces) == 1 and isinstance(workspaces[0], str):
                return CallingWorkspace(workspaces[0], key)
            raise UnknownCaller("a valid key is needed: Authorization: Bearer <key>")
        raise UnknownCaller(f"the file of keys ({self._file.name}) cannot be read: {problem}")
