"""The turn queues of the settings, as processes that do not read them see them."""

from collections.abc import Sequence

import redis

from deploy.settings import Settings
from producers.jobs import published_prefix
from producers.queue.dead_letters import DeadLetters
from producers.queue.operated import OperatedQueue
from workers.turn_queue import ANSWER_S, CONNECT_S


def queue_url(settings: Settings) -> str:
    """Return the URL of the server that holds the turn queues: `queue.url`, else `broker.url`."""
    return settings.queue.url.get_secret_value() or settings.broker.url.get_secret_value()


def describe_letters(settings: Settings, client: "redis.Redis", prefix: str) -> DeadLetters:
    """Return the dead letters of the queue with this prefix."""
    return DeadLetters(client, prefix, settings.queue.keep_dead_content, settings.queue.dead_days)


def build_operated_queues(settings: Settings) -> Sequence[OperatedQueue]:
    """Return the queues of `queue.tenants`, not connected yet."""
    if not settings.queue.tenants:
        return ()
    client = redis.Redis.from_url(
        queue_url(settings), socket_connect_timeout=CONNECT_S, socket_timeout=ANSWER_S, health_check_interval=15
    )
    return [
        OperatedQueue(
            name, tenant, describe_letters(settings, client, published_prefix(settings.broker.namespace, name))
        )
        for name, tenant in settings.queue.tenants.items()
    ]
