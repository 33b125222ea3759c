"""Worker processes put away by themselves what is over, with nobody to ask them."""

import time
from datetime import timedelta

import pytest
from redis import Redis

from producers.jobs import published_prefix
from producers.queue.acceptance import Rejection
from producers.queue.dead_letters import DAY_MS, DeadLetters
from producers.service.recall_coordinator import RecallBody
from store.recall.jobs import RecallJobs
from tests.deploy.worker.test_process import LONG_S, Start, found, models, namespace, start, world
from tests.patience import until
from tests.servers import TestValkey
from tests.workers.conftest import HOST, World, now

__all__ = ["models", "namespace", "start", "world"]


@pytest.mark.slow
async def test_of_two_workers_one_wipes_a_question_that_nobody_fetched_in_time(world: World, start: Start) -> None:
    jobs = RecallJobs(world.database, lambda: now() - timedelta(hours=1))
    request = RecallBody(query="Who visited Lisbon?").model_dump(mode="json", exclude_defaults=True)
    await jobs.open(HOST, {**request, "bank": "default"}, timedelta(minutes=5))
    assert await RecallJobs(world.database, now).expired() == 1
    for _ in range(2):
        start()
    await found(world, "not exists (select from afterturn.recall_job_t where request::text like '%Lisbon%')")
    ran = "select removed from public.afterturn_maintenance where task = 'recall_jobs' and outcome = 'done'"
    await found(world, f"({ran}) = 1")


@pytest.mark.slow
async def test_a_worker_prunes_the_dead_letters_of_its_queues(valkey: TestValkey, start: Start, namespace: str) -> None:
    client = Redis.from_url(valkey.url)
    letters = DeadLetters(client, published_prefix(namespace, "agents"), days=36_500)
    letters.put("old", "turns", b"", 1, Rejection("INVALID_ARGUMENT", "turn_id: must not be blank"))
    client.zadd(f"{letters.prefix}:dead.times", {"old": time.time() * 1000 - 31 * DAY_MS})
    start(AFTERTURN_QUEUE__TENANTS='{"agents": "acme"}')
    await until(lambda: not letters.list(), "the letter past its days is gone", LONG_S)
    client.close()
