"""A restore to a point in time: what was before it is there, what came after it is not, and the service goes on."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from deploy.local import EmbeddedPostgres, PostgresEndpoint, child
from store import identity, migrations
from store.database import Database
from store.errors import PositionBeyondLog
from store.ledger.freshness import Waiter
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage
from store.log.reader import is_log_of_cluster, restamp_log, skip_lost_positions
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from store.replay import verify_log
from store.settings import DatabaseSettings
from store.tenancy.keys import Keys
from tests.patience import wait_until
from tests.replicas import copy_cluster, execute

HOST = identity.host_id("restored")
BEFORE = ("heron", "ibis", "kite")
#: PostgreSQL itself passes over the first 32 numbers of a sequence that may have been given.
AFTER = tuple(f"wren-{n}" for n in range(40))


@dataclass(frozen=True, slots=True)
class Restored:
    """A server that was restored to a named point, and the position of a turn that came after that."""

    endpoint: PostgresEndpoint
    lost_position: int


async def say(endpoint: PostgresEndpoint, *words: str) -> list[int]:
    """Append a turn for each word; returns their positions."""
    database = open_database(endpoint)
    try:
        turns = [NewTurn("b", "s", word, (NewMessage("user", f"I saw a {word}."),)) for word in words]
        answers = await TurnStore(database, lambda: datetime.now(UTC)).append(HOST, turns)
        return [one.position for one in answers if isinstance(one, Appended)]
    finally:
        await database.close()


def open_database(endpoint: PostgresEndpoint) -> Database:
    urls = {"url": SecretStr(endpoint.app_url), "operator_url": SecretStr(endpoint.operator_url)}
    return Database(DatabaseSettings(**urls, pool_size=2))


async def make_tenant(endpoint: PostgresEndpoint) -> None:
    database = open_database(endpoint)
    await Keys(database).create("restored", "test")
    await database.close()


def archive_wal(server: EmbeddedPostgres) -> Path:
    """Have a server that stands keep its WAL in a folder beside it, from its next start on."""
    archive = server.cluster.folder.parent / "archive"
    archive.mkdir()
    if server.cluster.account is not None:
        os.chown(archive, server.cluster.account.uid, server.cluster.account.gid)
    with (server.cluster.folder / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"archive_mode = on\narchive_command = 'test ! -f {archive}/%f && cp %p {archive}/%f'\n")
    return archive


def restore_to(copy: EmbeddedPostgres, archive: Path, point: str) -> None:
    """Say in a base backup to which point it is restored when it starts."""
    with (copy.cluster.folder / "postgresql.auto.conf").open("a") as settings:
        settings.write(
            f"restore_command = 'cp {archive}/%f %p'\nrecovery_target_name = '{point}'\n"
            "recovery_target_action = 'promote'\n"
        )
    (copy.cluster.folder / "recovery.signal").touch()


@pytest.fixture(scope="module")
def restored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restored]:
    folder = tmp_path_factory.mktemp("restored")
    server, copy = (EmbeddedPostgres(folder / name, durable=False) for name in ("server", "copy"))
    try:
        server.create()
        archive = archive_wal(server)
        there = server.start()
        migrations.upgrade_schema(there.owner_url)
        asyncio.run(make_tenant(there))
        asyncio.run(say(there, *BEFORE[:1]))
        copy_cluster(server, copy)
        asyncio.run(say(there, *BEFORE[1:]))
        asyncio.run(execute(there.superuser_url, "select pg_create_restore_point('before the mishap')"))
        lost = asyncio.run(say(there, *AFTER))
        [last] = asyncio.run(execute(there.superuser_url, "select pg_walfile_name(pg_switch_wal())"))
        wait_until((archive / last).exists, "the last WAL is in the archive")
        server.stop()
        restore_to(copy, archive, "before the mishap")
        process = child.start_child(copy.child())
        # It answers reads before it has come to the point and is promoted.
        promoted = "select cast(not pg_is_in_recovery() as text)"
        wait_until(lambda: asyncio.run(execute(copy.endpoint.superuser_url, promoted)) == ["true"], "it is promoted")
        yield Restored(copy.endpoint, lost[-1])
        child.stop_child(copy.child(), process)
    finally:
        server.stop()
        for one in (server, copy):
            one.end_survivors()
            one.cluster.remove()


@pytest.mark.slow
async def test_a_restore_to_a_point_in_time_keeps_what_was_before_it_and_never_gives_a_position_twice(
    restored: Restored,
) -> None:
    database = open_database(restored.endpoint)
    try:
        async with database.tenant(HOST) as connection:
            said = text("select content from afterturn.agent_memory_unit_t order by content")
            assert list(await connection.scalars(said)) == [f"I saw a {word}." for word in BEFORE]
            # A base backup keeps the cluster's identity, and with it what its transactions mean: nothing to stamp.
            assert await is_log_of_cluster(connection)
        assert await restamp_log(restored.endpoint.owner_url) == 0
        assert (await verify_log(restored.endpoint.owner_url)).equal

        # No queue was restored; the ledger alone knows what is to be done.
        claims = await Ledger(database).claim(
            Stage.EMBEDDING, streams=9, rows=9, lease=timedelta(minutes=1), worker="w", max_attempts=3
        )
        assert sum(len(claim.rows) for claim in claims) == len(BEFORE)

        # A client still holds the position of a turn that is lost.
        waiter = Waiter(database)
        with pytest.raises(PositionBeyondLog):
            await waiter.shown(HOST, restored.lost_position, 0)
        assert await skip_lost_positions(restored.endpoint.owner_url) > restored.lost_position
        assert not await waiter.shown(HOST, restored.lost_position, 0)
        [position] = await say(restored.endpoint, "swift")
        assert position > restored.lost_position
        assert await waiter.shown(HOST, position, 0)
        assert (await verify_log(restored.endpoint.owner_url)).equal
    finally:
        await database.close()
