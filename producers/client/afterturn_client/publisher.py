"""Turns for agents that publish rather than call: `TurnPublisher` blocks, `AsyncTurnPublisher` awaits.

Needs `afterturn-client[queue]`. The service reads the queue when it can; the agent needs its queue's server alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.exceptions import AuthenticationError, NoPermissionError, OutOfMemoryError, RedisError, ResponseError

from afterturn_client.arguments import check_text
from afterturn_client.calls import RecallOptions, recall_body
from afterturn_client.closing import AsyncClosing, Closing
from afterturn_client.envelopes import RECALL, TURN, TURN_ITEMS, QueueMessage, wrap_event
from afterturn_client.errors import InvalidRequestError, QueueFullError, QueueRefusedError, UnknownOutcomeError
from afterturn_client.lifecycle import AfterTurnOptions, Item, after_turn_body
from afterturn_client.turns import Messages, NewTurn, TurnOptions, turn_body
from afterturn_client.unanswered_checks import check_items_body, check_question_body, check_turn_body

C = TypeVar("C", redis.Redis, redis.asyncio.Redis)

#: Most messages of a transaction, whose bodies are in memory together.
MOST_TOGETHER = 100
#: Longest wait for the server's disk, in milliseconds; an append-only file is written at least every second.
DISK_MS = 5000
NOT_ON_DISK = "the queue holds it, and its server's disk may not yet: publish again under the same turn_id"


@dataclass(frozen=True, slots=True)
class _Queue:
    """A queue to publish to: its keys, how many messages may wait, and whether to wait for the server's disk."""

    prefix: str
    limit: int
    durable: bool
    source: str
    bank: str

    def commands(self, messages: Sequence[QueueMessage]) -> Iterator[tuple[str | bytes, ...]]:
        """Yield the commands that publish messages, all or none: each body under its id, the id at the list's end.

        The wait for the disk is on the connection that wrote, because WAITAOF covers that connection's writes.
        """
        yield ("MULTI",)
        for one in messages:
            key = f"{self.prefix}:{one.queue}"
            yield "HSET", f"{key}.msgs", one.message_id, one.body
            yield "RPUSH", key, one.message_id
        yield ("EXEC",)
        if self.durable:
            yield "WAITAOF", "1", "0", str(DISK_MS)

    def check_answers(self, answers: Sequence[Any]) -> None:
        """Raise UnknownOutcomeError where the messages were not on the server's own disk in time."""
        if self.durable and not answers[-1][0]:
            raise UnknownOutcomeError(NOT_ON_DISK)

    def wrap(self, turns: Sequence[NewTurn]) -> list[QueueMessage]:
        bodies = [turn_body(turn, self.bank) for turn in turns]
        for body in bodies:
            check_turn_body(body)
        return [wrap_event(TURN, body, self.source) for body in bodies]

    def wrap_items(
        self, session_id: str, turn_id: str, given: tuple[Sequence[Item], Sequence[Item]], options: AfterTurnOptions
    ) -> QueueMessage:
        body = {"bank": self.bank, **after_turn_body(session_id, turn_id, given, options)}
        check_items_body(body)
        return wrap_event(TURN_ITEMS, body, self.source)

    def wrap_question(self, query: str, options: RecallOptions, ttl_s: int | None) -> QueueMessage:
        body = {"bank": self.bank, **recall_body(query, options)} | ({} if ttl_s is None else {"ttl_s": ttl_s})
        check_question_body(body)
        return wrap_event(RECALL, body, self.source)

    def check_room(self, length: int, coming: int) -> None:
        """Raise QueueFullError where this many more do not fit."""
        if length + coming > self.limit:
            raise QueueFullError(length, self.limit)


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """Options of a publisher.

    `bank`: for turns that name none; `namespace`: the service's `broker.namespace`; `max_length`: the most messages
    that may wait in one queue; `durable`: return when the server's append-only file has it; `source` of the envelopes.
    """

    bank: str = "default"
    namespace: str = "afterturn"
    max_length: int = 10_000
    durable: bool = True
    source: str = "afterturn-client"
    timeout_s: float = 10.0


def _open_queue(queue: str, options: QueueOptions) -> _Queue:
    prefix = f"{options.namespace}:queue:{queue}"
    return _Queue(prefix, options.max_length, options.durable, options.source, options.bank)


@contextmanager
def _translate_errors(limit: int) -> Iterator[None]:
    """Turn errors of the server or the connection into errors of this package, without the data sent."""
    try:
        yield
    except (NoPermissionError, AuthenticationError) as error:
        refused = f"the queue's user lacks a right ({type(error).__name__}): `afterturn queue acl` prints what it needs"
        raise QueueRefusedError(refused) from None
    except OutOfMemoryError:
        raise QueueFullError(None, limit) from None
    except ResponseError:
        raise QueueRefusedError(
            "the queue's server refused a command: it needs `appendonly yes` and Redis or Valkey 7.2 (or durable=False)"
        ) from None
    except (RedisError, OSError) as error:
        unknown = (
            f"the queue's server did not answer ({type(error).__name__}): is its address right, with rediss:// "
            "where it speaks TLS? Publish again under the same turn_id"
        )
        raise UnknownOutcomeError(unknown) from None


def _open_server(kind: type[C], url: str, options: QueueOptions) -> C:
    """Return a client of the queue's server. Raises InvalidRequestError, which shows no part of the URL."""
    try:
        parts = urlsplit(check_text("url", url))
        if "@" not in parts.path + parts.query + parts.fragment:
            opened: C = kind.from_url(url, socket_timeout=options.timeout_s, socket_connect_timeout=options.timeout_s)
            return opened
    except ValueError:
        pass
    raise InvalidRequestError(
        "url must look like redis[s]://user:password@host:port/0; in a user or password, write / # ? @ : and % "
        "percent-encoded (%2F %23 %3F %40 %3A %25)"
    )


