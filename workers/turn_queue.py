"""Turn queues: consumes agents' messages with dramatiq; options in messages are ignored.

Each tenant's queue has a broker and a namespace of its own. dramatiq provides the threads, the heartbeats and the
takeover of a dead process's messages; publishers write its layout (a list of ids, a hash of bodies, a set of ids in
work). Reading, putting back and acknowledging are implemented here, because bodies come from outside: the queue, the
actor and the id of a message are those under which it was found, not those it names, and a message is put back in one
step, so that a server killed in between loses nothing.

    <prefix>:<queue>            a list of message ids
    <prefix>:<queue>.msgs       a hash: id -> body
    <prefix>:<queue>.later      a sorted set: ids that are tried again, by when (epoch milliseconds)
    <prefix>:<queue>.attempts   a hash: id -> how often it was put back
    <prefix>:<queue>.failures   a hash: id -> its failures that count
"""

import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import dramatiq
import redis
from dramatiq.asyncio import async_to_sync
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import q_name
from dramatiq.errors import Retry
from dramatiq.middleware import Middleware, TimeLimit

from producers.jobs import PUBLISHED
from producers.queue.acceptance import Rejection, TryAgain
from producers.queue.dead_letters import DeadLetters
from workers.broker import NothingDelayed, connection_errors

#: Seconds between two looks into an empty queue, and between two heartbeats.
LOOK_S, HEARTBEAT_S = 0.2, 1.0
#: The pause before the second attempt, doubled by each further one, and the longest pause, in milliseconds.
BACK_OFF_MS, MOST_BACK_OFF_MS = 500, 60_000
#: The most messages whose pause is over that one fetch puts back into the queue.
MOST_DUE = 1000
TIME_LIMIT_MS = 600_000
CONNECT_S, ANSWER_S = 2.0, 5.0
#: Probability, in millionths, that dramatiq looks for messages of dead consumers at a heartbeat: always.
ALWAYS = 1_000_000

#: The option of a failed message that says whether its failure counts.
COUNTS = "counts"

#: KEYS: list, bodies, in work, later, attempts, failures; ARGV: now, the most that are due, how many. Answers id, body,
#: how often it was put back, how many failures count.
FETCH = """
local due = redis.call('zrangebyscore', KEYS[4], '-inf', ARGV[1], 'limit', 0, ARGV[2])
for _, id in ipairs(due) do
    redis.call('zrem', KEYS[4], id)
    redis.call('rpush', KEYS[1], id)
end
local found = {}
for _ = 1, ARGV[3] do
    local id = redis.call('lpop', KEYS[1])
    if not id then break end
    local body = redis.call('hget', KEYS[2], id)
    if body then
        redis.call('sadd', KEYS[3], id)
        local attempts, failures = redis.call('hget', KEYS[5], id), redis.call('hget', KEYS[6], id)
        table.insert(found, {id, body, attempts or '0', failures or '0'})
    end
end
return found
"""
#: KEYS as above; ARGV: id. A message that another consumer took over is left alone.
ACKNOWLEDGE = """
if redis.call('srem', KEYS[3], ARGV[1]) > 0 then
    redis.call('hdel', KEYS[2], ARGV[1])
    redis.call('hdel', KEYS[5], ARGV[1])
    redis.call('hdel', KEYS[6], ARGV[1])
end
"""
#: KEYS as above; ARGV: id, when it is due, 1 for a failure that counts, else 0.
PUT_BACK = """
if redis.call('srem', KEYS[3], ARGV[1]) > 0 then
    redis.call('hincrby', KEYS[5], ARGV[1], 1)
    if ARGV[3] == '1' then redis.call('hincrby', KEYS[6], ARGV[1], 1) end
    redis.call('zadd', KEYS[4], ARGV[2], ARGV[1])
end
"""

Accept = Callable[[bytes, int], Awaitable[Rejection | None]]


