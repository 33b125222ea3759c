"""Rewrites the append-only file of the turn queues' server, so that words of accepted messages leave it."""

import asyncio
from contextlib import suppress
from typing import Any

import redis
import structlog

from deploy.components.turn_queues import queue_url
from deploy.settings import Settings
from workers.turn_queue import ANSWER_S, CONNECT_S

log = structlog.get_logger(__name__)

#: Pause between two looks at whether a rewrite is due, in seconds; the longest one, for long intervals.
MOST_PAUSE_S = 300.0


async def rewrite_queue_file(settings: Settings) -> None:
    """Have the server rewrite its file every `queue.rewrite_file_seconds`, until cancelled.

    One process does so for all. A failure is logged once until a rewrite was begun again.
    """
    every = settings.queue.rewrite_file_seconds
    if not (settings.queue.tenants and every):
        return
    limits = {"socket_connect_timeout": CONNECT_S, "socket_timeout": ANSWER_S}
    client = redis.Redis.from_url(queue_url(settings), **limits)
    failed = False
    while True:
        try:
            await asyncio.to_thread(begin_rewrite, client, f"{settings.broker.namespace}:queue-file-rewritten", every)
            failed = False
        except redis.RedisError as error:
            if not failed:
                log.warning("queue_file_not_rewritten", error=type(error).__name__)
            failed = True
        await asyncio.sleep(min(every / 4, MOST_PAUSE_S))


def begin_rewrite(client: "redis.Redis", mark: str, every_s: int) -> bool:
    """Begin a rewrite unless one was begun within `every_s` seconds, by the key `mark`; return whether it was begun.

    A server without an append-only file needs none. Raises redis.RedisError.
    """
    persistence: Any = client.info("persistence")
    if not persistence["aof_enabled"] or not client.set(mark, "", nx=True, ex=every_s):
        return False
    try:
        client.bgrewriteaof()
    except redis.RedisError:
        with suppress(redis.RedisError):
            client.delete(mark)
        raise
    return True
