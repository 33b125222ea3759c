"""A port that was found is nobody else's: neither another process finds it, nor does it connect anywhere."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local import ports
from deploy.local.local_stack import LocalStack, PortInUse
from deploy.local.ports import LOOPBACK, find_free_port, is_free
from deploy.settings import load_settings

FIND = "from deploy.local import ports; ports.FIRST = ports.LAST = {port}; print(ports.find_free_port())"


def _find_elsewhere(port: int) -> subprocess.CompletedProcess[str]:
    """Have another process look for a free port where this one is the only choice."""
    return subprocess.run([sys.executable, "-c", FIND.format(port=port)], capture_output=True, text=True, check=False)


def test_another_process_does_not_find_a_port_that_was_found() -> None:
    port = find_free_port()
    assert "no free port" in _find_elsewhere(port).stderr


def test_a_server_listens_on_a_port_that_was_found_and_again_after_a_restart() -> None:
    port = find_free_port()
    for _ in range(2):
        with socket.create_server((LOOPBACK, port)), socket.create_connection((LOOPBACK, port)):
            pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, port))
    assert is_free(port)
    assert "no free port" in _find_elsewhere(port).stderr


def test_servers_that_share_a_port_listen_on_one_that_was_found() -> None:
    port = find_free_port()
    with socket.socket() as first, socket.socket() as second:
        for server in (first, second):
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind((LOOPBACK, port))
            server.listen()
        with socket.create_connection((LOOPBACK, port)) as client:
            assert client.getpeername() == (LOOPBACK, port)


def test_a_port_in_use_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    port = find_free_port()
    with socket.create_server((LOOPBACK, port)):
        monkeypatch.setattr(ports, "FIRST", port)
        monkeypatch.setattr(ports, "LAST", port)
        assert not is_free(port)
        with pytest.raises(OSError, match="no free port"):
            find_free_port()


@pytest.mark.parametrize("port", [0, 8300])
@pytest.mark.parametrize("host", ["203.0.113.7", "a..b"])
def test_a_host_of_another_machine_is_named_and_no_port_is_said_to_be_taken(
    tmp_path: Path, host: str, port: int
) -> None:
    settings = load_settings({}, overrides={"data": tmp_path, "api": {"host": host, "port": port}}).settings
    stack = LocalStack(settings, worker_count=1, say=print, ready=print)
    with pytest.raises(PortInUse, match=rf"^{host} \(api\.host\) is no address of this machine \(.+\): set it to one"):
        stack.run()
