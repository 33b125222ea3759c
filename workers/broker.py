"""dramatiq on Redis or Valkey for notifications: the ledger, never a message, decides what there is to do.

Nothing is made at import. Messages carry ids alone, are not retried by the queue (the ledger retries) and are never
delayed; work whose message is lost waits for the next sweep.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import dramatiq
import redis
from dramatiq.asyncio import async_to_sync
from dramatiq.broker import Consumer
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import q_name
from dramatiq.middleware import TimeLimit

from producers.jobs import QUEUES, RECALL_ACTOR, STAGE_ACTORS
from producers.settings import BrokerSettings
from store.ledger.stages import Queue, Stage, count_threads
from workers.consumer_faults import ConsumerFaults, WatchedConsumer
from workers.metrics import NOTIFICATION_DELAY
from workers.recall import RecallWork
from workers.runner import Runner
from workers.settings import WorkerSettings

#: Number of commands in a million that also take over messages of dead processes: soon enough, and cheap here.
MAINTENANCE_CHANCE = 50_000
#: Milliseconds without a heartbeat after which dramatiq takes a process for dead: longer than any call that blocks it.
HEARTBEAT_MS = 60_000
#: Heartbeats of a process in that time.
BEATS = 4
#: How long dramatiq keeps failed messages, in milliseconds: short, since the ledger has all that matters of them.
DEAD_MESSAGE_MS = 3_600_000
#: dramatiq interrupts an actor that runs longer than this, in milliseconds; every call has its own, shorter limit.
TIME_LIMIT_MS = 600_000
#: The longest pause between two looks into an empty queue, in milliseconds: a caller waits for a
#: recall job; no caller waits for a stage.
POLL_RECALL_MS, POLL_STAGE_MS = 50, 200
CONNECT_S = 2.0
ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class ActorDependencies:
    """Dependencies of the actors; all belong to dramatiq's event loop. `acknowledge` deletes a notification flag."""

    runners: Mapping[Stage, Runner]
    recall: RecallWork
    acknowledge: Callable[[Stage | UUID], None]


@dataclass(frozen=True, slots=True)
class ThreadPool:
    """A number of threads for one queue, so that slow work of other queues does not delay it."""

    queue: Queue
    threads: int


class DelayMeter(dramatiq.Middleware):
    """Middleware that measures the time from a notification's sending to its arrival, in seconds."""

    def before_process_message(self, broker: dramatiq.Broker, message: "dramatiq.MessageProxy") -> None:
        """Observe the delay of one message; zero where clocks that differ would make it negative."""
        del broker
        late_s = time.time() - message.message_timestamp / 1000
        NOTIFICATION_DELAY.labels(message.queue_name).observe(max(0.0, late_s))


class NothingDelayed(Consumer):
    """An empty consumer for dramatiq's queue of delayed messages, where messages are never delayed.

    It writes the heartbeats of its process: dramatiq's consumer of a queue writes none while all threads are busy, and
    other processes would then take over the messages of this one.
    """

    def __init__(self, broker: RedisBroker, queue_name: str, pause_s: float) -> None:
        """Keep the pause between two looks at whether to stop, in seconds."""
        self._broker, self._queue_name, self._pause_s = broker, queue_name, pause_s
        self._beat_s = broker.heartbeat_timeout / 1000 / BEATS
        self._beaten = time.monotonic()

    def __next__(self) -> None:
        """Wait for the pause; there is no message."""
        if time.monotonic() - self._beaten >= self._beat_s:
            self._broker.do_fetch(self._queue_name, 0)
            self._beaten = time.monotonic()
        time.sleep(self._pause_s)


class NotificationBroker(RedisBroker):
    """dramatiq's broker without looks at its queues of delayed messages; `faults` notes which consumers stopped."""

    # An idle worker takes 6.8 % of a core with these looks, and 4.8 % without.

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]  # dramatiq leaves it without annotations
        self.faults = ConsumerFaults("notifications")

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        """Return a consumer of a queue; `timeout` is its longest pause between two looks, in milliseconds."""
        if q_name(queue_name) != queue_name:
            made: Consumer = NothingDelayed(self, queue_name, timeout / 1000)
        else:
            made = super().consume(queue_name, prefetch, timeout)
        return WatchedConsumer(made, queue_name, self.faults)


def create_broker(settings: BrokerSettings) -> NotificationBroker:
    """Return a broker that is not connected yet; its client times out within seconds and raises."""
    client = redis.Redis.from_url(
        settings.url.get_secret_value(),
        socket_connect_timeout=CONNECT_S,
        socket_timeout=ANSWER_S,
        health_check_interval=15,
    )
    return NotificationBroker(
        client=client,
        namespace=settings.namespace,
        middleware=[TimeLimit(time_limit=TIME_LIMIT_MS), DelayMeter()],
        maintenance_chance=MAINTENANCE_CHANCE,
        heartbeat_timeout=HEARTBEAT_MS,
        dead_message_ttl=DEAD_MESSAGE_MS,
    )


def register_actors(broker: RedisBroker, dependencies: ActorDependencies) -> Mapping[str, "dramatiq.Actor[..., None]"]:
    """Register the actors of all queues and return them by name. The actors never raise."""
    actors = [_stage_actor(broker, dependencies, stage) for stage in dependencies.runners]
    actors.append(_recall_actor(broker, dependencies))
    return {actor.actor_name: actor for actor in actors}


def build_pools(settings: WorkerSettings) -> tuple[ThreadPool, ...]:
    """Return one thread pool for each queue that the process serves by `settings.stages`.

    `settings.threads` is the size of the pool for recall jobs, which are answered one per thread.
    """
    queues = {QUEUES[one] if isinstance(one, Stage) else Queue.RECALL for one in settings.stages}
    return tuple(
        ThreadPool(queue, settings.threads if queue is Queue.RECALL else count_threads(queue))
        for queue in Queue
        if queue in queues
    )


def build_worker(broker: RedisBroker, pool: ThreadPool) -> dramatiq.Worker:
    """Return a worker for one pool, not started; it fetches no message that it has no thread for."""
    poll_ms = POLL_RECALL_MS if pool.queue is Queue.RECALL else POLL_STAGE_MS
    made = dramatiq.Worker(broker, queues={pool.queue.value}, worker_timeout=poll_ms, worker_threads=pool.threads)
    made.queue_prefetch = made.delay_prefetch = pool.threads
    return made


def _stage_actor(broker: RedisBroker, dependencies: ActorDependencies, stage: Stage) -> "dramatiq.Actor[..., None]":
    drain = async_to_sync(dependencies.runners[stage].drain)

    def work() -> None:
        # The flag first: a commit after this notifies again, a commit before it is seen by the claim.
        dependencies.acknowledge(stage)
        drain()

    return dramatiq.actor(broker=broker, actor_name=STAGE_ACTORS[stage], queue_name=QUEUES[stage])(work)


def _recall_actor(broker: RedisBroker, dependencies: ActorDependencies) -> "dramatiq.Actor[..., None]":
    answer = async_to_sync(dependencies.recall.answer)

    def recall(host: str, job: str) -> None:
        dependencies.acknowledge(UUID(job))
        answer(UUID(host), UUID(job))

    return dramatiq.actor(broker=broker, actor_name=RECALL_ACTOR, queue_name=Queue.RECALL)(recall)
