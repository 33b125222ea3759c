"""Plugins to judge, in processes and in threads, and the kit run against them."""

import asyncio
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from afterturn_client.plugin_target import parse_target

from producers.contract_kit.catalog import CASES
from producers.contract_kit.client import Plugin
from producers.contract_kit.flat_plugin import FlatHandler, FlatServer, FlatStore
from producers.contract_kit.probe import ContractSettings
from producers.contract_kit.registry import Case
from producers.contract_kit.report import ContractReport
from producers.contract_kit.runner import ContractRun, run_cases
from producers.contract_kit.store_switch import StoreSwitch
from tests.patience import PATIENCE_S
from tests.processes import spawned

#: Small, for the plugins of the tests compute in Python.
DIMENSION = 8


def switch_of(away: Path) -> StoreSwitch:
    return StoreSwitch(("touch", str(away)), ("rm", "-f", str(away)))


@contextmanager
def serving(name: str, away: Path) -> Iterator[str]:
    """Run a mutant, or the reference, for the block; return its URL."""
    argv = [sys.executable, "-m", "tests.producers.contract_kit.mutants", name, str(away)]
    with spawned(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = process.stdout.readline() if process.stdout else ""
        assert port, f"{name} did not start"
        yield f"http://127.0.0.1:{port.strip()}"


async def judge(
    url: str, away: Path | None = None, cases: Sequence[Case] = CASES, switch: StoreSwitch | None = None
) -> ContractReport:
    """Run cases against one plugin."""
    report = ContractReport(url)
    settings = ContractSettings(dimension=DIMENSION, switch=switch if away is None else switch_of(away))
    async with Plugin(parse_target(url), timeout_s=PATIENCE_S) as plugin:
        await run_cases(ContractRun(cases, settings), plugin, report)
    return report


def judge_all(plugins: Mapping[str, Sequence[Case]], folder: Path) -> dict[str, ContractReport]:
    """Run its cases against each of these plugins, all at once."""
    aways = {name: folder / f"{name}.away" for name in plugins}

    async def together(urls: Mapping[str, str]) -> list[ContractReport]:
        return await asyncio.gather(*(judge(urls[name], aways[name], plugins[name]) for name in plugins))

    with ExitStack() as stack:
        urls = {name: stack.enter_context(serving(name, away)) for name, away in aways.items()}
        return dict(zip(plugins, asyncio.run(together(urls)), strict=True))


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
