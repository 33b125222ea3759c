"""`afterturn embeddings` builds, switches, rolls back and drops; each step that cannot be says what to do first."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from deploy.cli.operator_command import read_operator_name
from deploy.local.stack import find_stack
from embeddings.settings import EmbeddingSettings
from store.ledger.workers import WorkerRegistry
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


async def test_workers_whose_settings_name_another_model_are_named(stack: Busy) -> None:
    async with stack.opened() as database:
        registry = WorkerRegistry(database)
        await registry.begin("app-1:1:aa", "0.1.0", ["embedding"], ("first", 1))
        await registry.begin("app-2:1:bb", "0.1.0", ["embedding"])
    assert "app-1" not in (await stack.run("embeddings", "status")).stderr, "nothing is built"
    built = await stack.run("embeddings", "build")
    assert built.exit_code == 0
    assert "the settings of the worker app-1:1:aa name first, while small is built" in " ".join(built.stderr.split())
    assert "app-2" not in built.stderr
    assert "0 %" in built.stdout
    assert "app-1:1:aa" in (await stack.run("embeddings", "status", "--json")).stderr


async def test_a_generation_that_is_not_there_is_not_dropped(stack: Busy) -> None:
    dropped = await stack.run("embeddings", "drop", "77")
    assert (dropped.exit_code, "there is no generation 77" in dropped.stderr) == (1, True)


async def test_a_change_is_audited_under_the_account_that_ran_the_command(stack: Busy) -> None:
    await stack.answer("embeddings", "build")
    [call] = (await stack.answer("audit", "list"))["calls"]
    assert (call["operation"], call["actor"]) == ("POST /api/v1/operator/embeddings/build", read_operator_name())


async def test_a_model_that_is_live_is_not_built(stack: Busy) -> None:
    await stack.answer("embeddings", "build")
    await stack.answer("embeddings", "switch", "--force")
    again = await stack.run("embeddings", "build")
    assert (again.exit_code, "small is live already: name another model" in again.stderr) == (1, True)
