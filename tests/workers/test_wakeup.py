"""Workers hear of messages as they are enqueued, and find those that nobody rang for."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import dramatiq
import pytest
import redis
from redis.client import PubSub

from producers.jobs import RECALL_ACTOR, bell_channel, recall_message
from producers.notifications import Doorbell
from store.ledger.stages import Queue
from tests.patience import PATIENCE_S, until
from tests.servers import TestValkey
from workers.broker import Pool, build_worker
from workers.wakeup import ListeningBroker

HOST, JOB = UUID(int=1), UUID(int=2)


class Heard:
    """An actor that notes what it was told."""

    def __init__(self, broker: ListeningBroker) -> None:
        self.told: list[tuple[str, str]] = []
        self.wait_for = threading.Event()
        self.wait_for.set()
        dramatiq.actor(broker=broker, actor_name=RECALL_ACTOR, queue_name=Queue.RECALL)(self.work)

    def work(self, host: str, job: str) -> None:
        self.told.append((host, job))
        self.wait_for.wait(PATIENCE_S)


def broker_of(valkey: TestValkey, look_s: float) -> ListeningBroker:
    client = redis.Redis.from_url(valkey.url, socket_timeout=5.0)
    return ListeningBroker(client=client, namespace=f"ear-{uuid4().hex}", middleware=[], look_s=look_s)


@pytest.fixture
def attentive(valkey: TestValkey) -> Iterator[ListeningBroker]:
    """A broker that finds by the bell, or not before the test is long over."""
    broker = broker_of(valkey, 600.0)
    yield broker
    broker.ear.close()
    broker.client.close()


@pytest.fixture
async def bell(attentive: ListeningBroker) -> AsyncIterator[Doorbell]:
    made = Doorbell(attentive)
    yield made
    await made.close()


async def listening(broker: ListeningBroker) -> None:
    """Wait until somebody has come to the channel."""
    await until(
        lambda: dict(broker.client.pubsub_numsub(f"{broker.namespace}:bell")).popitem()[1] > 0, "an ear listens"
    )


async def test_a_message_is_heard_of_at_once(attentive: ListeningBroker, bell: Doorbell) -> None:
    heard = Heard(attentive)
    attentive.ear.start()
    working = build_worker(attentive, Pool(Queue.RECALL, 2))
    working.start()
    await listening(attentive)
    for nth in range(3):
        bell.ask(HOST, UUID(int=nth))
        await until(lambda: (str(HOST), str(UUID(int=nth))) in heard.told, "the message has come")  # noqa: B023 - now
    attentive.ear.stop()
    await asyncio.to_thread(working.stop)
    assert heard.told == [(str(HOST), str(UUID(int=nth))) for nth in range(3)]


async def test_what_came_while_every_thread_was_busy_is_taken_when_one_is_free(
    attentive: ListeningBroker, bell: Doorbell
) -> None:
    heard = Heard(attentive)
    heard.wait_for.clear()
    attentive.ear.start()
    working = build_worker(attentive, Pool(Queue.RECALL, 1))
    working.start()
    await listening(attentive)
    bell.ask(HOST, UUID(int=0))
    await until(lambda: len(heard.told) == 1, "the first is at work")
    for nth in (1, 2):
        bell.ask(HOST, UUID(int=nth))
    heard.wait_for.set()
    await until(lambda: len(heard.told) == 3, "the others were taken")
    attentive.ear.stop()
    await asyncio.to_thread(working.stop)


def test_a_thread_that_becomes_free_just_after_the_queue_was_passed_by_does_not_leave_it_for_long(
    attentive: ListeningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    Heard(attentive)
    attentive.enqueue(recall_message(HOST, JOB))
    consumer = attentive.consume(Queue.RECALL)
    at_work = next(consumer)
    assert at_work is not None
    attentive.ear.wait(Queue.RECALL, 0.0)

    def freed_meanwhile(*_: int, **__: int) -> tuple[int, int]:
        consumer.ack(at_work)
        return 0, 0

    monkeypatch.setattr("dramatiq.brokers.redis.compute_backoff", freed_meanwhile)
    assert returns(lambda: next(consumer))


def returns(wait: Callable[[], object]) -> bool:
    """Whether somebody who waits is woken, though nobody rings any more."""
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(PATIENCE_S)
    return not waiting.is_alive()


async def test_who_rings_while_an_ear_is_only_about_to_listen_is_heard_of_when_it_does(
    attentive: ListeningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear, begin, hear = attentive.ear, PubSub.subscribe, PubSub.get_message

    def rung_just_before(bell: PubSub, **options: Any) -> Any:
        if not bell.subscribed:
            ear.wait(Queue.RECALL, 0.0)
            attentive.client.publish(bell_channel(attentive.namespace), Queue.RECALL.value)
            begin(bell, bell_channel(attentive.namespace))
        return hear(bell, **options)

    monkeypatch.setattr(PubSub, "subscribe", lambda *_: None)
    monkeypatch.setattr(PubSub, "get_message", rung_just_before)
    ear.start()
    await listening(attentive)
    assert returns(lambda: ear.wait(Queue.RECALL, 2 * PATIENCE_S))


def test_who_waits_for_a_queue_for_the_first_time_looks_again(attentive: ListeningBroker) -> None:
    """It was passed by before there was a bell that could have rung for it."""
    assert returns(lambda: attentive.ear.wait(Queue.RECALL, 2 * PATIENCE_S))


def test_who_is_about_to_wait_when_all_is_stopped_waits_for_nobody(
    attentive: ListeningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear = attentive.ear
    ear.wait(Queue.RECALL, 0.0)

    def asked_just_before() -> bool:
        ear.stop()
        return False

    monkeypatch.setattr(ear._stopped, "is_set", asked_just_before)
    assert returns(lambda: ear.wait(Queue.RECALL, 2 * PATIENCE_S))
    assert returns(lambda: ear.wait("another", 2 * PATIENCE_S))


async def test_a_message_nobody_rang_for_is_found_all_the_same(valkey: TestValkey) -> None:
    broker = broker_of(valkey, 0.05)
    heard = Heard(broker)
    working = build_worker(broker, Pool(Queue.RECALL, 1))
    working.start()
    broker.enqueue(recall_message(HOST, JOB))
    await until(lambda: heard.told == [(str(HOST), str(JOB))], "the message was found")
    broker.ear.stop()
    await asyncio.to_thread(working.stop)
    broker.client.close()
