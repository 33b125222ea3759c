"""Notifications reach the workers' queues, coalesced, without content, and never in the way of a request."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
import redis
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker

from producers.jobs import QUEUES, STAGE_ACTORS, flag_key
from producers.notifications import Notifier
from store.ledger.stages import STAGES, Queue, Stage
from tests.patience import PATIENCE_S, until
from tests.producers.conftest import Tenant, World, broker_of
from tests.servers import TestValkey


@pytest.fixture
def broker(valkey: TestValkey) -> RedisBroker:
    return broker_of(valkey.url, f"notifier-{uuid4().hex}")


@pytest.fixture(autouse=True)
def _on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a flag outlast a test, and last words as long as they need: no test is about how long that is."""
    monkeypatch.setattr("producers.notifications.FLAG_MS", int(1000 * PATIENCE_S))
    monkeypatch.setattr("producers.notifications.CLOSE_S", PATIENCE_S)


@pytest.fixture
async def notifier(broker: RedisBroker) -> AsyncIterator[Notifier]:
    made = Notifier(broker)
    yield made
    await made.close()
    broker.client.close()


def waiting(broker: RedisBroker, queue: str) -> list["Message[Any]"]:
    found: Any = broker.client.hvals(f"{broker.namespace}:{queue}.msgs")
    return [Message.decode(message) for message in found]


async def notified(broker: RedisBroker, queue: str, at_least: int = 1) -> list["Message[Any]"]:
    await until(lambda: len(waiting(broker, queue)) >= at_least, "it was notified")
    return waiting(broker, queue)


async def test_a_notification_is_one_message_without_arguments(broker: RedisBroker, notifier: Notifier) -> None:
    for stage in Stage:
        notifier.notify(stage)
    for stage in Stage:
        sharing = [one for one in Stage if QUEUES[one] is QUEUES[stage]]
        found = await notified(broker, QUEUES[stage], len(sharing))
        assert {message.actor_name for message in found} == {STAGE_ACTORS[one] for one in sharing}
        assert all((message.args, message.kwargs) == ((), {}) for message in found)


async def test_a_thousand_notifications_are_one_message_until_it_is_answered(
    broker: RedisBroker, notifier: Notifier
) -> None:
    for _ in range(20):
        for _ in range(50):
            notifier.notify(Stage.EMBEDDING)
        await asyncio.sleep(0.01)
    assert len(await notified(broker, Queue.EMBEDDING)) == 1
    notifier.acknowledge(Stage.EMBEDDING)
    notifier.notify(Stage.EMBEDDING)
    assert len(await notified(broker, Queue.EMBEDDING, 2)) == 2


async def test_two_processes_share_one_notification(broker: RedisBroker, notifier: Notifier) -> None:
    other = Notifier(broker)
    notifier.notify(Stage.GATEWAY)
    other.notify(Stage.GATEWAY)
    await asyncio.gather(notifier.close(), other.close())
    assert len(waiting(broker, Queue.GATEWAY)) == 1


async def test_a_notification_that_no_worker_takes_expires(broker: RedisBroker, notifier: Notifier) -> None:
    notifier.notify(Stage.GATEWAY)
    await notified(broker, Queue.GATEWAY)
    left = broker.client.pttl(flag_key(broker.namespace, Stage.GATEWAY))
    assert 0 < left <= 1000 * PATIENCE_S


@pytest.mark.law("L1")
async def test_whoever_commits_before_the_flag_falls_is_seen_or_notifies_again(
    broker: RedisBroker, notifier: Notifier
) -> None:
    """A worker answers, then looks; committers commit, then ring. Nothing committed stays unseen."""
    committed: set[int] = set()
    seen: set[int] = set()

    async def worker() -> None:
        answered = 0
        while len(seen) < 200:
            await asyncio.sleep(0.001)
            messages = waiting(broker, Queue.EXTRACTION)
            if len(messages) > answered:
                answered = len(messages)
                notifier.acknowledge(Stage.EXTRACTION)
                seen.update(committed)

    async def committer() -> None:
        for n in range(200):
            committed.add(n)
            notifier.notify(Stage.EXTRACTION)
            await asyncio.sleep(0.001 * (n % 3))

    await asyncio.wait_for(asyncio.gather(worker(), committer()), PATIENCE_S / 2)
    assert seen == committed


