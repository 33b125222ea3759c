"""Consumers of a broker that is away or refuses writes: one log line when they stop, one when they go on.

dramatiq logs each attempt of each consumer as critical, several a second. `is_news` keeps these lines out of the log;
the gauge `afterturn_consumers_stopped` shows the state.
"""

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.errors import ConnectionClosed

from producers.notifications import FAULTS, name_fault
from workers.metrics import CONSUMERS_STOPPED

log = structlog.get_logger(__name__)

#: First words of what dramatiq logs at every attempt, by the name of its loggers.
REPEATED = {
    "dramatiq.worker.ConsumerThread": (
        "Consumer encountered a connection error",
        "Restarting consumer in",
        "Failed to post_process_message",
    )
}


def is_news(record: logging.LogRecord) -> bool:
    """Return False for a line that dramatiq logs at every attempt at a broker that is away; for a handler of logs."""
    found = (lines for name, lines in REPEATED.items() if record.name.startswith(name))
    return not any(str(record.msg).startswith(line) for lines in found for line in lines)


@dataclass(slots=True)
class ConsumerFaults:
    """Which consumers of one broker have stopped; `of`: what the broker carries, for the gauge and the log."""

    of: str
    _stopped: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, queue: str, error: BaseException) -> None:
        """Note that the consumer of a queue stopped."""
        with self._lock:
            if not self._stopped:
                log.error("consumers_stopped", of=self.of, error=name_fault(error))
                CONSUMERS_STOPPED.labels(self.of).inc()
            self._stopped.add(queue)

    def end(self, queue: str) -> None:
        """Note that the consumer of a queue works."""
        if queue not in self._stopped:
            return
        with self._lock:
            self._stopped.discard(queue)
            if not self._stopped:
                log.info("consumers_work", of=self.of)
                CONSUMERS_STOPPED.labels(self.of).dec()


class WatchedConsumer(Consumer):
    """A consumer whose errors of the broker are noted, and raised as ConnectionClosed: dramatiq then tries again."""

    def __init__(self, inner: Consumer, queue: str, faults: ConsumerFaults) -> None:
        self._inner, self._queue, self._faults = inner, queue, faults

    def __next__(self) -> MessageProxy | None:
        with self._noting():
            message: MessageProxy | None = next(self._inner)
        self._faults.end(self._queue)
        return message

    def ack(self, message: MessageProxy) -> None:
        """Acknowledge a message."""
        with self._noting():
            self._inner.ack(message)

    def nack(self, message: MessageProxy) -> None:
        """Put a message back."""
        with self._noting():
            self._inner.nack(message)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Put messages back that were not begun."""
        with self._noting():
            self._inner.requeue(messages)

    def close(self) -> None:
        """Close the consumer."""
        self._inner.close()

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except FAULTS as error:
            cause = error.args[0] if isinstance(error, ConnectionClosed) and error.args else error
            self._faults.begin(self._queue, cause if isinstance(cause, BaseException) else error)
            raise ConnectionClosed(cause) from None  # type: ignore[no-untyped-call]  # dramatiq leaves it without annotations
