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
from typing import Any, Self

import dramatiq
import redis
from dramatiq.asyncio import async_to_sync
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import q_name
from dramatiq.errors import Retry
from dramatiq.middleware import Middleware, TimeLimit

from producers.errors import TooLarge
from producers.jobs import PUBLISHED
from producers.queue.acceptance import Rejection, TryAgain, reject
from producers.queue.dead_letters import DeadLetters
from workers.broker import NothingDelayed
from workers.consumer_faults import ConsumerFaults, WatchedConsumer
from workers.turn_queue_scripts import ACKNOWLEDGE, FETCH, FIND_UNLISTED, PUT_BACK

#: Seconds between two looks into an empty queue, and between two heartbeats.
LOOK_S, HEARTBEAT_S = 0.2, 1.0
#: The pause before the second attempt, doubled by each further one, and the longest pause, in milliseconds.
BACK_OFF_MS, MOST_BACK_OFF_MS = 500, 60_000
#: The most ids that one fetch looks at, and the most messages whose pause is over that it puts back into the queue.
MOST_IDS = 1000
#: The bytes of bodies that a process holds of one queue; a larger message is held alone.
HELD_BYTES = 8 * 1024 * 1024
#: The longest id of a message, in bytes.
LONGEST_ID = 256
TIME_LIMIT_MS = 600_000
CONNECT_S, ANSWER_S = 2.0, 5.0
#: Probability, in millionths, that dramatiq looks for messages of dead consumers at a heartbeat: always.
ALWAYS = 1_000_000

#: The option of a failed message that says whether its failure counts.
COUNTS = "counts"

Accept = Callable[[bytes, int], Awaitable[Rejection | None]]


class TurnMessageBody(bytes):
    """A message's body, of which dramatiq's logs show the size alone; empty where it is too large to be held.

    `size`: of the body on the server, in bytes.
    """

    size: int

    def __new__(cls, body: bytes, size: int) -> Self:
        """Return the body with its size on the server."""
        made = super().__new__(cls, body)
        made.size = size
        return made

    def __repr__(self) -> str:
        return f"<{self.size} bytes>"

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
        self._show_life()
        self._recover()
        looked = 0
        if not self._fetched:
            looked, self._fetched = self._fetch(self._most - len(self._handed_out))
        if not self._fetched:
            if looked < MOST_IDS:  # else there may be more
                self._thread_free.wait(LOOK_S)
                self._thread_free.clear()
            return None
        message = self._fetched.pop(0)
        self._handed_out[_id_of(message)] = len(message.args[0])
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
            self._broker.do_requeue(self._queue, *ids)
            for one in ids:
                self._handed_out.pop(one, None)

    def _fetch(self, most: int) -> tuple[int, list[MessageProxy]]:
        """Return how many ids were looked at, and the messages found, with as many bytes as may be held."""
        room, largest = self._broker.held_bytes - sum(self._handed_out.values()), self._broker.largest
        if most <= 0 or room <= 0:
            return 0, []
        looked, found = self._broker.fetch(keys=self._keys, args=[_now_ms(), MOST_IDS, most, room, largest, LONGEST_ID])
        return looked, [self._read(name, body, *map(int, numbers)) for name, body, *numbers in found]

    def _read(self, name: bytes, body: bytes, size: int, put_back: int, failures: int) -> MessageProxy:
        arguments = (TurnMessageBody(body, size), put_back, name, failures)
        message: dramatiq.Message[None] = dramatiq.Message(self._queue, PUBLISHED[self._queue], arguments, {}, {})
        return MessageProxy(message)

    def _show_life(self) -> None:
        """Write a heartbeat every second, take over the messages of dead processes, and find those without a place."""
        if time.monotonic() - self._alive >= HEARTBEAT_S:
            self._broker.find_unlisted(keys=self._keys, args=[self._broker.namespace, self._queue, MOST_IDS])
            self._broker.do_fetch(self._queue, 0)
            self._alive = time.monotonic()

    def _recover(self) -> None:
        """Put back, once, messages that the server counts as in work here and that this process does not have.

        That happens when the answer to a fetch was lost, or the server lost its last second of writes. dramatiq makes
        a new consumer after each fault of the connection.
        """
        if not self._recovered:
            known = set(self._broker.client.smembers(self._in_work))
            if stranded := known - self._handed_out.keys():
                self._broker.do_requeue(self._queue, *stranded)
            self._recovered = True

    def _end(self, script: Any, message: MessageProxy, *more: int) -> None:
        script(keys=self._keys, args=[_id_of(message), *more])
        self._handed_out.pop(_id_of(message), None)
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
    """The broker of one tenant's queue; not connected before it is used.

    `takeover_s`: seconds without a heartbeat after which others take over; `largest`: the bytes of the largest message.
    """

    def __init__(self, url: str, prefix: str, takeover_s: float, largest: int) -> None:
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
        #: The bytes of each message that threads of this process have, by queue; kept when a consumer is replaced.
        self.handed_out: defaultdict[str, dict[bytes, int]] = defaultdict(dict)
        self._faults = ConsumerFaults("turn queues")
        self.largest, self.held_bytes = largest, max(largest, HELD_BYTES)
        self.fetch, self.acknowledge = client.register_script(FETCH), client.register_script(ACKNOWLEDGE)
        self.put_back, self.find_unlisted = client.register_script(PUT_BACK), client.register_script(FIND_UNLISTED)

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        """Return a consumer of a queue that fetches at most `prefetch` messages ahead."""
        del timeout
        if q_name(queue_name) != queue_name:
            made: Consumer = NothingDelayed(self, queue_name, HEARTBEAT_S)  # retries wait in `later`
        else:
            made = TurnConsumer(self, queue_name, prefetch)
        return WatchedConsumer(made, queue_name, self._faults)


def register_queue_actors(broker: TurnQueueBroker, accept: Accept, letters: DeadLetters) -> None:
    """Register the actors `accept_turn` and `answer_recall` of one tenant's queue."""
    for queue, actor in PUBLISHED.items():
        dramatiq.actor(broker=broker, actor_name=actor, queue_name=queue)(
            _create_actor(queue, accept, letters, broker.largest)
        )


def _create_actor(
    queue: str, accept: Accept, letters: DeadLetters, largest: int
) -> Callable[[TurnMessageBody, int, bytes, int], None]:
    run = async_to_sync(accept)

    def take(body: TurnMessageBody, put_back: int, name: bytes, failures: int) -> None:
        try:
            if body.size > largest:
                rejection: Rejection | None = reject(TooLarge("message", "max_request_bytes", largest))
            else:
                rejection = run(bytes(body), failures)
        except TryAgain as again:
            raise _CountedRetry if again.counts else Retry from None  # the one error that dramatiq does not log
        if rejection is not None:
            known, cut = name.decode(errors="backslashreplace"), body.size if body.size > largest else None
            letters.put(known, queue, body, put_back + 1, rejection, size=cut)

    return take


def build_queue_worker(broker: TurnQueueBroker, threads: int) -> dramatiq.Worker:
    """Return a worker for both queues of a tenant, not started."""
    made = dramatiq.Worker(broker, queues={*PUBLISHED}, worker_timeout=500, worker_threads=threads)
    # One more for each thread, so that its next message is there when it has finished one.
    made.queue_prefetch = 2 * threads
    return made


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
