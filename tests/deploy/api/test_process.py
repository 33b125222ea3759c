"""The API as a process of its own: it serves, says what is wrong, and stops when told to."""

import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from deploy.api.resources import BackgroundModel, build_resources, open_resources
from deploy.local.ports import find_free_port
from deploy.settings import Settings
from embeddings.settings import EmbeddingSettings, Provider, RemoteSettings
from producers.settings import BrokerSettings
from store.database import Database
from store.derived.pending_words import TOO_MANY
from store.ledger.stages import Stage
from store.settings import DatabaseSettings
from store.tenancy.keys import Keys
from store.tenancy.tokens import new_token
from tests.patience import PATIENCE_S, until, wait_until
from tests.processes import dumps_no_core, spawned
from tests.servers import TestPostgres, TestValkey
from tests.workers.conftest import HOST, open_world, settings_of, turn_uuid
from tests.workers.stages import held
from workers.embedding import EmbeddingStage
from workers.micro_batch import MicroBatch
from workers.settings import WorkerSettings

pytestmark = pytest.mark.slow

OF_THE_APP = text("select pid from pg_stat_activity where usename = 'afterturn_app' and datname = current_database()")

TURN = {"session_id": "zq81s", "turn_id": "1", "messages": [{"role": "user", "content": "zq81 flies to Lisbon"}]}


def environment(data: Path, postgres: TestPostgres, valkey: TestValkey, port: int) -> dict[str, str]:
    return os.environ | {
        "AFTERTURN_DATA": str(data),
        "AFTERTURN_DATABASE__URL": postgres.app_url,
        "AFTERTURN_DATABASE__OPERATOR_URL": postgres.operator_url,
        "AFTERTURN_BROKER__URL": valkey.url,
        "AFTERTURN_BROKER__NAMESPACE": "api-process",
        "AFTERTURN_API__PORT": str(port),
        "AFTERTURN_LOG__FORMAT": "json",
        # As shipped: nothing has to be made first.
        "AFTERTURN_EMBEDDING__VARIANT": "weights",
    }


