"""Attacks by a publisher on its turn queue: what its user may write there by hand."""

import asyncio
import time
from contextlib import closing
from typing import Any

import orjson
import redis
from afterturn_client import Message, NewTurn
from afterturn_client.publisher import QueueOptions, TurnPublisher

from deploy.lab.bench.attacks.attack import attack
from deploy.lab.bench.attacks.attacker import NOT_WORKED_OFF, WORK_S, Attacker
from deploy.lab.bench.attacks.memory import MemoryWatch
from producers.jobs import published_prefix

#: The queue of the stack, and its tenant.
QUEUE, TENANT = "attack", "publishing-attacker"
IDS = 30_000
#: Messages of 2 MiB, 384 MiB in all, of as many JSON values as are parsed.
MESSAGES, VALUES = 192, 131_000
MESSAGE = orjson.dumps({"args": [0] * VALUES, "kwargs": {"x": "x" * 1_830_000}})
#: Most MiB by which a worker may grow.
MOST_MIB = 256


def _push_by_hand(url: str, prefix: str) -> None:
    line = f"{prefix}:turns"
    client: Any = redis.Redis.from_url(url)
    with closing(client):
        client.hset(line, "of another", "type")
        client.rpush(f"{prefix}:recalls.msgs", "of another type")
        time.sleep(1.0)
        client.rpush(line, *range(IDS))
        for number in range(MESSAGES):
            client.hset(f"{line}.msgs", f"m{number}", MESSAGE)
            client.rpush(line, f"m{number}")


def _publish_one(url: str, turn: NewTurn) -> bool:
    """Publish an ordinary turn behind all that, and return whether everything was judged in time."""
    until = time.monotonic() + WORK_S
    with TurnPublisher(url, QUEUE, QueueOptions(durable=False)) as publisher:
        publisher.add_turns([turn])
        while publisher.length() and time.monotonic() < until:
            time.sleep(0.1)
        return publisher.length() == 0


@attack(
    "turn_queue", f"a queue with {IDS:,} ids without messages, keys of other types, and {MESSAGES} messages of 2 MiB"
)
async def _spoil_queue(attacker: Attacker) -> None:
    url = attacker.stack.redis_url.get_secret_value()
    async with MemoryWatch(attacker.stack) as memory:
        await asyncio.to_thread(_push_by_hand, url, published_prefix("afterturn", QUEUE))
        turn = NewTurn(f"s{attacker.number()}", [Message("user", "an ordinary turn")])
        judged = await asyncio.to_thread(_publish_one, url, turn)
    attacker.ended("200" if judged else NOT_WORKED_OFF)
    for name, grown in memory.growth_mib().items():
        if grown > MOST_MIB:
            attacker.ended(f"{name} {grown:.0f} MiB larger")
