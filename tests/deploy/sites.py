"""A service on servers that somebody else runs, as an operator uses it: by commands and settings alone."""

import asyncio
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from sqlalchemy import make_url

from tests.patience import PATIENCE_S
from tests.processes import spawned
from tests.replicas import execute

PASSWORD = f"Grimpenmire{secrets.token_hex(8)}"
COMMAND = [sys.executable, "-P", "-m", "deploy.cli"]


@dataclass
class Site:
    """Servers that somebody else runs, and the settings of whoever comes to use them."""

    administrator: str = field(repr=False)
    environment: dict[str, str] = field(repr=False)

    def administer(self, *statements: str, database: str = "afterturn") -> list[str]:
        """Run statements as the administrator; returns the first column of the last one's rows."""
        url = make_url(self.administrator).set(database=database).render_as_string(hide_password=False)
        return asyncio.run(execute(url, *statements))

    def run(self, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert PASSWORD not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    @contextmanager
    def running(self, log: Path, *arguments: str) -> Iterator[None]:
        with (
            log.open("ab") as output,
            spawned([*COMMAND, *arguments], env=self.environment, stdout=output, stderr=output) as process,
        ):
            yield
            process.terminate()
            assert process.wait(PATIENCE_S) == 0, log.read_text()


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False