async def test_notify_never_calls_redis_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_of("redis://127.0.0.1:9/0", "away")
    away = Notifier(broker)
    talked = threading.Event()
    talkers = list[str]()

    def refused(*_: Any, **__: Any) -> None:
        talkers.append(threading.current_thread().name)
        talked.set()
        raise redis.ConnectionError

    monkeypatch.setattr(broker.client.connection_pool, "get_connection", refused)
    for _ in range(1000):
        away.notify(Stage.EXTRACTION, Stage.EMBEDDING)
        away.notify_job(uuid4(), uuid4())
    assert talkers == []
    assert await asyncio.to_thread(talked.wait, 60)
    assert {name.partition("_")[0] for name in talkers} == {"notifier"}
    assert await away.find_fault() == "ConnectionError"
    await away.close()


async def test_notifications_made_while_redis_is_away_are_sent_later(
    broker: RedisBroker, notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("producers.notifications.BACK_OFF_S", 0.05)
    there = broker.client
    broker.client = broker_of("redis://127.0.0.1:9/0", "away").client
    notifier.notify(Stage.EXTRACTION)
    await asyncio.sleep(0.1)
    broker.client = there
    assert len(await notified(broker, Queue.EXTRACTION)) == 1


async def test_a_recall_job_that_is_asked_for_again_and_again_while_redis_is_away_is_one_message_later(
    broker: RedisBroker, notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("producers.notifications.BACK_OFF_S", 0.0)
    monkeypatch.setattr("producers.notifications.JOBS_KEPT", 3)
    refused = threading.Event()

    def refuse(*_: Any, **__: Any) -> None:
        refused.set()
        raise redis.ConnectionError

    with monkeypatch.context() as away:
        away.setattr(broker.client.connection_pool, "get_connection", refuse)
        for sweep in range(4):
            for job in range(5):
                notifier.notify_job(UUID(int=0), UUID(int=job))
            refused.clear()
            assert await asyncio.to_thread(refused.wait, PATIENCE_S), f"it was tried after sweep {sweep}"
    found = await notified(broker, Queue.RECALL, 3)
    assert sorted(message.args[1][-1] for message in found) == ["2", "3", "4"]


async def test_a_recall_job_that_every_sweep_asks_for_is_one_message_until_it_is_taken(
    broker: RedisBroker, notifier: Notifier
) -> None:
    other, job = Notifier(broker), UUID(int=7)
    for _ in range(5):
        for sweeping in (notifier, other):
            sweeping.notify_job(UUID(int=0), job)
            await sweeping._send_pending()
    assert len(waiting(broker, Queue.RECALL)) == 1
    notifier.acknowledge(job)
    other.notify_job(UUID(int=0), job)
    await other.close()
    assert len(waiting(broker, Queue.RECALL)) == 2


async def test_a_closing_process_sends_its_last_notification(broker: RedisBroker) -> None:
    last = Notifier(broker)
    last.notify(Stage.EXTRACTION)
    await last.close()
    assert len(waiting(broker, Queue.EXTRACTION)) == 1


@pytest.mark.parametrize("path", ["turns", "docs", "memories"])
async def test_a_write_notifies_every_stage_that_can_begin(
    world: World, ana: Tenant, turn: dict[str, Any], path: str
) -> None:
    opened = {stage for stage, spec in STAGES.items() if spec.opened_by_turn and not spec.deferred}
    # The gateway's stage has work only for a turn with a target.
    wanted = {STAGE_ACTORS[stage] for stage in opened - {Stage.GATEWAY}}
    world.broker.client.delete(*[f"{world.broker.namespace}:{queue}.msgs" for queue in Queue])
    for stage in Stage:
        world.notifier.acknowledge(stage)
    body = turn if path == "turns" else {"content": "Ann lives in Lisbon."}
    assert (await ana.http.post(f"/api/v1/{path}", json=body)).status_code == 201

    def told() -> set[str]:
        return {message.actor_name for queue in Queue for message in waiting(world.broker, queue)}

    await until(lambda: wanted <= told(), "the stages were notified")


@pytest.mark.law("L7")
async def test_a_recall_job_is_told_of_by_its_ids_alone(world: World, ana: Tenant) -> None:
    reply = await ana.http.post("/api/v1/recall/jobs", json={"query": "a most private question"})
    job = reply.json()["job_id"]

    def told() -> list["Message[Any]"]:
        return [one for one in waiting(world.broker, Queue.RECALL) if job in one.args]

    await until(lambda: bool(told()), "the job was told of")
    assert len(told()[0].args) == 2
    assert b"private" not in orjson.dumps(told()[0].asdict())
