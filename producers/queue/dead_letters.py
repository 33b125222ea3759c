"""Stores dead letters of a turn queue: rejected messages with their reasons, on the queue's own server.

    <queue's prefix>:dead         a hash: message id -> the letter's JSON
    <queue's prefix>:dead.times   a sorted set of their ids, by when they died (epoch milliseconds)
    <queue's prefix>:dead.bodies  a hash: message id -> its content, where it is kept
    <queue's prefix>:dead.bytes   how many bytes these contents have

A publisher's user can access neither. Without `keep_content` a letter holds no text of its message, so it cannot be
replayed.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson
import redis

from producers.queue.acceptance import Rejection

#: The most dead letters of a queue, and the most bytes of their contents; beyond either, the oldest are deleted.
MOST_LETTERS, MOST_BYTES = 10_000, 67_108_864
DAY_MS = 86_400_000
#: Letters that are read at a time.
BATCH = 200

_DROP = """
local function drop(id)
    local size = redis.call('hstrlen', KEYS[3], id)
    if size > 0 then redis.call('decrby', KEYS[4], size) end
    redis.call('hdel', KEYS[3], id)
    redis.call('hdel', KEYS[1], id)
    redis.call('zrem', KEYS[2], id)
end
"""
#: KEYS: letters, times, bodies, bytes; ARGV: the ids. Answers how many of them there were.
DROP = f"""{_DROP}
local dropped = 0
for _, id in ipairs(ARGV) do
    dropped = dropped + redis.call('hexists', KEYS[1], id)
    drop(id)
end
return dropped
"""
#: KEYS as above, then the list of the letter's queue, its bodies, attempts and failures; ARGV: the id. Answers 1, or 0
#: without the content.
REPLAY = f"""{_DROP}
local body = redis.call('hget', KEYS[3], ARGV[1])
if not body then return 0 end
redis.call('hset', KEYS[6], ARGV[1], body)
redis.call('hdel', KEYS[7], ARGV[1])
redis.call('hdel', KEYS[8], ARGV[1])
redis.call('rpush', KEYS[5], ARGV[1])
drop(ARGV[1])
return 1
"""
#: KEYS as above; ARGV: the most letters and bytes, id, when it died, letter, and its content where it is kept.
PUT = f"""{_DROP}
drop(ARGV[3])
redis.call('hset', KEYS[1], ARGV[3], ARGV[5])
redis.call('zadd', KEYS[2], ARGV[4], ARGV[3])
if ARGV[6] then
    redis.call('hset', KEYS[3], ARGV[3], ARGV[6])
    redis.call('incrby', KEYS[4], #ARGV[6])
end
while redis.call('zcard', KEYS[2]) > tonumber(ARGV[1])
    or tonumber(redis.call('get', KEYS[4]) or '0') > tonumber(ARGV[2]) do
    local oldest = redis.call('zrange', KEYS[2], 0, 0)[1]
    if not oldest then break end
    drop(oldest)
end
"""


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
    content_kept: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one tenant's queue. Every method talks to Redis and raises redis.RedisError."""

    client: "redis.Redis"
    prefix: str
    keep_content: bool = False
    days: float = 30.0

    def put(
        self, message_id: str, queue: str, raw: bytes, attempts: int, why: Rejection, *, size: int | None = None
    ) -> None:
        """Store a letter, once by its id, and prune the queue's letters; `size`: of a message too large to be held."""
        now = time.time_ns() // 1_000_000
        kept = [bytes(raw)] if self.keep_content and size is None else []
        told = (why.code, why.message, dict(why.details))
        letter = asdict(DeadLetter(message_id, queue, now, size or len(raw), attempts, *told))
        del letter["content_kept"]
        limits = MOST_LETTERS, MOST_BYTES
        self.client.eval(PUT, 4, *self._keys, *limits, message_id, now, orjson.dumps(letter), *kept)
        self.prune(now)

    def prune(self, now_ms: int) -> int:
        """Delete letters older than `days`; return how many were deleted."""
        found: Any = self.client.zrangebyscore(self._times_key, "-inf", now_ms - self.days * DAY_MS)
        return self.drop([bytes(one).decode() for one in found])

    def count(self) -> int:
        """Return how many letters there are."""
        found: Any = self.client.zcard(self._times_key)
        return int(found)

    def list(self) -> Sequence[DeadLetter]:
        """Return all letters, the oldest first, without their contents."""
        return list(self.iterate())

    def iterate(self, since_ms: int = 0) -> Iterator[DeadLetter]:
        """Yield the letters that died at this time or later, the oldest first, without their contents.

        They are read in batches: a letter that goes meanwhile is left out, and none is yielded twice.
        """
        least: float = since_ms
        seen = set[bytes]()
        while True:
            most = BATCH + len(seen)
            read: Any = self.client.zrangebyscore(self._times_key, least, "+inf", 0, most, withscores=True)
            found = [(name, died) for name, died in read if name not in seen]
            if not found:
                return
            yield from self._read([name for name, _ in found])
            # More letters may have died in the millisecond of the last.
            least = read[-1][1]
            seen = {name for name, died in read if died == least}

    def _read(self, names: Sequence[bytes]) -> Iterator[DeadLetter]:
        letters, _, bodies, _ = self._keys
        with self.client.pipeline() as pipeline:
            pipeline.hmget(letters, names)
            for name in names:
                pipeline.hexists(bodies, name)
            found, *kept = pipeline.execute()
        for letter, is_kept in zip(found, kept, strict=True):
            if letter is not None:
                yield replace(DeadLetter(**orjson.loads(letter)), content_kept=bool(is_kept))

    def replay(self, letter: DeadLetter) -> bool:
        """Put a letter back at the end of its queue, with a fresh attempt budget; False without its content."""
        line = f"{self.prefix}:{letter.queue}"
        keys = (*self._keys, line, *(f"{line}.{part}" for part in ("msgs", "attempts", "failures")))
        done: Any = self.client.eval(REPLAY, len(keys), *keys, letter.message_id)
        return bool(done)

    def drop(self, message_ids: Sequence[str]) -> int:
        """Delete letters; return how many of them there were."""
        if not message_ids:
            return 0
        dropped: Any = self.client.eval(DROP, 4, *self._keys, *message_ids)
        return int(dropped)

    @property
    def _keys(self) -> tuple[str, str, str, str]:
        letters = f"{self.prefix}:dead"
        return letters, self._times_key, f"{letters}.bodies", f"{letters}.bytes"

    @property
    def _times_key(self) -> str:
        return f"{self.prefix}:dead.times"
