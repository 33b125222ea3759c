"""Audit of writes to an organisation's namespace: writer, namespace and digest, never the text."""

import asyncio
import hashlib
import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from afterturn_client.moments import format_utc

ACTION = "memory.org_write"


@dataclass(frozen=True, slots=True)
class OrganisationWrite:
    """One write to an organisation's namespace; `sha256` is of the text as it was stored."""

    at: datetime
    workspace: str
    namespace: str
    memory_id: str
    sha256: str

    @classmethod
    def of(cls, at: datetime, workspace: str, namespace: str, memory_id: str, content: str) -> "OrganisationWrite":
        """Return the row for a text."""
        return cls(at, workspace, namespace, memory_id, hashlib.sha256(content.encode()).hexdigest())

    def as_json(self) -> dict[str, Any]:
        """Return the row in its stored form."""
        return {
            "at": format_utc(self.at),
            "action": ACTION,
            "actor": self.workspace,
            "target": self.namespace,
            "metadata": {"memory_id": self.memory_id, "sha256": self.sha256},
        }


class OrganisationAudit(Protocol):
    """The protocol of a store of audit rows."""

    async def record(self, write: OrganisationWrite) -> None:
        """Store one row; errors are logged, and fail no write."""
        ...


class AuditFile:
    """An audit in a JSON Lines file that only its owner can read."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def record(self, write: OrganisationWrite) -> None:
        """Append one row, on the disk when this returns. Raises OSError."""
        await asyncio.to_thread(self._append, json.dumps(write.as_json()).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        # One write to a file that is only appended to: rows of several processes do not mix.
        file = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)
