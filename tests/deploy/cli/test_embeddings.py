"""`afterturn embeddings` builds, switches, rolls back and drops; each step that cannot be says what to do first."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from deploy.local.stack import find_stack
from embeddings.settings import EmbeddingSettings
from tests.deploy.operated import Busy, busy_stack
from tests.embeddings.sentence_models import make_sentence_model
from tests.generations import make_generation_live
from tests.servers import TestPostgres, TestValkey

WORDS = (("train", "zug"), ("late", "spät"))
COMPLETE = text("update public.afterturn_generation set complete_at = now() where state = 'building'")


@pytest.fixture
async def stack(tmp_path: Path, fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[Busy]:
    """A stack whose settings name a model of 24 numbers, where another one is live."""
    folder = make_sentence_model(tmp_path / "small", WORDS, dimensions=24)
    async with busy_stack(tmp_path / "data", fresh_database, valkey) as busy:
        named = EmbeddingSettings(model=str(folder))
        find_stack(busy.folder).model_copy(update={"embedding": named}).save(busy.folder)
        async with busy.opened() as database:
            await make_generation_live(database, 1, 384, "first")
        yield busy


async def states(stack: Busy) -> dict[str, str]:
    told = await stack.answer("embeddings", "status")
    return {one["model"]: one["state"] for one in told["generations"]}


async def test_a_model_is_built_made_live_taken_back_and_dropped(stack: Busy) -> None:
    assert await states(stack) == {"first": "live"}
    built = await stack.answer("embeddings", "build")
    [new] = [one for one in built["generations"] if one["model"] == "small"]
    assert (new["dimension"], new["state"], new["complete_at"]) == (24, "building", None)
    compared = await stack.answer("embeddings", "compare")
    assert (compared["live"], compared["compared"], compared["questions"]) == ("first", "small", 0)
    early = await stack.run("embeddings", "switch")
    assert (early.exit_code, "texts lack a vector of small" in early.stderr) == (1, True)
    async with stack.opened() as database, database.operator() as connection:
        await connection.execute(COMPLETE)
    await stack.answer("embeddings", "switch")
    assert await states(stack) == {"first": "retired", "small": "live"}
    await stack.answer("embeddings", "rollback")
    assert await states(stack) == {"first": "live", "small": "retired"}
    live = await stack.run("embeddings", "drop", "1")
    assert (live.exit_code, "first is live: switch to another" in live.stderr) == (1, True)
    await stack.answer("embeddings", "drop", str(new["generation"]))
    assert await states(stack) == {"first": "live", "small": "dropping"}
    assert "the workers delete its vectors" in (await stack.run("embeddings", "status")).stdout


async def test_a_model_that_is_live_is_not_built(stack: Busy) -> None:
    await stack.answer("embeddings", "build")
    await stack.answer("embeddings", "switch", "--force")
    again = await stack.run("embeddings", "build")
    assert (again.exit_code, "small is live already: name another model" in again.stderr) == (1, True)
