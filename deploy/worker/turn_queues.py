"""Builds the readers of turn queues in a worker process: a broker and a grant for each tenant of `queue.tenants`."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from uuid import NAMESPACE_URL, uuid5

import dramatiq
import redis
import structlog
from prometheus_client import Gauge

from deploy.components.turn_queues import describe_letters, queue_url
from deploy.settings import Settings
from producers.jobs import published_prefix
from producers.queue.acceptance import QueueIntake
from producers.queue.dead_letters import DeadLetters
from producers.service.memory import MemoryFacade
from store import identity
from store.database import Database
from store.tenancy.keys import Grant
from store.tenancy.tenants import ensure_host
from workers.turn_queue import TurnQueueBroker, build_queue_worker, register_queue_actors

QUEUE_DEAD_LETTERS = Gauge(
    "afterturn_queue_dead_letters",
    "Dead letters of all turn queues, until they are settled",
    multiprocess_mode="livemax",
)
log = structlog.get_logger(__name__)

#: Pause between two prunings of the dead letters, and between two counts of them, in seconds.
PRUNE_S = 3600.0
COUNT_S = 15.0


def build_queue_grant(settings: Settings, queue: str, tenant: str) -> Grant:
    """Return the rights of a queue's messages: those of a key of its tenant; no such key exists.

    They reach the private banks of users and agents where `queue.private_banks` names the queue.
    """
    name = uuid5(NAMESPACE_URL, f"afterturn:queue:{queue}")
    private = queue in settings.queue.private_banks
    return Grant(name, identity.host_id(tenant), banks=None, write=True, private_banks=private)


def open_letters(settings: Settings, broker: TurnQueueBroker) -> DeadLetters:
    """Return the dead letters of a queue."""
    return describe_letters(settings, broker.client, broker.namespace)


def open_queue(settings: Settings, queue: str) -> TurnQueueBroker:
    """Return the broker of a queue, not connected yet."""
    prefix = published_prefix(settings.broker.namespace, queue)
    takeover_s, largest = settings.queue.takeover_seconds, settings.api.max_request_bytes
    return TurnQueueBroker(queue_url(settings), prefix, takeover_s, largest)


async def prune_letters(settings: Settings) -> None:
    """Prune the dead letters of every queue now and hourly, until cancelled; a failure is retried an hour later."""
    letters = [open_letters(settings, open_queue(settings, queue)) for queue in settings.queue.tenants]
    while letters:
        for some in letters:
            try:
                await asyncio.to_thread(some.prune, time.time_ns() // 1_000_000)
            except redis.RedisError as error:
                log.warning("dead_letters_not_pruned", error=type(error).__name__)
        await asyncio.sleep(PRUNE_S)


async def count_letters(settings: Settings) -> None:
    """Count the dead letters of every queue for the metrics, until cancelled; a failure leaves the last count."""
    letters = [open_letters(settings, open_queue(settings, queue)) for queue in settings.queue.tenants]
    while letters:
        with suppress(redis.RedisError):
            QUEUE_DEAD_LETTERS.set(sum([await asyncio.to_thread(some.count) for some in letters]))
        await asyncio.sleep(COUNT_S)


def build_queue_workers(settings: Settings, memory: MemoryFacade, database: Database) -> Sequence[dramatiq.Worker]:
    """Return an unstarted worker for each queue of the settings."""
    return [
        _build_worker(settings, memory, database, queue, tenant) for queue, tenant in settings.queue.tenants.items()
    ]


def _build_worker(
    settings: Settings, memory: MemoryFacade, database: Database, queue: str, tenant: str
) -> dramatiq.Worker:
    broker = open_queue(settings, queue)
    grant = build_queue_grant(settings, queue, tenant)
    ensure = partial(ensure_host, database, tenant)
    intake = QueueIntake(memory, grant, settings.api.max_request_bytes, settings.queue.max_attempts, ensure)
    register_queue_actors(broker, intake.accept, open_letters(settings, broker))
    return build_queue_worker(broker, settings.queue.threads)
