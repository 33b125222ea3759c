"""Metrics and health of a machine's workers: one process serves the port for all, another takes over."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local.ports import find_free_port
from tests.deploy.sites import answers
from tests.patience import PATIENCE_S, wait_until
from tests.processes import spawned

WORKER = """
import os, sys
from deploy.settings import load_settings
from deploy.worker.__main__ import prepare_environment
settings = load_settings().settings
prepare_environment(settings)
from deploy.worker import probes
probes.TAKE_OVER_S = probes.WORKERS_START_S = 0.1
try:
    print(probes.serve_probes(settings), flush=True)
except OSError as error:
    print(error.strerror, flush=True)
sys.stdin.read()
"""


@contextmanager
def worker(folder: Path, port: int) -> Iterator[tuple["subprocess.Popen[Any]", str]]:
    """A process that serves the probes of this folder, and the first line that it prints."""
    url = "postgresql+asyncpg://a:b@127.0.0.1:1/c"
    told = {"DATABASE__URL": url, "DATABASE__OPERATOR_URL": url, "WORKER__METRICS_PORT": str(port)}
    environment = os.environ | {f"AFTERTURN_{name}": value for name, value in told.items()}
    environment["AFTERTURN_DATA"] = str(folder)
    with spawned(
        [sys.executable, "-c", WORKER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


@pytest.mark.live
def test_one_worker_of_a_folder_serves_for_all_and_another_takes_over(tmp_path: Path) -> None:
    port = find_free_port()
    live = f"http://127.0.0.1:{port}/health/live"
    with worker(tmp_path, port) as (first, said), worker(tmp_path, port) as (_, said_then):
        assert (said, said_then) == ("True", "False")
        assert answers(live)
        first.kill()
        first.wait(PATIENCE_S)
        wait_until(lambda: answers(live), "the other worker serves")
        assert httpx.get(live).text == "live\n"


def test_a_port_of_another_program_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, worker(tmp_path, other.getsockname()[1]) as (_, said):
        assert said == "Address already in use"
