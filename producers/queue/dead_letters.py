"""Stores dead letters of a turn queue: rejected messages with their reasons, on the queue's own server.

    <queue's prefix>:dead         a hash: message id -> the letter's JSON
    <queue's prefix>:dead.times   a sorted set of their ids, by when they died (epoch milliseconds)

A publisher's user can access neither. Without `keep_content` a letter holds no text of its message, so it cannot be
replayed.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
import redis

from producers.queue.acceptance import Rejection

#: The most dead letters of a queue; beyond it, the oldest are deleted.
MOST_LETTERS = 10_000
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A rejected message: when (epoch milliseconds), from `turns` or `recalls`, its size, and the reason."""

    message_id: str
    queue: str
    died_ms: int
    size_bytes: int
    attempts: int
    code: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    body: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one tenant's queue. Every method talks to Redis and raises redis.RedisError."""

    client: "redis.Redis"
    prefix: str
    keep_content: bool = False
    days: float = 30.0

    def put(self, message_id: str, queue: str, raw: bytes, attempts: int, why: Rejection) -> None:
        """Store a letter, once by its id, and prune the queue's letters."""
        now = time.time_ns() // 1_000_000
        kept = raw.decode("utf-8", errors="replace") if self.keep_content else None
        told = (why.code, why.message, dict(why.details))
        letter = DeadLetter(message_id, queue, now, len(raw), attempts, *told, kept)
        with self.client.pipeline() as pipeline:
            pipeline.hset(self._letters_key, message_id, orjson.dumps(asdict(letter)))
            pipeline.zadd(self._times_key, {message_id: now})
            pipeline.execute()
        self.prune(now)

    def prune(self, now_ms: int) -> int:
        """Delete letters older than `days`, and the oldest beyond MOST_LETTERS; return how many were deleted."""
        with self.client.pipeline() as pipeline:
            pipeline.zrangebyscore(self._times_key, "-inf", now_ms - self.days * DAY_MS)
            pipeline.zrange(self._times_key, 0, -MOST_LETTERS - 1)
            gone = {bytes(one).decode() for some in pipeline.execute() for one in some}
        self.drop([*gone])
        return len(gone)

    def count(self) -> int:
        """Return how many letters there are."""
        found: Any = self.client.zcard(self._times_key)
        return int(found)

    def list(self) -> Sequence[DeadLetter]:
        """Return all letters, the oldest first."""
        found: Any = self.client.hvals(self._letters_key)
        return sorted((DeadLetter(**orjson.loads(one)) for one in found), key=lambda letter: letter.died_ms)

    def replay(self, letter: DeadLetter) -> bool:
        """Put a letter back at the end of its queue, with a fresh attempt budget; False without its content."""
        if letter.body is None:
            return False
        key = f"{self.prefix}:{letter.queue}"
        with self.client.pipeline() as pipeline:
            pipeline.hset(f"{key}.msgs", letter.message_id, letter.body)
            pipeline.hdel(f"{key}.attempts", letter.message_id)
            pipeline.hdel(f"{key}.failures", letter.message_id)
            pipeline.rpush(key, letter.message_id)
            pipeline.hdel(self._letters_key, letter.message_id)
            pipeline.zrem(self._times_key, letter.message_id)
            pipeline.execute()
        return True

    def drop(self, message_ids: Sequence[str]) -> None:
        """Delete letters."""
        if message_ids:
            with self.client.pipeline() as pipeline:
                pipeline.hdel(self._letters_key, *message_ids)
                pipeline.zrem(self._times_key, *message_ids)
                pipeline.execute()

    @property
    def _letters_key(self) -> str:
        return f"{self.prefix}:dead"

    @property
    def _times_key(self) -> str:
        return f"{self.prefix}:dead.times"
