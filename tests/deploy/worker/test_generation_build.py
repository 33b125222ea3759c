"""A build of vectors with real processes: killed, erased from meanwhile, and beside processes with former settings."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from starlette.responses import Response
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.local.ports import find_free_port
from embeddings.remote import derive_generation
from store.memory.turns import NewMessage, NewTurn
from store.tenancy.keys import Keys
from store.tenancy.operator_keys import OperatorKeys
from tests.client.loopback import Seen
from tests.embeddings.models import KEY, MODEL, EmbeddingService, embedding_service
from tests.embeddings.sentence_models import make_sentence_model
from tests.patience import PATIENCE_S, until
from tests.processes import spawned
from tests.servers import TestPostgres, TestValkey
from tests.workers.conftest import HOST, World, open_world

pytestmark = pytest.mark.slow

#: The processes start with a model to load.
LONG_S = 3 * PATIENCE_S
TURNS, SESSIONS = 300, 6
NEW, BUILT = derive_generation(MODEL), f"{MODEL} (remote)"
GENERATION = "select state, share, vectors, complete_at from public.afterturn_generation where generation = :generation"
STATES = "select model, state from public.afterturn_generation order by model"
COUNTS = "select generation, count(*) as n from afterturn.unit_vector_t group by 1"
TEXTS = "select count(*) as n from afterturn.agent_memory_unit_t where active"
OF_SESSION = """
    select u.unit_id from afterturn.agent_memory_unit_t u join afterturn.agent_session_history_t h using (session_id)
     where h.session_name = 's0'"""
KEPT = "select count(*) as n from afterturn.unit_vector_t where unit_id = any(:units)"
UNDONE = "select count(*) as n from afterturn.ledger_t where undone"


@pytest_asyncio.fixture(loop_scope="session")
async def world(fresh_database: TestPostgres) -> AsyncIterator[World]:
    opened = await open_world(fresh_database)
    yield opened
    await opened.database.close()


@dataclass
class Gate:
    """Holds the service's answers from a number of requests on, until it is opened."""

    service: EmbeddingService
    opened: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    after: int = 0

    def shut(self, after: int) -> None:
        """Answer so many requests with stored texts, and hold the next."""
        self.after = after
        self.held.clear()
        self.opened.clear()

    def __call__(self, seen: Seen) -> Response | None:
        if len(seen.json["input"]) > 1:
            self.after -= 1
            if self.after < 0 and not self.opened.is_set():
                self.held.set()
                self.opened.wait(LONG_S)
        return None


@dataclass
class Deployment:
    """Processes of one deployment, which end with the test."""

    world: World
    environment: dict[str, str]
    folder: Path
    entered: ExitStack
    new: dict[str, str]

    def start(self, module: str, settings: dict[str, str]) -> "subprocess.Popen[bytes]":
        argv, told = [sys.executable, "-P", "-m", module], self.environment | settings
        with (self.folder / f"{module}.log").open("ab") as log:
            return self.entered.enter_context(spawned(argv, env=told, stdout=log, stderr=log))

    async def of_build(self) -> Any:
        [row] = await self.world.sql(GENERATION, generation=NEW)
        return row

    async def states(self) -> dict[str, str]:
        return {row.model: row.state for row in await self.world.sql(STATES)}

    async def none_is_undone(self) -> None:
        async def done() -> bool:
            [row] = await self.world.sql(UNDONE)
            return bool(row.n == 0)

        await until(done, "the stages are done", LONG_S)


@pytest.fixture
def service() -> Iterator[EmbeddingService]:
    with embedding_service() as running:
        running.dimensions = 96
        yield running


@pytest.fixture
def deployment(world: World, valkey: TestValkey, service: EmbeddingService, tmp_path: Path) -> Iterator[Deployment]:
    environment = os.environ | {
        "AFTERTURN_DATA": str(tmp_path / "data"),
        "AFTERTURN_DATABASE__URL": world.postgres.app_url,
        "AFTERTURN_DATABASE__OPERATOR_URL": world.postgres.operator_url,
        "AFTERTURN_BROKER__URL": valkey.url,
        "AFTERTURN_BROKER__NAMESPACE": f"build-{uuid4().hex[:12]}",
        "AFTERTURN_WORKER__SWEEP_SECONDS": "0.5",
        "AFTERTURN_LOG__FORMAT": "json",
    }
    new = {
        "AFTERTURN_EMBEDDING__PROVIDER": "remote",
        "AFTERTURN_EMBEDDING__REMOTE__BASE_URL": service.url + "/v1",
        "AFTERTURN_EMBEDDING__REMOTE__MODEL": MODEL,
        "AFTERTURN_EMBEDDING__REMOTE__API_KEY": KEY,
        "AFTERTURN_EMBEDDING__REMOTE__TIMEOUT_SECONDS": "120",
        "AFTERTURN_EMBEDDING__REMOTE__DEADLINE_SECONDS": "120",
    }
    (tmp_path / "data").mkdir()
    with ExitStack() as entered:
        yield Deployment(world, environment, tmp_path, entered, new)