@contextmanager
def api(told: dict[str, str], folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the API; its log is in `folder`/log."""
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-P", "-m", "deploy.api"]
        with spawned(command, env=told, cwd=folder, stdout=log, stderr=log) as process:
            yield process


def live(client: httpx.Client, process: "subprocess.Popen[bytes]") -> None:
    def answers() -> bool:
        assert process.poll() is None
        with suppress(httpx.TransportError):
            return client.get("/health/live").status_code == 200
        return False

    wait_until(answers, "the API lives")


def lines(folder: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (folder / "log").read_bytes().splitlines()]


@pytest.fixture
async def token(postgres: TestPostgres) -> str:
    urls = DatabaseSettings(url=SecretStr(postgres.app_url), operator_url=SecretStr(postgres.operator_url))
    database = Database(urls)
    made = await Keys(database).create("api-process", "test")
    await database.close()
    return made


@pytest.mark.law("L1")
@pytest.mark.law("L7")
def test_what_was_acknowledged_outlives_the_process_that_said_so(
    postgres: TestPostgres, valkey: TestValkey, token: str, tmp_path: Path
) -> None:
    port = find_free_port()
    told = environment(tmp_path, postgres, valkey, port)
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=PATIENCE_S) as client:
        with api(told, tmp_path) as process:
            live(client, process)
            assert dumps_no_core(process.pid)
            first = client.post("/api/v1/turns", json=TURN)
            process.kill()
            process.wait()
        assert first.status_code == 201
        with api(told, tmp_path) as process:
            live(client, process)
            again = client.post("/api/v1/turns", json=TURN)
            assert again.json() == {**first.json(), "duplicate": True}
            found = client.post("/api/v1/recall", json={"query": "Who flies to Lisbon?"})
            assert found.json()["results"][0]["text"] == TURN["messages"][0]["content"]  # type: ignore[index]  # a literal
            assert client.get("/health/ready").status_code == 200
            samples = client.get("/metrics").text
            assert 'mcp_memory_after_turn_total{status="ok"} 1.0' in samples
            assert 'mcp_memory_after_turn_total{status="duplicate"} 1.0' in samples
            assert 'afterturn_ledger_rows{stage="extraction",status="pending"}' in samples
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
    log = (tmp_path / "log").read_text()
    assert {line["event"] for line in lines(tmp_path)} >= {"listening", "request", "stopped"}
    assert "zq81" not in log
    assert token not in log


def test_a_request_that_runs_when_it_is_told_to_stop_is_answered_first(
    postgres: TestPostgres, valkey: TestValkey, token: str, tmp_path: Path
) -> None:
    port, body = find_free_port(), orjson.dumps({**TURN, "turn_id": "while it stops"})
    head = (
        f"POST /api/v1/turns HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with api(environment(tmp_path, postgres, valkey, port), tmp_path) as process:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            live(client, process)
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            connection.sendall(head.encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: refuses(port), "nobody else is let in")
            connection.sendall(body)
            assert connection.recv(1000).startswith(b"HTTP/1.1 201 ")
        assert process.wait(PATIENCE_S) == 0


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_taken_address_is_said_and_ends_with_two(postgres: TestPostgres, valkey: TestValkey, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with api(environment(tmp_path, postgres, valkey, port), tmp_path) as process:
            assert process.wait(PATIENCE_S) == 2
    said = (tmp_path / "log").read_text()
    assert said == f"deploy.api: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_wrong_setting_is_named_and_ends_with_two(postgres: TestPostgres, valkey: TestValkey, tmp_path: Path) -> None:
    told = environment(tmp_path, postgres, valkey, 8300) | {"AFTERTURN_API__MAX_MESSAGES": "none-zq81"}
    with api(told, tmp_path) as process:
        assert process.wait(PATIENCE_S) == 2
    said = (tmp_path / "log").read_text()
    assert "api.max_messages" in said
    assert "zq81" not in said


def test_without_a_database_it_lives_but_is_not_ready(
    postgres: TestPostgres, valkey: TestValkey, tmp_path: Path
) -> None:
    port = find_free_port()
    nowhere = "postgresql+asyncpg://nobody:zq81@127.0.0.1:9/none"
    told = environment(tmp_path, postgres, valkey, port)
    told |= {"AFTERTURN_DATABASE__URL": nowhere, "AFTERTURN_DATABASE__OPERATOR_URL": nowhere}
    with (
        api(told, tmp_path) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client,
    ):
        live(client, process)
        ready = client.get("/health/ready")
        assert (ready.status_code, list(ready.json()["failing"])) == (503, ["database"])
        reply = client.post("/api/v1/turns", json=TURN, headers={"authorization": f"Bearer {new_token('at_')}"})
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert client.get("/metrics").status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    assert "zq81" not in (tmp_path / "log").read_text()


@pytest.mark.untouched  # a database that serves one test after another has sessions of those before
async def test_the_servers_process_that_carries_words_steps_back_for_whoever_asks(
    fresh_database: TestPostgres, valkey: TestValkey, tmp_path: Path
) -> None:
    nice = os.getpriority(os.PRIO_PROCESS, 0) + 3
    settings = Settings(
        data=tmp_path,
        database=settings_of(fresh_database),
        broker=BrokerSettings.model_validate({"url": valkey.url, "namespace": "api-carries"}),
        worker=WorkerSettings(nice=2 * nice),
    )
    owned, beside = build_resources(settings), Database(settings.database)
    try:
        for _ in ("the first look", "who waits for it"):
            await owned.pending_words_limit.wait_for_room(HOST, {HOST: TOO_MANY})
        await owned.pending_words_limit.close()
        async with beside.operator() as connection:
            serving = [process for (process,) in await connection.execute(OF_THE_APP)]
        assert [os.getpriority(os.PRIO_PROCESS, process) for process in serving] == [nice]
    finally:
        await owned.words_database.close()
        await beside.close()


class LoadedModel:
    """A model that is loaded at once."""

    name = "loaded"

    async def load(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


async def test_no_answer_waits_for_a_walk_over_what_was_loaded() -> None:
    thresholds = gc.get_threshold()
    gc.unfreeze()
    try:
        async with BackgroundModel(LoadedModel(), "sentence model").loading():
            await until(lambda: gc.get_freeze_count() > 0, "what is loaded is out of the collector's sight")
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


async def test_turns_that_are_being_embedded_when_it_stops_are_the_workers_before_the_database_is_let_go(
    fresh_database: TestPostgres, valkey: TestValkey, tmp_path: Path
) -> None:
    world, embedder = await open_world(fresh_database), held()
    settings = Settings(
        data=tmp_path,
        database=settings_of(fresh_database),
        broker=BrokerSettings.model_validate({"url": valkey.url, "namespace": "api-stops"}),
        embedding=EmbeddingSettings(
            provider=Provider.REMOTE, remote=RemoteSettings(base_url="http://127.0.0.1:9", model="away")
        ),
    )
    owned = build_resources(settings)
    stage = EmbeddingStage(owned.database, embedder)
    owned = replace(owned, batch=MicroBatch(owned.database, stage, lambda _host: True, owned.notifier.notify, "api"))
    await world.append(turn="t")
    async with open_resources(settings, owned):
        assert owned.batch.offer(HOST, [turn_uuid("s", "t")], 100)
        await embedder.begun.wait()
    assert await world.statuses(Stage.EMBEDDING) == ["pending"]
    assert await world.sql("select stage from afterturn.claim_t") == []
    await world.database.close()
