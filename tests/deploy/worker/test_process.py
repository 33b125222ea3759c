"""The worker process as it is started: real PostgreSQL, real Valkey, a model, signals."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
import redis
from starlette.responses import JSONResponse, PlainTextResponse

from deploy.local import EmbeddedValkey
from deploy.local.valkey import CONFIGURATION
from producers.notifications import Notifier
from producers.service.recall_coordinator import RecallBody
from producers.settings import BrokerSettings
from store.ledger.stages import Stage
from store.ledger.workers import WorkerRegistry
from store.recall.jobs import RecallJobs
from tests.patience import PATIENCE_S, until
from tests.processes import dumps_no_core, spawned
from tests.servers import TestPostgres, TestValkey
from tests.workers.conftest import HOST, World, dialogue, now, open_world
from tests.workers.gateways import gateway
from tests.workers.targets import SEALING, hand_to
from workers.broker import create_broker
from workers.settings import WorkerSettings

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest_asyncio.fixture(loop_scope="session")
async def world(fresh_database: TestPostgres) -> AsyncIterator[World]:
    opened = await open_world(fresh_database)
    yield opened
    await opened.database.close()


@pytest.fixture
def namespace() -> str:
    return f"test-{uuid4().hex[:12]}"


@pytest_asyncio.fixture(loop_scope="session")
async def notifier(valkey: TestValkey, namespace: str) -> AsyncIterator[Notifier]:
    settings = BrokerSettings.model_validate({"url": valkey.url, "namespace": namespace})
    bell = Notifier(create_broker(settings))
    yield bell
    await bell.close()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def start(world: World, valkey: TestValkey, namespace: str, models: Path, tmp_path: Path) -> Iterator[Start]:
    """Start worker processes that end with the test."""
    environment = os.environ | {
        "AFTERTURN_DATA": str(models),
        "AFTERTURN_METRICS_DIR": str(tmp_path / "metrics"),
        "AFTERTURN_DATABASE__URL": world.postgres.app_url,
        "AFTERTURN_DATABASE__OPERATOR_URL": world.postgres.operator_url,
        "AFTERTURN_BROKER__URL": valkey.url,
        "AFTERTURN_BROKER__NAMESPACE": namespace,
        "AFTERTURN_WORKER__SWEEP_SECONDS": "0.5",
        "AFTERTURN_LOG__FORMAT": "json",
    }
    with ExitStack() as ended_with_the_test:

        def start_one(**more: str) -> "subprocess.Popen[bytes]":
            argv, told = [sys.executable, "-P", "-m", "deploy.worker"], environment | more
            with (tmp_path / "worker.log").open("ab") as output:
                return ended_with_the_test.enter_context(spawned(argv, env=told, stdout=output, stderr=output))

        yield start_one


#: A worker that was killed loses its claims when they run out.
BRIEF_LEASE = {"AFTERTURN_WORKER__LEASE_SECONDS": "2"}
#: The processes start with a model to load.
LONG_S = 2 * PATIENCE_S
CONNECTED = """
    from pg_stat_activity
   where datname = current_database() and usename in ('afterturn_app', 'afterturn_operator')"""
ALL_DONE = """
    not exists (select from afterturn.ledger_t where undone)
    and not exists (select from afterturn.recall_job_t where status in ('pending', 'running'))"""


async def found(world: World, condition: str) -> None:
    """Wait until a condition holds in the database."""

    async def holds() -> bool:
        return bool((await world.sql(f"select {condition} as holds"))[0].holds)

    try:
        await until(holds, condition, LONG_S)
    except AssertionError as error:
        counts = await world.sql("select stage, status, count(*) from afterturn.ledger_t group by 1, 2")
        error.add_note(repr(counts))
        raise


async def all_done(world: World) -> None:
    await found(world, ALL_DONE)


async def ended(process: "subprocess.Popen[bytes]") -> int:
    return await asyncio.to_thread(process.wait, PATIENCE_S)


async def append(world: World, count: int, prefix: str = "t") -> None:
    for n in range(count):
        text = f"Karl Berger visited Lisbon on day {n}."
        await world.append(f"s{n % 4}", f"{prefix}{n}", messages=dialogue(text, "Noted, Karl Berger was in Lisbon."))


async def test_a_worker_takes_turns_through_every_stage_and_stops_when_told(
    world: World, notifier: Notifier, start: Start, tmp_path: Path
) -> None:
    worker = start()
    await append(world, 20)
    notifier.notify(*Stage)
    await all_done(world)
    assert dumps_no_core(worker.pid)
    assert len(await world.sql("select 1 from afterturn.unit_vector_t")) == 40
    assert os.getpriority(os.PRIO_PROCESS, worker.pid) == min(
        19, os.getpriority(os.PRIO_PROCESS, 0) + WorkerSettings().nice
    )
    worker.send_signal(signal.SIGTERM)
    assert await ended(worker) == 0
    assert list((tmp_path / "metrics").rglob("histogram_*.db"))
    log = (tmp_path / "worker.log").read_text()
    assert '"level":"error"' not in log
    # Other tests have keys in the same Valkey, which a worker tells.
    assert not [
        line for line in log.splitlines() if '"level":"warning"' in line and "its database also holds" not in line
    ]


async def test_turns_without_a_notification_are_found_by_the_sweeper(world: World, start: Start) -> None:
    await append(world, 5)
    start()
    await all_done(world)


@pytest.mark.slow
async def test_a_killed_worker_loses_nothing_and_its_successor_does_nothing_twice(world: World, start: Start) -> None:
    await append(world, 60)
    for _ in range(3):
        worker = start(**BRIEF_LEASE)
        await found(world, "exists (select from afterturn.claim_t where lease_until > now())")
        worker.send_signal(signal.SIGKILL)
        await ended(worker)
    start(**BRIEF_LEASE)
    await all_done(world)
    statuses = await world.sql("select distinct stage, status from afterturn.ledger_t")
    assert {row.status for row in statuses} == {"done"}
    units = await world.sql("select count(*) as n from afterturn.agent_memory_unit_t where origin = 'message'")
    assert units[0].n == 120


async def test_a_recall_job_is_answered(world: World, notifier: Notifier, start: Start) -> None:
    await append(world, 3)
    jobs = RecallJobs(world.database, now)
    request = RecallBody(query="Who visited Lisbon?").model_dump(mode="json", exclude_defaults=True)
    job, _ = await jobs.open(HOST, {**request, "bank": "default"}, timedelta(minutes=5))
    start()
    notifier.notify_job(HOST, job)
    await all_done(world)
    answer = await jobs.read(HOST, job)
    assert answer.status == "done"
    assert answer.result is not None
    assert b"Karl Berger" in answer.result


@pytest.mark.slow
async def test_work_goes_on_while_redis_is_away_and_after_it_came_back(
    world: World, start: Start, tmp_path: Path
) -> None:
    own = EmbeddedValkey(tmp_path / "own")
    own.start()
    try:
        worker = start(AFTERTURN_BROKER__URL=own.url)
        await append(world, 5, "before")
        await all_done(world)
        own.stop()
        await append(world, 5, "without")
        await all_done(world)
        own.start()
        await append(world, 5, "after")
        await all_done(world)
        assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        assert await ended(worker) == 0
    finally:
        own.stop()


@pytest.mark.slow
async def test_a_database_that_cuts_connections_again_and_again_loses_no_turn(
    world: World, notifier: Notifier, start: Start
) -> None:
    worker = start(**BRIEF_LEASE)
    await append(world, 120)
    notifier.notify(*Stage)
    cuts = 0
    while cuts < 15:
        await found(world, f"exists (select {CONNECTED})")
        cuts += bool(await world.sql(f"select pg_terminate_backend(pid) {CONNECTED}"))
        await asyncio.sleep(0.1)
    await all_done(world)
    assert worker.poll() is None
    statuses = await world.sql("select distinct status from afterturn.ledger_t")
    assert {row.status for row in statuses} == {"done"}


SECRETS = ("Xanthippe", "Quillaja", "uk_distinctive-key-4711")


async def everything_written(world: World, valkey: TestValkey, folder: Path) -> dict[str, bytes]:
    """Every place that content and secrets must not reach, as bytes."""
    samples = [path for path in (folder / "metrics").rglob("*") if path.is_file()]
    sinks = {path.name: path.read_bytes() for path in [folder / "worker.log", *samples]}
    tables = ("ledger_t", "claim_t", "audit_event_t", "call_audit_t")
    for table in (*(f"afterturn.{name}" for name in tables), "public.afterturn_gate"):
        sinks[table] = repr(await world.sql(f"select * from {table}")).encode()
    client = redis.Redis.from_url(valkey.url)
    for key in client.keys("*"):
        sinks[f"redis {key!r}"] = repr((key, client.dump(key))).encode()
    client.close()
    return sinks


@pytest.mark.law("L7")
async def test_content_and_secrets_stay_out_of_logs_metrics_redis_ledger_and_audit(
    world: World, valkey: TestValkey, notifier: Notifier, start: Start, tmp_path: Path
) -> None:
    """Everything goes wrong that can, and nothing that was said is repeated in telling so."""
    turn = itertools.count()
    with gateway() as server:
        server.fault = lambda _operation, body: (
            JSONResponse({"error": body}, 500),
            PlainTextResponse(f"no JSON: {body}"),
            JSONResponse({"status": "ok", "echo": body}),
        )[next(turn) % 3]
        worker = start(
            AFTERTURN_GATEWAY__SEALING_KEYS=SEALING,
            AFTERTURN_LOG__LEVEL="debug",
        )
        await hand_to(world.database, HOST, server.url)
        await world.sql("revoke insert on afterturn.agent_memory_entity_t from afterturn_app")
        for n in range(9):
            await world.append("s", f"t{n}", messages=dialogue(f"I met Xanthippe {n}.", f"With Quillaja {n}."))
        notifier.notify(*Stage)
        failed = "exists (select from afterturn.ledger_t where stage = 'extraction' and error_category = 'database')"
        await found(world, failed)
        await world.sql("grant insert on afterturn.agent_memory_entity_t to afterturn_app")
        await world.forget_backoff()
        await all_done(world)
        worker.send_signal(signal.SIGTERM)
        await ended(worker)
    assert server.added
    sinks = await everything_written(world, valkey, tmp_path)
    assert b"work_failed" in sinks["worker.log"]
    assert sinks["public.afterturn_gate"] != b"[]"
    leaks = [
        (place, secret) for place, text in sinks.items() for secret in (*SECRETS, SEALING) if secret.encode() in text
    ]
    assert leaks == []


def test_a_broker_that_throws_messages_away_is_refused_with_the_remedy(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.local.valkey.CONFIGURATION", CONFIGURATION.replace("noeviction", "allkeys-lru"))
    own = EmbeddedValkey(tmp_path / "own")
    own.start()
    try:
        assert start(AFTERTURN_BROKER__URL=own.url).wait(PATIENCE_S) == 1
    finally:
        own.stop()
    assert "CONFIG SET maxmemory-policy noeviction" in (tmp_path / "worker.log").read_text()


def test_a_worker_that_cannot_be_built_ends(start: Start, tmp_path: Path) -> None:
    worker = start(
        SSL_CERT_FILE=str(tmp_path / "none.pem"),
        AFTERTURN_EMBEDDING__PROVIDER="remote",
        AFTERTURN_EMBEDDING__REMOTE__BASE_URL="https://models.test",
        AFTERTURN_EMBEDDING__REMOTE__MODEL="any",
    )
    assert worker.wait(PATIENCE_S) == 1


async def test_a_worker_that_is_told_to_stop_waits_for_no_model(start: Start) -> None:
    asked = asyncio.Event()

    async def never_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(never_answers, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        worker = start(
            AFTERTURN_EMBEDDING__PROVIDER="remote",
            AFTERTURN_EMBEDDING__REMOTE__BASE_URL=f"http://127.0.0.1:{port}",
            AFTERTURN_EMBEDDING__REMOTE__MODEL="mute",
            AFTERTURN_EMBEDDING__REMOTE__TIMEOUT_SECONDS="600",
            AFTERTURN_EMBEDDING__REMOTE__DEADLINE_SECONDS="3600",
        )
        await asyncio.wait_for(asked.wait(), PATIENCE_S)
        worker.send_signal(signal.SIGTERM)
        assert await ended(worker) == 0


async def test_a_worker_that_is_drained_takes_no_more_and_stays_until_it_is_stopped(world: World, start: Start) -> None:
    registry = WorkerRegistry(world.database)

    async def states() -> list[str]:
        return [one.state for one in await registry.list()]

    first = start()
    await append(world, 6)
    await all_done(world)
    [listed] = await registry.list()
    assert (listed.state, listed.version) == ("working", version("afterturn"))
    assert "extraction" in listed.stages
    assert await registry.drain([listed.worker]) == [listed.worker]
    await found(world, "exists (select from public.afterturn_worker where state = 'drained')")
    await append(world, 6, "more")
    start()
    await all_done(world)
    assert await states() == ["drained", "working"]
    assert next(one.claims for one in await registry.list()) == 0
    assert first.poll() is None
    first.send_signal(signal.SIGTERM)
    assert await ended(first) == 0
    assert await states() == ["working"]
