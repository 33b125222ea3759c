"""A turn queue as operators see it: whose it is, what waits in it, and its dead letters."""

from dataclasses import dataclass
from typing import Any

import redis

from producers.queue.dead_letters import DeadLetters


@dataclass(frozen=True, slots=True)
class OperatedQueue:
    """A turn queue of the settings. Every method talks to Redis and raises redis.RedisError."""

    name: str
    tenant: str
    letters: DeadLetters

    def count_waiting(self, kind: str) -> int | None:
        """Return how many `turns` or `recalls` wait; None where a publisher wrote a key of another type."""
        try:
            found: Any = self.letters.client.hlen(f"{self.letters.prefix}:{kind}.msgs")
        except redis.ResponseError:
            return None
        return int(found)