@dataclass(frozen=True)
class Operator:
    """An operator who calls the API from elsewhere by the command line."""

    url: str
    key_file: Path

    async def run(self, *arguments: str) -> dict[str, Any]:
        argv = ["--url", self.url, "--key-file", str(self.key_file), "embeddings", *arguments, "--json"]
        result = await asyncio.to_thread(CliRunner().invoke, build_cli(), argv)
        assert result.exit_code == 0, result.stderr
        return dict(json.loads(result.stdout)) | {"notices": result.stderr}

    async def states(self, *arguments: str) -> dict[str, str]:
        return {one["model"]: one["state"] for one in (await self.run(*arguments))["generations"]}

    async def lists(self, model: str, workers: int = 1) -> None:
        """Wait until so many workers are there whose settings name a model."""

        async def are_there() -> bool:
            told = await self.run("status")
            return len([one for one in told["workers"] if one["model"] == model]) >= workers

        await until(are_there, f"{workers} workers with {model} run", LONG_S)


@pytest_asyncio.fixture(loop_scope="session")
async def operator(deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Operator:
    for name in ("AFTERTURN_DATA", "AFTERTURN_CLIENT__URL", "AFTERTURN_CLIENT__KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    key = tmp_path / "key"
    key.write_text(await OperatorKeys(deployment.world.database).create("on call"))
    key.chmod(0o600)
    return Operator(f"http://127.0.0.1:{find_free_port()}", key)


async def answers(client: httpx.AsyncClient) -> bool:
    with suppress(httpx.TransportError):
        return (await client.get("/health/live")).status_code == 200
    return False


async def begin(deployment: Deployment, operator: Operator, client: httpx.AsyncClient, small: str) -> None:
    """Have a small model live with turns stored, and begin to build the service's over the API."""
    old = deployment.start("deploy.worker", {"AFTERTURN_EMBEDDING__MODEL": small})
    said = [
        NewTurn("default", f"s{n % SESSIONS}", f"t{n}", [NewMessage("user", f"The train of day {n} is late")])
        for n in range(TURNS)
    ]
    await deployment.world.turns.append(HOST, said)
    await deployment.none_is_undone()
    assert await deployment.states() == {"small": "live"}
    deployment.start("deploy.api", deployment.new | {"AFTERTURN_API__PORT": operator.url.rpartition(":")[2]})
    await until(lambda: answers(client), "the API lives", LONG_S)
    built = await operator.run("build")
    assert {one["model"]: one["state"] for one in built["generations"]} == {"small": "live", BUILT: "building"}
    assert f"name small, while {BUILT} is built" in built["notices"], "the worker has the former settings"
    old.send_signal(signal.SIGTERM)
    await asyncio.to_thread(old.wait, PATIENCE_S)


async def kill_half_way(deployment: Deployment, gate: Gate) -> None:
    killed = deployment.start("deploy.worker", deployment.new)
    await until(gate.held.is_set, "the build is half way", LONG_S)
    killed.send_signal(signal.SIGKILL)
    await asyncio.to_thread(killed.wait, PATIENCE_S)
    half = await deployment.of_build()
    assert (half.state, half.complete_at) == ("building", None)
    assert 0 < half.share < 1
    assert 0 < half.vectors < TURNS


async def erase_meanwhile(deployment: Deployment, gate: Gate, client: httpx.AsyncClient) -> None:
    """Go on with the build, erase a session while a batch is being embedded, and wait until the build is complete."""
    world = deployment.world
    deployment.start("deploy.worker", deployment.new)
    await until(gate.held.is_set, "the build goes on", LONG_S)
    units = [row.unit_id for row in await world.sql(OF_SESSION)]
    assert len(units) >= TURNS // SESSIONS
    erased = await client.post("/api/v1/erasures", json={"kind": "session", "session_id": "s0"})
    assert erased.status_code in {200, 202}, erased.text
    gate.opened.set()

    async def is_complete() -> bool:
        built = await deployment.of_build()
        return bool(built.complete_at is not None)

    await until(is_complete, "the build is complete", LONG_S)
    await deployment.none_is_undone()
    [kept] = await world.sql(KEPT, units=units)
    [texts] = await world.sql(TEXTS)
    counts = {row.generation: row.n for row in await world.sql(COUNTS)}
    assert (kept.n, len(counts), set(counts.values())) == (0, 2, {texts.n})


@pytest.mark.live
async def test_a_build_outlives_a_kill_and_an_erasure_and_former_settings_change_nothing(
    deployment: Deployment, operator: Operator, service: EmbeddingService, tmp_path: Path
) -> None:
    small = str(make_sentence_model(tmp_path / "small", (("train", "zug"), ("late", "spät")), dimensions=24))
    token, gate = await Keys(deployment.world.database).create("default", "test"), Gate(service)
    service.fault = gate
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=operator.url, headers=headers, timeout=PATIENCE_S) as client:
        gate.shut(after=2)
        await begin(deployment, operator, client, small)
        await kill_half_way(deployment, gate)
        gate.opened.set()
        gate.shut(after=0)
        await erase_meanwhile(deployment, gate, client)
    former = {"AFTERTURN_EMBEDDING__MODEL": small}
    deployment.start("deploy.worker", former)
    await operator.lists("small")
    assert await operator.states("status") == {"small": "live", BUILT: "building"}
    switched = await operator.states("switch")
    assert switched == {"small": "retired", BUILT: "live"}
    deployment.start("deploy.worker", former)
    await operator.lists("small", workers=2)
    assert await operator.states("status") == switched
