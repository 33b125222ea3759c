"""Plugins to judge, in processes and in threads, and the kit run against them."""

import asyncio
import functools
import ssl
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from producers.contract_kit.command import CASES, run_cases
from producers.contract_kit.flat_plugin import FlatHandler, FlatServer, FlatStore
from producers.contract_kit.suite import Case, ContractSuite
from tests.patience import PATIENCE_S
from tests.processes import spawned

#: Small, for the plugins of the tests compute in Python.
DIMENSION = 8


@functools.cache
def list_cases() -> list[Case]:
    """Return every case of the kit."""
    suite = ContractSuite()
    assert run_cases(suite, ["--collect-only", "-qq"]) == 0
    return suite.cases


@contextmanager
def serving(name: str, away: Path) -> Iterator[str]:
    """Run a mutant, or the reference, for the block; return its URL."""
    argv = [sys.executable, "-m", "tests.producers.contract_kit.mutants", name, str(away)]
    with spawned(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = process.stdout.readline() if process.stdout else ""
        assert port, f"{name} did not start"
        yield f"http://127.0.0.1:{port.strip()}"


async def judge(
    url: str, away: Path | None = None, cases: Collection[str] = (), switch: tuple[str, str] | None = None
) -> ContractSuite:
    """Run the cases with these ids (all for none) against one plugin."""
    return await asyncio.to_thread(_judge, url, away, cases, switch)


def judge_all(plugins: Mapping[str, Collection[str]], folder: Path) -> dict[str, ContractSuite]:
    """Run the cases with these ids (all for none) against each of these plugins."""
    judged = {}
    for name, cases in plugins.items():
        away = folder / f"{name}.away"
        with serving(name, away) as url:
            judged[name] = _judge(url, away, cases)
    return judged


def _judge(url: str, away: Path | None, cases: Collection[str], switch: tuple[str, str] | None = None) -> ContractSuite:
    suite, (stop, start) = ContractSuite(), switch or (f"touch {away}", f"rm -f {away}")
    store = ["--stop-store", stop, "--start-store", start] if away or switch else []
    options = ["--plugin-url", url, "--timeout", str(PATIENCE_S), "--dimension", str(DIMENSION), "-qq", *store]
    run_cases(suite, options, [_find_test(one) for one in cases] or [CASES])
    assert suite.unusable is None
    return suite


def _find_test(case: str) -> str:
    module, _, function = case.partition(".")
    return f"{CASES}/test_{module}.py::test_{function}"


@contextmanager
def served(
    handler: type[FlatHandler] = FlatHandler, store: FlatStore | None = None, secured: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Serve a plugin from threads; return its URL."""
    with FlatServer(("127.0.0.1", 0), store or FlatStore(), handler) as server:
        if secured is not None:
            server.socket = secured.wrap_socket(server.socket, server_side=True)
        with running(server):
            yield f"{'http' if secured is None else 'https'}://localhost:{server.server_address[1]}"


@contextmanager
def running(server: FlatServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