def _split_batches(messages: Sequence[QueueMessage]) -> Iterator[Sequence[QueueMessage]]:
    for at in range(0, len(messages), MOST_TOGETHER):
        yield messages[at : at + MOST_TOGETHER]


@dataclass
class TurnPublisher(Closing):
    """Publishes turns and questions to one tenant's queue, on whose server its user may do nothing else.

    `url` is `redis[s]://user:password@host:port/0`, `queue` the name in the service's `queue.tenants`. A published
    message is on the server's disk; the service accepts it when it reads it, in no promised order. Repeated under its
    `turn_id`, it is the same turn.

    Raises InvalidRequestError for what the service would refuse as far as that can be seen here (nothing was sent);
    QueueFullError, QueueRefusedError; UnknownOutcomeError where it may or may not be in
    the queue: publish it again.
    """

    url: str = field(repr=False)
    queue: str
    options: QueueOptions = field(default_factory=QueueOptions)

    def __post_init__(self) -> None:
        self._queue = _open_queue(self.queue, self.options)
        self._redis = _open_server(redis.Redis, self.url, self.options)

    def add_turn(self, session_id: str, messages: Messages, **options: Unpack[TurnOptions]) -> str:
        """Publish one completed turn; returns its `turn_id`."""
        turn = NewTurn(session_id, messages, **options)
        self.add_turns([turn])
        return turn.turn_id

    def add_turns(self, turns: Sequence[NewTurn]) -> None:
        """Publish turns, a hundred at a time."""
        self._publish(self._queue.wrap(turns))

    def after_turn(
        self,
        session_id: str,
        turn_id: str,
        input_items: Sequence[Item] = (),
        output_items: Sequence[Item] = (),
        **options: Unpack[AfterTurnOptions],
    ) -> None:
        """Publish a completed turn with its items whole, as `Afterturn.after_turn` takes it."""
        self._publish([self._queue.wrap_items(session_id, turn_id, (input_items, output_items), options)])

    def start_recall(self, query: str, *, ttl_s: int | None = None, **options: Unpack[RecallOptions]) -> str:
        """Publish a question; return the id of its job, which `Afterturn.recall_job` reads once it is accepted."""
        message = self._queue.wrap_question(query, options, ttl_s)
        self._publish([message])
        return message.event_id

    def length(self, queue: str = "turns") -> int:
        """Return how many messages of `turns` or `recalls` the service has not accepted yet."""
        with _translate_errors(self._queue.limit):
            return int(self._redis.execute_command("HLEN", f"{self._queue.prefix}:{queue}.msgs"))

    def _publish(self, messages: Sequence[QueueMessage]) -> None:
        for some in _split_batches(messages):
            self._queue.check_room(self.length(some[0].queue), len(some))
            with _translate_errors(self._queue.limit), self._redis.pipeline(transaction=False) as pipeline:
                for command in self._queue.commands(some):
                    pipeline.execute_command(*command)
                self._queue.check_answers(pipeline.execute())

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


@dataclass
class AsyncTurnPublisher(AsyncClosing):
    """`TurnPublisher` with `await`: the same promises and errors. Use it on one event loop, and close it."""

    url: str = field(repr=False)
    queue: str
    options: QueueOptions = field(default_factory=QueueOptions)

    def __post_init__(self) -> None:
        self._queue = _open_queue(self.queue, self.options)
        self._redis = _open_server(redis.asyncio.Redis, self.url, self.options)

    async def add_turn(self, session_id: str, messages: Messages, **options: Unpack[TurnOptions]) -> str:
        """Publish one completed turn; returns its `turn_id`."""
        turn = NewTurn(session_id, messages, **options)
        await self.add_turns([turn])
        return turn.turn_id

    async def add_turns(self, turns: Sequence[NewTurn]) -> None:
        """Publish turns, a hundred at a time."""
        await self._publish(self._queue.wrap(turns))

    async def after_turn(
        self,
        session_id: str,
        turn_id: str,
        input_items: Sequence[Item] = (),
        output_items: Sequence[Item] = (),
        **options: Unpack[AfterTurnOptions],
    ) -> None:
        """Publish a completed turn with its items whole, as `AsyncAfterturn.after_turn` takes it."""
        await self._publish([self._queue.wrap_items(session_id, turn_id, (input_items, output_items), options)])

    async def start_recall(self, query: str, *, ttl_s: int | None = None, **options: Unpack[RecallOptions]) -> str:
        """Publish a question; return the id of its recall job, which the client's `recall_job` reads."""
        message = self._queue.wrap_question(query, options, ttl_s)
        await self._publish([message])
        return message.event_id

    async def length(self, queue: str = "turns") -> int:
        """Return how many messages of `turns` or `recalls` the service has not accepted yet."""
        with _translate_errors(self._queue.limit):
            return int(await self._redis.execute_command("HLEN", f"{self._queue.prefix}:{queue}.msgs"))

    async def _publish(self, messages: Sequence[QueueMessage]) -> None:
        for some in _split_batches(messages):
            self._queue.check_room(await self.length(some[0].queue), len(some))
            with _translate_errors(self._queue.limit):
                async with self._redis.pipeline(transaction=False) as pipeline:
                    for command in self._queue.commands(some):
                        pipeline.execute_command(*command)
                    self._queue.check_answers(await pipeline.execute())

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
