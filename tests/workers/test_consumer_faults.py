"""A broker that is away or refuses writes is one line in the log, and one more when it takes them again."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import dramatiq
import pytest
import redis
from prometheus_client import REGISTRY
from pydantic import SecretStr
from structlog.testing import capture_logs

from producers.settings import BrokerSettings
from store.ledger.stages import Queue
from tests.patience import wait_until
from tests.servers import TestValkey
from workers.broker import ThreadPool, build_worker, create_broker
from workers.consumer_faults import ConsumerFaults, is_news
from workers.turn_queue import TurnQueueBroker, build_queue_worker

SCRIPTS = ("eval", "evalsha")


class Lines(logging.Handler):
    """Keeps what a worker's process logs of libraries."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.addFilter(is_news)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.name}: {record.msg}")


@pytest.fixture
def lines() -> Iterator[Lines]:
    made = Lines()
    logging.getLogger().addHandler(made)
    yield made
    logging.getLogger().removeHandler(made)


class Guarded:
    """A user of the broker whose scripts are refused, as those of a replica are, or taken."""

    def __init__(self, valkey: TestValkey) -> None:
        admin: Any = redis.Redis.from_url(valkey.url)
        self.admin = admin
        self.name, parts = f"u{uuid4().hex[:8]}", urlsplit(valkey.url)
        self.admin.execute_command("ACL", "SETUSER", self.name, "on", ">pw", "~*", "&*", "+@all")
        self.url = f"redis://{self.name}:pw@{parts.hostname}:{parts.port}{parts.path}"

    def allow(self, *, scripts: bool) -> None:
        rights = [f"{'+' if scripts else '-'}{name}" for name in SCRIPTS]
        self.admin.execute_command("ACL", "SETUSER", self.name, *rights)


@pytest.fixture
def guarded(valkey: TestValkey) -> Iterator[Guarded]:
    made = Guarded(valkey)
    yield made
    made.admin.execute_command("ACL", "DELUSER", made.name)
    made.admin.close()


@contextmanager
def running(of: str, url: str) -> Iterator[None]:
    namespace = f"faults-{uuid4().hex[:8]}"
    if of == "turn queues":
        broker: Any = TurnQueueBroker(url, namespace, 3.0, 1 << 20)
        queues = ["turns", "recalls"]
    else:
        broker = create_broker(BrokerSettings(url=SecretStr(url), namespace=namespace))
        queues = [Queue.RECALL.value]
    for queue in queues:
        dramatiq.actor(broker=broker, actor_name=f"work_{queue}", queue_name=queue)(lambda: None)
    worker = build_queue_worker(broker, 1) if of == "turn queues" else build_worker(broker, ThreadPool(Queue.RECALL, 1))
    worker.start()
    try:
        yield
    finally:
        worker.stop()
        broker.client.close()


def stopped(of: str) -> float:
    return REGISTRY.get_sample_value("afterturn_consumers_stopped", {"of": of}) or 0.0


def exceeds(attempts: Sequence[object], number: int) -> bool:
    return len(attempts) > number


@pytest.mark.parametrize("of", ["turn queues", "notifications"])
def test_a_broker_that_refuses_writes_is_told_once_and_once_more_when_it_takes_them(
    guarded: Guarded, lines: Lines, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dramatiq.worker.CONSUMER_RESTART_DELAY_SECS", 0.005)
    attempts, begin = list[BaseException](), ConsumerFaults.begin

    def note(faults: ConsumerFaults, queue: str, error: BaseException) -> None:
        attempts.append(error)
        begin(faults, queue, error)

    monkeypatch.setattr(ConsumerFaults, "begin", note)
    before = stopped(of)  # the gauge is the process's: another test's broker may have ended while it was away
    with capture_logs() as told, running(of, guarded.url):
        for nth in range(2):
            guarded.allow(scripts=False)
            wait_until(lambda: stopped(of) == before + 1, "the consumers stopped")
            many = len(attempts) + 20
            wait_until(partial(exceeds, attempts, many), "they tried a score of times")
            guarded.allow(scripts=True)
            wait_until(lambda: stopped(of) == before, "the consumers work")
            # Where another test has set logging up, lines of libraries are events, too.
            events = [(one["event"], one.get("error")) for one in told if one["event"] != "library"]
            expected = [("consumers_stopped", "NoPermissionError"), ("consumers_work", None)]
            assert events == expected * (nth + 1)
    assert [line for line in lines.said if "onsumer" in line] == []


def test_what_dramatiq_says_beside_its_attempts_is_logged() -> None:
    record = logging.makeLogRecord({"name": "dramatiq.worker.ConsumerThread(turns)", "msg": "Received message for"})
    assert is_news(record)
    assert is_news(logging.makeLogRecord({"name": "dramatiq.worker.WorkerThread", "msg": "Failed to process message"}))
