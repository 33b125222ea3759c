"""Worker processes put away by themselves what is over, with nobody to ask them."""

from datetime import timedelta

import pytest

from producers.service.recalls import RecallBody
from store.recall.jobs import RecallJobs
from tests.deploy.test_worker_process import Start, found, models, namespace, start, world
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
