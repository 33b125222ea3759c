"""A database as PostgreSQL's own tools carry it to another place."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from deploy.local.wheels import find_postgres_binaries

#: What makes the policies show the owner every tenant's rows, and pg_dump go by them (store/ROLES.md).
AS_OWNER = ("--enable-row-security", "--exclude-extension=vector", "--no-comments")
EVERY_TENANT: Mapping[str, str] = {"PGOPTIONS": "-c afterturn.every_host=on"}


async def dumped(url: str, *options: str, environment: Mapping[str, str] | None = None) -> bytes:
    """Return what pg_dump writes."""
    return await _run("pg_dump", url, "--no-sync", *options, environment=environment)


async def restored(url: str, dump: bytes) -> None:
    """Run a dump; its first error ends it."""
    options = ("--quiet", "--no-psqlrc", "--single-transaction", "--set=ON_ERROR_STOP=1")
    await _run("psql", url, *options, given=dump)


async def _run(
    tool: str, url: str, *options: str, given: bytes | None = None, environment: Mapping[str, str] | None = None
) -> bytes:
    to, program = urlsplit(url), Path(find_postgres_binaries(None)) / tool
    process = await asyncio.create_subprocess_exec(
        program,
        *("--host", to.hostname or "", "--port", str(to.port), "--username", to.username or ""),
        *("--dbname", to.path.lstrip("/"), *options),
        env={**os.environ, "PGPASSWORD": unquote(to.password or ""), **(environment or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(given)
    assert process.returncode == 0, err.decode()
    return out