class TurnMessageBody(bytes):
    """A message's body, of which dramatiq's logs show the size alone."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"

    __str__ = __repr__


class TurnConsumer(Consumer):
    """The consumer of one queue; logs hold a message's place in the queue, never its text."""

    def __init__(self, broker: "TurnQueueBroker", queue: str, most: int) -> None:
        self._broker, self._queue, self._most = broker, queue, most
        prefix = f"{broker.namespace}:{queue}"
        self._in_work = f"{broker.namespace}:__acks__.{broker.broker_id}.{queue}"
        counts = f"{prefix}.attempts", f"{prefix}.failures"
        self._keys = [prefix, f"{prefix}.msgs", self._in_work, f"{prefix}.later", *counts]
        self._fetched: list[MessageProxy] = []
        self._handed_out = broker.handed_out[queue]
        self._thread_free = threading.Event()
        self._recovered = False
        self._alive = 0.0

    def __next__(self) -> MessageProxy | None:
        """Return the next message; None after `LOOK_S` where there is none, or no free thread for it."""
        with connection_errors():
            self._show_life()
            self._recover()
            if not self._fetched:
                self._fetched = self._fetch(self._most - len(self._handed_out))
        if not self._fetched:
            self._thread_free.wait(LOOK_S)
            self._thread_free.clear()
            return None
        message = self._fetched.pop(0)
        self._handed_out.add(_id_of(message))
        return message

    def ack(self, message: MessageProxy) -> None:
        """Take a message out of the queue for good."""
        self._end(self._broker.acknowledge, message)

    def nack(self, message: MessageProxy) -> None:
        """Put a message back, to be tried again after a pause that grows each time."""
        pause = min(BACK_OFF_MS * 2 ** min(message.args[1], 16), MOST_BACK_OFF_MS)
        self._end(self._broker.put_back, message, _now_ms() + pause, int(message.options.get(COUNTS, False)))

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Put fetched messages that were not begun back into the queue."""
        ids = [_id_of(message) for message in (*messages, *self._fetched)]
        self._fetched = []
        if ids:
            with connection_errors():
                self._broker.do_requeue(self._queue, *ids)
            self._handed_out.difference_update(ids)

    def _fetch(self, most: int) -> list[MessageProxy]:
        if most <= 0:
            return []
        found = self._broker.fetch(keys=self._keys, args=[_now_ms(), MOST_DUE, most])
        return [self._read(name, body, int(put_back), int(failures)) for name, body, put_back, failures in found]

    def _read(self, name: bytes, body: bytes, put_back: int, failures: int) -> MessageProxy:
        arguments = (TurnMessageBody(body), put_back, name, failures)
        message: dramatiq.Message[None] = dramatiq.Message(self._queue, PUBLISHED[self._queue], arguments, {}, {})
        return MessageProxy(message)

    def _show_life(self) -> None:
        """Write a heartbeat every second, and take over the messages of dead processes."""
        if time.monotonic() - self._alive >= HEARTBEAT_S:
            self._broker.do_fetch(self._queue, 0)
            self._alive = time.monotonic()

    def _recover(self) -> None:
        """Put back, once, messages that the server counts as in work here and that this process does not have.

        That happens when the answer to a fetch was lost, or the server lost its last second of writes. dramatiq makes
        a new consumer after each fault of the connection.
        """
        if not self._recovered:
            known = set(self._broker.client.smembers(self._in_work))
            if stranded := known - self._handed_out:
                self._broker.do_requeue(self._queue, *stranded)
            self._recovered = True

    def _end(self, script: Any, message: MessageProxy, *more: int) -> None:
        with connection_errors():
            script(keys=self._keys, args=[_id_of(message), *more])
        self._handed_out.discard(_id_of(message))
        self._thread_free.set()


def _id_of(message: MessageProxy) -> bytes:
    """Return the id under which a message was found: bytes of any kind."""
    return bytes(message.args[2])


class _CountedRetry(Retry):
    """A retry after a failure that uses up an attempt."""


class _PutBackFailed(Middleware):
    """Middleware that has a message put back when its actor raised; dramatiq acknowledges the others."""

    def after_process_message(
        self, broker: Any, message: MessageProxy, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        del broker, result
        if exception is not None:
            message.fail()
            message.options[COUNTS] = isinstance(exception, _CountedRetry)


class TurnQueueBroker(RedisBroker):
    """The broker of one tenant's queue; not connected before it is used."""

    def __init__(self, url: str, prefix: str, takeover_s: float) -> None:
        client = redis.Redis.from_url(
            url, socket_connect_timeout=CONNECT_S, socket_timeout=ANSWER_S, health_check_interval=15
        )
        super().__init__(  # type: ignore[no-untyped-call]  # dramatiq leaves it without annotations
            client=client,
            namespace=prefix,
            middleware=[TimeLimit(time_limit=TIME_LIMIT_MS), _PutBackFailed()],
            maintenance_chance=ALWAYS,
            heartbeat_timeout=round(takeover_s * 1000),
        )
        #: Ids of the messages that threads of this process have, by queue; kept when a consumer is replaced.
        self.handed_out: defaultdict[str, set[bytes]] = defaultdict(set)
        self.fetch, self.acknowledge, self.put_back = map(client.register_script, (FETCH, ACKNOWLEDGE, PUT_BACK))

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        """Return a consumer of a queue that fetches at most `prefetch` messages ahead."""
        del timeout
        if q_name(queue_name) != queue_name:
            return NothingDelayed(self, queue_name, HEARTBEAT_S)  # retries wait in `later`
        return TurnConsumer(self, queue_name, prefetch)


def register_queue_actors(broker: TurnQueueBroker, accept: Accept, letters: DeadLetters) -> None:
    """Register the actors `accept_turn` and `answer_recall` of one tenant's queue."""
    for queue, actor in PUBLISHED.items():
        dramatiq.actor(broker=broker, actor_name=actor, queue_name=queue)(_create_actor(queue, accept, letters))


def _create_actor(queue: str, accept: Accept, letters: DeadLetters) -> Callable[[bytes, int, bytes, int], None]:
    run = async_to_sync(accept)

    def take(body: bytes, put_back: int, name: bytes, failures: int) -> None:
        try:
            rejection = run(bytes(body), failures)
        except TryAgain as again:
            raise _CountedRetry if again.counts else Retry from None  # the one error that dramatiq does not log
        if rejection is not None:
            letters.put(name.decode(errors="backslashreplace"), queue, body, put_back + 1, rejection)

    return take


def build_queue_worker(broker: TurnQueueBroker, threads: int) -> dramatiq.Worker:
    """Return a worker for both queues of a tenant, not started."""
    made = dramatiq.Worker(broker, queues={*PUBLISHED}, worker_timeout=500, worker_threads=threads)
    # One more for each thread, so that its next message is there when it has finished one.
    made.queue_prefetch = 2 * threads
    return made


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
