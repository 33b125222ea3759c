"""The console over API processes as they run: two behind a round robin; streams end with process and browser."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from deploy.local.ports import find_free_port
from store.database import Database
from store.tenancy.keys import Keys
from store.tenancy.operator_keys import OperatorKeys
from tests.deploy.api.test_process import api, environment, live
from tests.patience import until, wait_until
from tests.producers.console.browser import visit
from tests.producers.http.test_figures import FIGURES, STREAM
from tests.round_robin import round_robin
from tests.servers import TestPostgres, TestValkey
from tests.workers.conftest import settings_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]
V1 = "/api/v1"
#: Seconds between two readings of the figures, by which an open stream and none are told apart (5 and 15).
SELDOM_S = 11.0


@dataclass(frozen=True)
class ApiProcess:
    """An API process: its port, and the folder with its log."""

    port: int
    folder: Path
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def routes(self) -> set[str]:
        """Return the routes that it answered."""
        lines = (self.folder / "log").read_bytes().splitlines()
        told = [orjson.loads(line) for line in lines if line.startswith(b"{")]
        return {one["route"] for one in told if one.get("event") == "request"}

    def connections(self) -> int:
        found = psutil.Process(self.process.pid).net_connections("tcp")
        return sum(one.status == psutil.CONN_ESTABLISHED and one.laddr.port == self.port for one in found)


@contextmanager
def api_process(folder: Path, postgres: TestPostgres, valkey: TestValkey) -> Iterator[ApiProcess]:
    folder.mkdir()
    port = find_free_port()
    told = environment(folder / "data", postgres, valkey, port) | {"AFTERTURN_API__CONSOLE__ENABLED": "true"}
    with api(told, folder) as process:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            live(client, process)
        yield ApiProcess(port, folder, process)


@dataclass(frozen=True)
class Issued:
    """A key of a tenant, and one of an operator."""

    tenant: str
    operator: str


@pytest_asyncio.fixture(loop_scope="session")
async def keys(fresh_database: TestPostgres) -> AsyncIterator[Issued]:
    database = Database(settings_of(fresh_database))
    yield Issued(await Keys(database).create("acme", "test"), await OperatorKeys(database).create("on call"))
    await database.close()


async def test_a_session_is_one_over_two_processes(
    fresh_database: TestPostgres, valkey: TestValkey, keys: Issued, browser: Browser, tmp_path: Path
) -> None:
    with ExitStack() as running:
        both = [
            running.enter_context(api_process(tmp_path / name, fresh_database, valkey)) for name in ("first", "second")
        ]
        balancer = running.enter_context(round_robin([one.port for one in both]))
        async with httpx.AsyncClient(
            base_url=both[0].url, headers={"authorization": f"Bearer {keys.tenant}"}
        ) as client:
            said = {
                "session_id": "monday",
                "turn_id": "1",
                "messages": [{"role": "user", "content": "The boiler is old"}],
            }
            assert (await client.post(f"{V1}/turns", json=said)).status_code == 201
        async with visit(browser, balancer.url) as visitor:
            await visitor.sign_in(keys.tenant)
            await visitor.open("now")
            await visitor.page.get_by_label("Key of an operator").fill(keys.operator)
            await visitor.click("Sign in")
            await visitor.page.get_by_role("table", name="Queues").wait_for()

            async def both_answered() -> bool:
                for address, text in (("memory", "Banks that your key reaches"), ("work", "the oldest first")):
                    await visitor.open(address)
                    await visitor.sees(text)
                return all({f"{V1}/banks", f"{V1}/operator/jobs"} <= one.routes() for one in both)

            await until(both_answered, "both answer for the tenant and for the operator")
            await visitor.open("session?session_id=monday")
            await visitor.click("1", role="link")
            await visitor.click("Show content")
            await visitor.sees("The boiler is old")
            await visitor.click("Sign out")
            await visitor.page.get_by_role("button", name="Sign in").wait_for()
            visitor.forgive("401")


@contextmanager
def watched(process: ApiProcess, key: str) -> Iterator[Iterator[str]]:
    """Open a stream of the figures for an hour; yields its lines."""
    headers = {"authorization": f"Bearer {key}"}
    with (
        httpx.Client(base_url=process.url, headers=headers, timeout=60) as client,
        client.stream("GET", STREAM, params={"for_s": 3600}) as reply,
    ):
        assert reply.status_code == 200
        lines = reply.iter_lines()
        assert next(line for line in lines if line.startswith("event:")) == "event: figures"
        yield lines


async def test_a_stream_ends_with_its_process(
    fresh_database: TestPostgres, valkey: TestValkey, keys: Issued, tmp_path: Path
) -> None:
    with api_process(tmp_path / "api", fresh_database, valkey) as one, watched(one, keys.operator) as lines:
        one.process.send_signal(signal.SIGTERM)
        # To its end, by the service: a cut connection would raise.
        await asyncio.to_thread(list, lines)
        assert one.process.wait(60) == 0
        log = (one.folder / "log").read_text()
    assert "requests_cut_off_at_stop" not in log
    assert "Traceback" not in log


async def test_a_stream_is_over_when_its_reader_has_left(
    fresh_database: TestPostgres, valkey: TestValkey, keys: Issued, tmp_path: Path
) -> None:
    headers = {"authorization": f"Bearer {keys.operator}"}
    with api_process(tmp_path / "api", fresh_database, valkey) as one:
        with watched(one, keys.operator):
            assert one.connections() == 1
        wait_until(lambda: one.connections() == 0, "the connection is gone")
        seen: list[datetime] = []

        def is_read_seldom() -> bool:
            answer: Any = httpx.get(f"{one.url}{FIGURES}", headers=headers).json()
            newest = datetime.fromisoformat(answer["samples"][-1]["at"])
            if newest not in seen:
                seen.append(newest)
            return len(seen) > 1 and (seen[-1] - seen[-2]).total_seconds() > SELDOM_S

        await asyncio.to_thread(wait_until, is_read_seldom, "the figures are read as if nobody watched", pause_s=0.5)
        assert "Traceback" not in (one.folder / "log").read_text()
