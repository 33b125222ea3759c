"""Hearing of messages as they are enqueued: who has nothing to do waits for the bell, not for the clock.

Left alone, dramatiq looks into every queue many times a second, and each of its threads wakes as often to see that
there is nothing. Here whoever enqueues tells a channel which queues have something. What is not heard (Redis was away,
a message was put back) is found by a look now and then.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import dramatiq
import redis
import structlog
from dramatiq.brokers.redis import RedisBroker, _RedisConsumer

from producers.jobs import bell_channel

log = structlog.get_logger(__name__)

#: Nobody rang: looked all the same, so often.
LOOK_S = 1.0
#: Nobody listens any more: until the end is looked for again.
ENDING_S = 0.02
#: Between two looks whether to listen on.
HEAR_S = 0.5
#: After Redis could not be listened to.
DEAF_S = 0.5


class Ear:
    """Listens on a thread of its own once it is started; until then, and when it cannot hear, waits take their time."""

    def __init__(self, client: redis.Redis, channel: str) -> None:
        self._client, self._channel = client, channel
        self._rung: dict[str, threading.Event] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to listen."""
        self._thread = threading.Thread(target=self._listen, name="ear", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no more, and let nobody wait."""
        self._stopped.set()
        self._all_may_have_rung()

    def close(self) -> None:
        """Stop, and let the connection go."""
        self.stop()
        if self._thread is not None:
            self._thread.join(2 * HEAR_S)

    def wait(self, queue: str, seconds: float) -> None:
        """Return when a queue was rung for since the last time, or after so many seconds."""
        # Known before it is asked whether all is stopped: who stops wakes all that are known.
        rung = self._bell_of(queue)
        if self._stopped.is_set():
            time.sleep(ENDING_S)
            return
        rung.wait(seconds)
        rung.clear()

    def stir(self, queue: str) -> None:
        """Have whoever waits for a queue look at it now."""
        self._bell_of(queue).set()

    def _bell_of(self, queue: str) -> threading.Event:
        """Return the one bell of a queue, whoever asks first; before anybody waited for it, it may have rung."""
        if (known := self._rung.get(queue)) is not None:
            return known
        new = threading.Event()
        new.set()
        return self._rung.setdefault(queue, new)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                with self._client.pubsub() as bell:  # type: ignore[no-untyped-call]  # redis leaves it without
                    bell.subscribe(self._channel)
                    self._hear(bell.get_message)
            except (redis.RedisError, OSError) as error:
                log.warning("the bell cannot be heard", error=type(error).__name__)
                self._stopped.wait(DEAF_S)

    def _all_may_have_rung(self) -> None:
        for rung in list(self._rung.values()):
            rung.set()

    def _hear(self, next_message: Callable[..., Any]) -> None:
        while not self._stopped.is_set():
            message = next_message(timeout=HEAR_S)
            if message is None:
                continue
            if message["type"] == "subscribe":
                # Only now is heard whoever rings; who rang since it was asked for was not.
                self._all_may_have_rung()
            elif message["type"] == "message":
                for queue in bytes(message["data"]).decode().split():
                    self.stir(queue)


class _Listening(_RedisConsumer):
    """A consumer that waits for the bell when its queue is empty, or every thread has its hands full."""

    def __next__(self) -> Any:
        found = super().__next__()  # type: ignore[no-untyped-call]  # dramatiq leaves it without annotations
        if found is None:
            self.broker.ear.wait(self.queue_name, self.broker.look_s)
        return found

    def ack(self, message: Any) -> None:
        """Look again: whoever is through with a message has a hand free."""
        try:
            super().ack(message)  # type: ignore[no-untyped-call]  # dramatiq leaves it without annotations
        finally:
            self.broker.ear.stir(self.queue_name)

    def nack(self, message: Any) -> None:
        """Look again, as after `ack`."""
        try:
            super().nack(message)  # type: ignore[no-untyped-call]  # dramatiq leaves it without annotations
        finally:
            self.broker.ear.stir(self.queue_name)


class ListeningBroker(RedisBroker):
    """A broker whose consumers hear of what is enqueued; start its `ear` before they begin."""

    def __init__(self, *, look_s: float = LOOK_S, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]  # dramatiq leaves it without annotations
        self.look_s = look_s
        self.ear = Ear(self.client, bell_channel(self.namespace))

    @property
    def consumer_class(self) -> type[dramatiq.Consumer]:
        """Which consumer is made for a queue."""
        return _Listening

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 0) -> dramatiq.Consumer:  # noqa: ARG002 - dramatiq's own pause, which the bell replaces
        """Return a consumer of a queue that never sleeps but by the bell."""
        return super().consume(queue_name, prefetch, 0)
