"""Embedded Valkey: it keeps what was queued, its port and its password."""

import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from deploy.local import EmbeddedValkey, survivors
from tests.patience import PATIENCE_S, wait_until
from tests.processes import spawned


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    server = EmbeddedValkey(tmp_path)
    server.start()
    yield server
    server.stop()


def test_what_was_queued_survives_a_kill_and_a_start_on_the_same_port(valkey: EmbeddedValkey) -> None:
    before = valkey.url
    with redis.Redis.from_url(valkey.url) as client:
        client.rpush("queue", *range(500))
    for server in survivors.find_servers(valkey.folder):
        server.kill()
    assert valkey.start() == before
    with redis.Redis.from_url(valkey.url) as client:
        assert client.llen("queue") == 500


def test_a_folder_of_any_name_holds_what_was_queued(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path / "größe\n mit 'Leer\"zeichen \\n $HOME")
    try:
        for length in (1, 2):
            with redis.Redis.from_url(server.start()) as client:
                assert client.rpush("queue", "one") == length
        assert (server.folder / "appendonlydir").is_dir()
    finally:
        server.stop()


def test_nobody_enters_without_the_password(valkey: EmbeddedValkey) -> None:
    stripped = "redis://" + valkey.url.partition("@")[2]
    with redis.Redis.from_url(stripped) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_its_configuration_is_for_its_owner_alone(valkey: EmbeddedValkey) -> None:
    assert stat.S_IMODE((valkey.folder / "valkey.conf").stat().st_mode) == 0o600


def test_it_listens_on_loopback_alone(valkey: EmbeddedValkey) -> None:
    [server] = survivors.find_servers(valkey.folder)
    listening = {one.laddr.ip for one in server.net_connections("all") if one.status == "LISTEN"}
    assert listening == {"127.0.0.1"}


def test_a_server_nobody_owns_any_more_is_stopped_at_the_next_start(valkey: EmbeddedValkey) -> None:
    child = valkey.child()
    valkey.stop()
    with spawned(child.argv, cwd="/", stdout=subprocess.DEVNULL) as orphan:
        wait_until(lambda: child.ready(orphan.pid), "a Valkey without an owner runs")
        valkey.start()
        assert orphan.wait(PATIENCE_S) == 0
    assert [server.pid for server in survivors.find_servers(valkey.folder)] != [orphan.pid]


def test_a_person_whose_shell_stands_in_the_folder_is_no_server(valkey: EmbeddedValkey) -> None:
    with spawned(["sleep", "60"], cwd=valkey.folder) as bystander:
        assert bystander.pid not in {server.pid for server in survivors.find_servers(valkey.folder)}


@pytest.mark.live
def test_the_kernel_stops_it_when_the_process_that_started_it_dies(tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib; from deploy.local.local_stack import EmbeddedValkey;"
        "EmbeddedValkey(pathlib.Path(sys.argv[1])).start(); print('up', flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-P", "-c", program, str(tmp_path)]
    with spawned(argv, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "up\n"
        servers = survivors.find_servers(tmp_path / "valkey")
        assert len(servers) == 1
        starter.send_signal(signal.SIGKILL)
    assert survivors.wait_for_exits(servers, PATIENCE_S) == []
