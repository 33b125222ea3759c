"""How dramatiq is set up: it only notifies, so its weaknesses lose no work and delay none."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import dramatiq
import pytest
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import current_millis
from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import TimeLimit
from pydantic import SecretStr

from producers.jobs import QUEUES
from producers.settings import BrokerSettings
from store.ledger.stages import Queue, Stage
from tests.patience import PATIENCE_S, wait_until
from tests.servers import TestValkey
from workers.broker import (
    HEARTBEAT_MS,
    POLL_RECALL_MS,
    POLL_STAGE_MS,
    DelayMeter,
    ThreadPool,
    build_pools,
    build_worker,
    create_broker,
)
from workers.settings import WorkerSettings

THREADS = 3


@pytest.fixture
def broker() -> Iterator[RedisBroker]:
    """A broker that is never connected."""
    made = create_broker(BrokerSettings(url=SecretStr("redis://127.0.0.1:1/0"), namespace="nowhere"))
    yield made
    made.client.close()


@pytest.fixture(params=build_pools(WorkerSettings(threads=THREADS)), ids=lambda pool: pool.queue)
def pool(request: pytest.FixtureRequest) -> ThreadPool:
    one: ThreadPool = request.param
    return one


def test_every_queue_has_one_pool() -> None:
    assert sorted(pool.queue for pool in build_pools(WorkerSettings(threads=THREADS))) == sorted(Queue)
    assert {*QUEUES.values(), Queue.RECALL} == set(Queue)


def test_recall_alone_has_as_many_threads_as_are_asked_for() -> None:
    few, many = (
        {pool.queue: pool.threads for pool in build_pools(WorkerSettings(threads=threads))} for threads in (1, 64)
    )
    assert (few.pop(Queue.RECALL), many.pop(Queue.RECALL)) == (1, 64)
    assert few == many


def test_a_pool_fetches_no_message_that_it_has_no_thread_for(
    broker: RedisBroker, pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen where dramatiq makes its consumers: what waits in one process is what another could do."""
    consumers: list[dict[str, Any]] = []

    def noted(**told: Any) -> SimpleNamespace:
        consumers.append(told)
        return SimpleNamespace(start=lambda: None)

    monkeypatch.setattr("dramatiq.worker.ConsumerThread", noted)
    working = build_worker(broker, pool)
    assert working.queue_prefetch == pool.threads
    for queue in Queue:
        working._add_consumer(queue.value)
        working._add_consumer(f"{queue}.DQ", delay=True)
    seen = [(told["queue_name"], told["prefetch"], told["worker_timeout"]) for told in consumers]
    mine, pause = pool.queue.value, POLL_RECALL_MS if pool.queue is Queue.RECALL else POLL_STAGE_MS
    assert seen == [(mine, pool.threads, pause), (f"{mine}.DQ", pool.threads, pause)]
    assert working.worker_threads == pool.threads


@pytest.mark.parametrize("queue", Queue)
def test_queues_of_delayed_messages_are_not_asked_for_as_no_message_is_delayed(
    broker: RedisBroker, queue: Queue
) -> None:
    """The broker is not connected: a look into a queue would raise."""
    delayed = broker.consume(f"{queue}.DQ", timeout=1)
    assert next(delayed) is None
    with pytest.raises(ConnectionClosed):
        next(broker.consume(queue, timeout=1))


def test_messages_of_a_process_whose_threads_are_all_busy_stay(
    valkey: TestValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.broker.BEATS", HEARTBEAT_MS // 100)
    monkeypatch.setattr("workers.broker.MAINTENANCE_CHANCE", 1_000_000)
    ahead_ms = 0
    monkeypatch.setattr("dramatiq.brokers.redis.current_millis", lambda: current_millis() + ahead_ms)
    settings = BrokerSettings(url=SecretStr(valkey.url), namespace=f"busy-{uuid4().hex[:8]}")
    seen, may_end = list[str](), threading.Event()
    with ExitStack() as ends:

        def work(process: str) -> RedisBroker:
            broker = create_broker(settings)
            ends.callback(broker.client.close)

            def recall() -> None:
                seen.append(process)
                may_end.wait(PATIENCE_S)

            dramatiq.actor(broker=broker, queue_name=Queue.RECALL.value)(recall)
            worker = build_worker(broker, ThreadPool(Queue.RECALL, 1))
            worker.start()
            ends.callback(worker.stop)
            return broker

        work("busy").enqueue(dramatiq.Message(Queue.RECALL.value, "recall", (), {}, {}))
        wait_until(lambda: seen == ["busy"], "the message is in work")
        other = work("idle")
        # Last in, first out: the message ends before its worker is stopped, which waits for it.
        ends.callback(may_end.set)

        def both_live(now: int) -> bool:
            return int(other.client.zcount(f"{settings.namespace}:__heartbeats__", now, "+inf")) == 2

        # Three times as long as a process without heartbeats is taken for dead.
        for ahead_ms in range(0, 3 * HEARTBEAT_MS, HEARTBEAT_MS // 2):
            wait_until(partial(both_live, current_millis() + ahead_ms), "both processes have written a heartbeat")
        assert seen == ["busy"]


def test_messages_of_a_killed_process_come_back_within_minutes(
    broker: RedisBroker,
) -> None:
    """A million is always; dramatiq's own 1000 leaves an idle process' messages for a quarter of an hour."""
    assert broker.maintenance_chance == 50_000
    assert broker.heartbeat_timeout == 60_000


def test_the_queue_repeats_nothing_and_ends_what_hangs(broker: RedisBroker) -> None:
    """The ledger retries: a retry in backoff would be lost with the connection, and take a traceback to Redis."""
    limit, meter = broker.middleware
    assert isinstance(limit, TimeLimit)
    assert limit.time_limit == 600_000
    assert isinstance(meter, DelayMeter)


def test_a_worker_of_few_stages_listens_to_their_queues_alone() -> None:
    pools = build_pools(WorkerSettings(stages=(Stage.EMBEDDING, "recall")))
    assert {pool.queue for pool in pools} == {Queue.EMBEDDING, Queue.RECALL}
