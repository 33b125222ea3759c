"""A turn queue on a real server: what is published stays until it is accepted, or is a dead letter with its reason."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import redis
from afterturn_client.envelopes import TURN, wrap_event
from afterturn_client.publisher import QueueOptions, TurnPublisher
from afterturn_client.turns import Message
from dramatiq.asyncio import EventLoopThread, set_event_loop_thread

from deploy.cli.queue import describe_access
from deploy.settings import Settings
from deploy.worker import turn_queues
from deploy.worker.turn_queues import open_letters, open_queue, prune_letters
from producers.queue.acceptance import QueueIntake, Rejection, TryAgain
from producers.queue.dead_letters import DAY_MS, DeadLetters
from producers.queue.messages import read_message
from tests.patience import until, wait_until
from tests.servers import TestValkey
from workers.turn_queue import BACK_OFF_MS, COUNTS, TurnQueueBroker, build_queue_worker, register_queue_actors

MARK = "zq23heron"
SAID = [Message("user", MARK)]
AWAY, FAILED = TryAgain("away"), TryAgain("failed", counts=True)
NEVER = Rejection("INVALID_ARGUMENT", "session_id: must not be blank")


class Taken:
    """Takes messages as `answers` say, one after the other: None accepts; notes which, with how many failures."""

    def __init__(self, *answers: Rejection | TryAgain | None) -> None:
        self._answers = list(answers)
        self.seen: list[tuple[str, int]] = []

    async def accept(self, raw: bytes, failures: int) -> Rejection | None:
        self.seen.append((str(read_message(raw, 1 << 20).body.get("turn_id")), failures))
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, TryAgain):
            raise answer
        return answer


class Queue:
    """The queue `agents` of a namespace, of its own unless one is named; `letters`: its dead letters."""

    def __init__(self, valkey: TestValkey, namespace: str = "", letters: DeadLetters | None = None) -> None:
        self.url, self.namespace = valkey.url, namespace or f"queue-{uuid4().hex[:8]}"
        self.prefix = f"{self.namespace}:queue:agents"
        self.client: Any = redis.Redis.from_url(self.url)
        self.attempts, self.failures = f"{self.prefix}:turns.attempts", f"{self.prefix}:turns.failures"
        self.letters = letters or DeadLetters(self.client, self.prefix)

    @contextmanager
    def publisher(self) -> Iterator[TurnPublisher]:
        options = QueueOptions(namespace=self.namespace, durable=False)
        with TurnPublisher(self.url, "agents", options) as made:
            yield made

    def publish(self, *turns: str) -> None:
        with self.publisher() as made:
            for turn in turns:
                made.add_turn("s", SAID, turn_id=turn)

    def left(self) -> int:
        return int(self.client.hlen(f"{self.prefix}:turns.msgs"))

    @contextmanager
    def worker(self, accept: Callable[..., Any], threads: int = 2) -> Iterator[TurnQueueBroker]:
        broker = TurnQueueBroker(self.url, self.prefix, 3.0, 1 << 20)
        register_queue_actors(broker, accept, self.letters)
        worker = build_queue_worker(broker, threads)
        loop = EventLoopThread(logging.getLogger("turn-queue"))
        loop.start(timeout=60)
        set_event_loop_thread(loop)
        worker.start()
        try:
            yield broker
        finally:
            worker.stop()
            set_event_loop_thread(None)
            loop.stop()  # type: ignore[no-untyped-call]  # dramatiq leaves it without annotations
            broker.client.close()


@pytest.fixture
def queue(valkey: TestValkey) -> Iterator[Queue]:
    made = Queue(valkey)
    yield made
    for key in made.client.scan_iter(f"{made.namespace}:*"):
        made.client.delete(key)
    made.client.close()


@pytest.mark.law("L1")
def test_a_message_that_fails_for_now_stays_until_it_is_accepted(queue: Queue) -> None:
    taken = Taken(AWAY, FAILED)
    queue.publish("1")
    with queue.worker(taken.accept):
        wait_until(lambda: queue.left() == 0, "the message is accepted")
    assert taken.seen == [("1", 0), ("1", 0), ("1", 1)]
    assert list(queue.letters.list()) == []
    assert queue.client.exists(queue.attempts, queue.failures) == 0


def test_a_message_that_an_earlier_release_put_back_has_all_its_attempts(queue: Queue) -> None:
    taken = Taken()
    queue.publish("1")
    [name] = queue.client.lrange(f"{queue.prefix}:turns", 0, -1)
    queue.client.hset(queue.attempts, name, 40)
    with queue.worker(taken.accept):
        wait_until(lambda: queue.left() == 0, "the message is accepted")
    assert taken.seen == [("1", 0)]


def test_attempts_of_a_message_are_no_failures_of_one_whose_name_is_longer_or_shorter(queue: Queue) -> None:
    """Publishers choose the names of their messages."""
    queue.publish("1", "2")
    line, bodies = f"{queue.prefix}:turns", f"{queue.prefix}:turns.msgs"
    published = queue.client.hvals(bodies)
    queue.client.delete(line, bodies)
    names = [b"a", b"a:failures"]
    queue.client.hset(bodies, mapping=dict(zip(names, published, strict=True)))
    queue.client.rpush(line, *names)
    taken = Taken(AWAY, AWAY, AWAY, AWAY)
    with queue.worker(taken.accept):
        wait_until(lambda: queue.left() == 0, "both messages are accepted")
    assert {failures for _, failures in taken.seen} == {0}


def test_the_pause_before_the_next_attempt_grows_whatever_failed(queue: Queue) -> None:
    queue.publish("1")
    broker = TurnQueueBroker(queue.url, queue.prefix, 3.0, 1 << 20)
    consumer = broker.consume("turns")
    for nth, counts in enumerate((False, True, False)):
        message = next(consumer)
        assert message is not None
        message.options[COUNTS] = counts
        before = time.time_ns() // 1_000_000
        consumer.nack(message)
        [(name, due)] = queue.client.zrange(f"{queue.prefix}:turns.later", 0, -1, withscores=True)
        assert due - before >= BACK_OFF_MS * 2**nth
        queue.client.zadd(f"{queue.prefix}:turns.later", {name: 0})
    assert (queue.client.hgetall(queue.attempts), queue.client.hgetall(queue.failures)) == ({name: b"3"}, {name: b"1"})
    broker.client.close()


def test_a_replayed_dead_letter_has_all_its_attempts(queue: Queue) -> None:
    taken = Taken(FAILED, NEVER)
    queue.letters = DeadLetters(queue.client, queue.prefix, keep_content=True)
    queue.publish("1")
    [name] = queue.client.lrange(f"{queue.prefix}:turns", 0, -1)
    with queue.worker(taken.accept):
        wait_until(lambda: queue.left() == 0, "the message is judged")
        queue.client.hset(queue.attempts, name, 2)
        queue.client.hset(queue.failures, name, 1)
        [letter] = queue.letters.list()
        queue.letters.replay(letter)
        wait_until(lambda: queue.left() == 0, "the message is accepted")
    assert taken.seen == [("1", 0), ("1", 1), ("1", 0)]


@pytest.mark.law("L7")
def test_what_is_never_accepted_is_a_dead_letter_with_its_reason_and_no_content(queue: Queue) -> None:
    taken = Taken(AWAY, NEVER)
    queue.publish("1")
    with queue.worker(taken.accept):
        wait_until(lambda: queue.left() == 0, "the message is judged")
    [letter] = queue.letters.list()
    assert (letter.queue, letter.attempts, letter.code, letter.message) == ("turns", 2, NEVER.code, NEVER.message)
    assert letter.content_kept is False
    kept = queue.client.hgetall(f"{queue.prefix}:dead")
    assert kept
    assert MARK.encode() not in b"".join(kept.values())
    assert queue.client.exists(f"{queue.prefix}:dead.bodies") == 0


@pytest.mark.parametrize("by", ["a new letter", "the worker, without one"])
async def test_letters_past_their_days_are_pruned(queue: Queue, by: str) -> None:
    broker = {"url": queue.url, "namespace": queue.namespace}
    settings = Settings.model_validate({"broker": broker, "queue": {"tenants": {"agents": "a"}, "dead_days": 2}})
    letters = open_letters(settings, open_queue(settings, "agents"))
    for name, days in (("old", 2.1), ("young", 1.9)):
        letters.put(name, "turns", b"", 1, NEVER)
        queue.client.zadd(f"{queue.prefix}:dead.times", {name: time.time() * 1000 - days * DAY_MS})
    if by == "a new letter":
        await asyncio.to_thread(letters.put, "new", "turns", b"", 1, NEVER)
        left = {"young", "new"}
    else:
        pruning, left = asyncio.create_task(prune_letters(settings)), {"young"}
        await until(lambda: len(letters.list()) == 1, "the old letter is gone")
        pruning.cancel()
        await asyncio.gather(pruning, return_exceptions=True)
    assert {letter.message_id for letter in letters.list()} == left
    assert queue.client.zcard(f"{queue.prefix}:dead.times") == len(left)
    letters.client.close()


async def test_dead_letters_are_counted_until_they_are_settled(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_queues, "COUNT_S", 0.01)
    broker = {"url": queue.url, "namespace": queue.namespace}
    settings = Settings.model_validate({"broker": broker, "queue": {"tenants": {"agents": "a"}}})
    letters = open_letters(settings, open_queue(settings, "agents"))
    counting = asyncio.create_task(turn_queues.count_letters(settings))

    def shown() -> float:
        [metric] = turn_queues.QUEUE_DEAD_LETTERS.collect()
        return metric.samples[0].value

    for name in ("one", "two"):
        letters.put(name, "turns", b"", 1, NEVER)
    await until(lambda: shown() == 2, "both are counted")
    letters.drop(["one", "two"])
    await until(lambda: shown() == 0, "none is left")
    counting.cancel()
    await asyncio.gather(counting, return_exceptions=True)
    letters.client.close()


@pytest.mark.law("L1")
def test_a_message_is_in_the_queue_until_its_append_is_over(queue: Queue) -> None:
    begun, may_end = threading.Event(), threading.Event()

    async def slow(raw: bytes, failures: int) -> None:
        del raw, failures
        begun.set()
        await asyncio.to_thread(may_end.wait, 60)

    queue.publish("1")
    with queue.worker(slow):
        assert begun.wait(60)
        assert queue.left() == 1
        may_end.set()
        wait_until(lambda: queue.left() == 0, "the message is acknowledged")


@pytest.mark.law("L6")
def test_a_tenant_that_a_message_names_is_not_read() -> None:
    data = {"bank": "b", "session_id": "s", "turn_id": "t", "messages": [], "tenant": "other", "host": "other"}
    message = json.loads(wrap_event(TURN, data, "x").body)
    message["args"][0] |= {"tenant": "other", "host": "other"}
    body = read_message(json.dumps(message).encode(), 1 << 20).body
    assert set(body) == {"bank", "session_id", "turn_id", "messages"}
    assert "tenant" not in QueueIntake.__dataclass_fields__  # whose it is, is the grant's alone


@pytest.mark.law("L6")
def test_a_publishers_user_reaches_its_own_queue_alone_and_reads_nothing(queue: Queue) -> None:
    settings = Settings.model_validate(
        {
            "broker": {"url": queue.url, "namespace": queue.namespace},
            "queue": {"tenants": {"agents": "a", "others": "b"}},
        }
    )
    user = f"u{uuid4().hex[:8]}"
    line = describe_access(settings, "agents", user)
    queue.client.execute_command(*line.replace("'", "").replace("PASSWORD", "pw").split())
    parts = urlsplit(queue.url)
    own: Any = redis.Redis.from_url(f"redis://{user}:pw@{parts.hostname}:{parts.port}{parts.path}")
    try:
        own.rpush(f"{queue.prefix}:turns", "x")
        others = f"{queue.namespace}:queue:others:turns"
        for denied in (
            ("RPUSH", others, "x"),
            ("HSET", f"{others}.msgs", "x", "y"),
            ("LRANGE", f"{queue.prefix}:turns", 0, -1),
        ):
            with pytest.raises(redis.ResponseError, match="permission"):
                own.execute_command(*denied)
    finally:
        own.close()
        queue.client.execute_command("ACL", "DELUSER", user)
