"""The worker process with a sentence model and an extractor of somebody else's, as settings choose them."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest_asyncio

from embeddings.remote import derive_generation
from store.ledger.stages import Stage
from tests.embeddings.models import KEY as EMBEDDING_KEY
from tests.embeddings.models import MODEL as EMBEDDING_MODEL
from tests.embeddings.models import embedding_service
from tests.patience import PATIENCE_S, until
from tests.processes import spawned
from tests.servers import TestPostgres, TestValkey
from tests.workers.conftest import World, dialogue, open_world
from tests.workers.models import KEY, MODEL, fact, facts, model


@pytest_asyncio.fixture(loop_scope="session")
async def world(fresh_database: TestPostgres) -> AsyncIterator[World]:
    opened = await open_world(fresh_database)
    yield opened
    await opened.database.close()


def environment(world: World, valkey: TestValkey, data: Path) -> dict[str, str]:
    return {
        **os.environ,
        "AFTERTURN_DATA": str(data),
        "AFTERTURN_DATABASE__URL": world.postgres.app_url,
        "AFTERTURN_DATABASE__OPERATOR_URL": world.postgres.operator_url,
        "AFTERTURN_BROKER__URL": valkey.url,
        "AFTERTURN_BROKER__NAMESPACE": f"outside-{uuid4().hex}",
        "AFTERTURN_WORKER__SWEEP_SECONDS": "0.2",
    }


async def test_a_worker_uses_the_models_its_settings_name_and_writes_no_key_down(
    world: World, valkey: TestValkey, tmp_path: Path
) -> None:
    with model() as extractor, embedding_service() as embedder:
        extractor.says = lambda _turn: facts(fact("Porto", "We moved house to Porto"))
        told = environment(world, valkey, tmp_path) | {
            "AFTERTURN_ENRICHMENT__ENABLED": "true",
            "AFTERTURN_ENRICHMENT__BASE_URL": extractor.url,
            "AFTERTURN_ENRICHMENT__MODEL": MODEL,
            "AFTERTURN_ENRICHMENT__API_KEY": KEY,
            "AFTERTURN_EMBEDDING__PROVIDER": "remote",
            "AFTERTURN_EMBEDDING__REMOTE__BASE_URL": embedder.url + "/v1",
            "AFTERTURN_EMBEDDING__REMOTE__MODEL": EMBEDDING_MODEL,
            "AFTERTURN_EMBEDDING__REMOTE__API_KEY": EMBEDDING_KEY,
        }
        await world.append(messages=dialogue("We moved house to Porto in May.", "Noted."), gateway=False)
        with (tmp_path / "log").open("wb") as log:
            argv = [sys.executable, "-P", "-m", "deploy.worker"]
            with spawned(argv, env=told, stdout=log, stderr=log) as worker:
                await _all_is_done(world)
                worker.send_signal(signal.SIGTERM)
                await asyncio.to_thread(worker.wait, PATIENCE_S)
    assert worker.returncode == 0
    rows = await world.sql("""
        select u.origin, v.generation from afterturn.agent_memory_unit_t u
          join afterturn.unit_vector_t v using (host_id, bank_id, unit_id) order by 1""")
    assert [tuple(row) for row in rows] == [
        (origin, derive_generation(EMBEDDING_MODEL)) for origin in ("extraction", "message", "message")
    ]
    [live] = await world.sql("select generation from public.afterturn_generation where state = 'live'")
    assert live.generation == derive_generation(EMBEDDING_MODEL)
    written = (tmp_path / "log").read_text()
    assert KEY not in written
    assert EMBEDDING_KEY not in written
    assert "Porto" not in written


async def _all_is_done(world: World) -> None:
    stages = (Stage.EXTRACTION, Stage.ENRICHMENT, Stage.EMBEDDING, Stage.PROJECTION)

    async def done() -> bool:
        statuses = [set(await world.statuses(stage)) for stage in stages]
        facts_there = await world.sql("select 1 from afterturn.fact_t where value = 'porto'")
        return bool(facts_there) and all(found == {"done"} for found in statuses)

    await until(done, "every stage is done and the fact is there", 2 * PATIENCE_S)


async def test_a_worker_does_not_start_with_a_domain_for_an_address(
    world: World, valkey: TestValkey, tmp_path: Path
) -> None:
    told = environment(world, valkey, tmp_path) | {
        "AFTERTURN_ENRICHMENT__ENABLED": "true",
        "AFTERTURN_ENRICHMENT__BASE_URL": "api.openai.com",
        "AFTERTURN_ENRICHMENT__API_KEY": KEY,
    }
    argv = [sys.executable, "-P", "-m", "deploy.worker"]
    ended = await asyncio.to_thread(subprocess.run, argv, env=told, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 2
    assert "enrichment" in ended.stderr
    assert "base_url must be an absolute URL like https://host" in ended.stderr
    assert KEY not in ended.stderr
    assert "openai" not in ended.stderr
