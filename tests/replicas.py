"""A PostgreSQL with a streaming replica, both on loopback, for tests of what reads from one."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import NullPool, make_url, text

from deploy.local import EmbeddedPostgres, PostgresEndpoint, child
from deploy.local.child import build_account_arguments
from deploy.local.cluster import server_environment
from deploy.local.wheels import find_postgres_binaries
from store.connections import create_engine
from tests.patience import PATIENCE_S, until, wait_until
from tests.tls_servers import listens


@dataclass(frozen=True, slots=True)
class Replicated:
    """The primary and its replica; replay on the replica can be held up."""

    primary: PostgresEndpoint
    replica: PostgresEndpoint = field(repr=False)

    def wait_for_replay(self) -> None:
        """Wait until the replica shows what the primary has written by now."""
        [written] = asyncio.run(execute(self.primary.superuser_url, "select cast(pg_current_wal_insert_lsn() as text)"))
        shown = f"select pg_last_wal_replay_lsn() >= '{written}'"
        wait_until(lambda: asyncio.run(execute(self.replica.superuser_url, shown)) == ["True"], "the replica caught up")

    async def hold_replay(self) -> None:
        """Have the replica stay where it is."""
        await execute(self.replica.superuser_url, "select pg_wal_replay_pause()")
        await until(self._stands_still, "the replica stands still")

    async def _stands_still(self) -> bool:
        return await execute(self.replica.superuser_url, "select pg_get_wal_replay_pause_state()") == ["paused"]

    async def resume_replay(self) -> None:
        """Have the replica go on."""
        await execute(self.replica.superuser_url, "select pg_wal_replay_resume()")


async def execute(url: str, *statements: str) -> list[str]:
    """Run statements as somebody, each by itself; returns the first column of the last one's rows."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            for statement in statements:
                result = await connection.execute(text(statement))
            return [str(row[0]) for row in result] if result.returns_rows else []
    finally:
        await engine.dispose()


def copy_cluster(server: EmbeddedPostgres, target: EmbeddedPostgres, *options: str) -> None:
    """Take a base backup of a running server into another's folder, with the same passwords."""
    url, account = make_url(server.endpoint.superuser_url), target.cluster.account
    target.cluster.folder.parent.mkdir(parents=True, exist_ok=True)
    if account is not None:
        target.cluster.folder.mkdir(mode=0o700)
        os.chown(target.cluster.folder, account.uid, account.gid)
    shutil.copytree(server.cluster.passwords, target.cluster.passwords)
    address = ["-h", str(url.host), "-p", str(url.port), "-U", str(url.username)]
    done = subprocess.run(
        [
            str(find_postgres_binaries(account) / "pg_basebackup"),
            *address,
            "-D",
            str(target.cluster.folder),
            "--checkpoint=fast",
            "--no-sync",
            *options,
        ],
        env={**server_environment(), "PGPASSWORD": str(url.password)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **build_account_arguments(account),
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def started(server: EmbeddedPostgres, port: int) -> Iterator[None]:
    """Run a server that was copied, a standby included, until the block ends."""
    copied = replace(server.child(), ready=lambda _pid: listens(port))
    process = child.start_child(copied)
    try:
        yield
    finally:
        child.stop_child(copied, process)
        server.cluster.remove()


@contextmanager
def replicated(folder: Path, *, bare: bool = False) -> Iterator[Replicated]:
    """Start an empty primary and a replica that streams from it; a bare one knows its superuser alone."""
    server = EmbeddedPostgres(folder / "primary", durable=False)
    copy = EmbeddedPostgres(folder / "replica", durable=False)
    try:
        endpoint = server.start()
        if bare:
            asyncio.run(_make_bare(endpoint))
        copy_cluster(server, copy, "--write-recovery-conf")
        with started(copy, copy.endpoint.port):
            wait_until(lambda: _streams(server), "the replica streams")
            yield Replicated(server.endpoint, copy.endpoint)
    finally:
        server.stop()
        server.cluster.remove()


async def _make_bare(endpoint: PostgresEndpoint) -> None:
    """Take away the database and the roles that a server of ours begins with."""
    url = make_url(endpoint.superuser_url)
    roles = [str(make_url(one).username) for one in (endpoint.owner_url, endpoint.app_url, endpoint.operator_url)]
    await execute(
        url.set(database="postgres").render_as_string(hide_password=False),
        f"drop database {url.database}",
        *(f"drop role {role}" for role in roles),
    )


def _streams(server: EmbeddedPostgres) -> bool:
    url = make_url(server.endpoint.superuser_url).set(database="postgres").render_as_string(hide_password=False)
    rows = asyncio.run(execute(url, "select state from pg_stat_replication"))
    return rows == ["streaming"]
