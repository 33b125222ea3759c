"""Which model a process asks is what the database says, whatever its settings name and whenever it started."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from starlette.responses import PlainTextResponse
from structlog.testing import capture_logs

from deploy.components import models
from deploy.components.doctor_checks import judge_live_model
from deploy.components.doctor_rules import CheckVerdict
from deploy.components.models import ModelKeeper
from embeddings.errors import EmbeddingError, ModelMismatch, OtherModelLive
from embeddings.protocol import Embedder, pin_model
from embeddings.settings import EmbeddingSettings, Provider, RemoteSettings, Variant
from store.database import Database
from store.derived.generations import (
    GenerationState,
    begin_build,
    begin_drop,
    read_generations,
    read_live,
    roll_back,
    switch_to,
)
from tests.client.loopback import closed_port
from tests.embeddings.models import MODEL, embedding_service
from tests.embeddings.sentence_models import make_sentence_model
from tests.servers import TestPostgres
from tests.workers.conftest import settings_of

Start = Callable[..., Awaitable[ModelKeeper]]
WORDS = (("train", "zug"), ("late", "spät"))


@pytest_asyncio.fixture(loop_scope="session")
async def lonely(fresh_database: TestPostgres) -> AsyncIterator[Database]:
    database = Database(settings_of(fresh_database))
    yield database
    await database.close()


@pytest_asyncio.fixture(loop_scope="session")
async def start(lonely: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """Start processes that name a model; each has loaded its live one."""
    monkeypatch.setattr(models, "REST_S", 0.0)
    started = list[ModelKeeper]()

    async def started_with(model: str = "", **more: object) -> ModelKeeper:
        settings = EmbeddingSettings.model_validate({"model": model, "variant": Variant.WEIGHTS, **more})
        keeper = ModelKeeper(lonely, settings, tmp_path)
        started.append(keeper)
        await keeper.load()
        return keeper

    yield started_with
    for one in started:
        await one.close()


def model_of(folder: Path, dimensions: int) -> str:
    return str(make_sentence_model(folder, WORDS, dimensions=dimensions, seed=dimensions))


async def states(database: Database) -> list[tuple[str, int, str]]:
    return [(one.model, one.dimension, one.state) for one in await read_generations(database)]


async def dimension(embedder: Embedder) -> int:
    vectors = await embedder.embed(["train late"])
    assert np.linalg.norm(vectors[0]) == pytest.approx(1, abs=1e-5)
    return int(vectors.shape[1])


async def test_the_first_process_makes_its_model_live_and_no_later_one_changes_that(
    start: Start, lonely: Database, tmp_path: Path
) -> None:
    small, large = model_of(tmp_path / "small", 24), model_of(tmp_path / "large", 640)
    first = await start(small)
    assert await states(lonely) == [("small", 24, GenerationState.LIVE)]
    with capture_logs() as logs:
        other, bundled = await start(large), await start()
    assert await states(lonely) == [("small", 24, GenerationState.LIVE)]
    for keeper in (first, other, bundled):
        assert (keeper.explain_fault(), await dimension(keeper.embedder)) == ("", 24)
        assert pin_model(keeper.embedder).generation == first.own.generation
    warned = [line for line in logs if line["event"] == "other_model_live"]
    assert [(line["settings"], line["live"]) for line in warned] == [
        ("large", "small"),
        ("all-MiniLM-L6-v2 (weights)", "small"),
    ]
    assert "afterturn embeddings build" in warned[0]["next_step"]


async def test_texts_wait_until_it_is_known_which_model_is_live(lonely: Database, tmp_path: Path) -> None:
    settings = EmbeddingSettings.model_validate({"model": "", "variant": Variant.WEIGHTS})
    keeper = ModelKeeper(lonely, settings, tmp_path)
    try:
        early = asyncio.ensure_future(pin_model(keeper.embedder).embed(["the train is late"]))
        await asyncio.sleep(0)
        assert not early.done()
        await keeper.load()
        assert np.array_equal(await early, await keeper.embedder.embed(["the train is late"]))
    finally:
        await keeper.close()


async def test_every_process_follows_a_switch_a_rollback_and_a_drop(
    start: Start, lonely: Database, tmp_path: Path
) -> None:
    old = await start(model_of(tmp_path / "small", 24))
    new = await start(model_of(tmp_path / "large", 640))
    await new.own.load()
    await begin_build(lonely, new.own, str(tmp_path / "large"))
    for keeper in (old, new):
        await keeper.refresh()
        assert await dimension(keeper.embedder) == 24
        assert [one.dimensions for one in keeper.embedder.beside] == [640]
    began = pin_model(old.embedder)
    await switch_to(lonely, incomplete=True)
    for keeper in (old, new):
        await keeper.refresh()
        assert await dimension(keeper.embedder) == 640
        assert [one.dimensions for one in keeper.embedder.beside] == [24]
    assert await dimension(began) == 24, "what began with the model before ends with it"
    await roll_back(lonely)
    for keeper in (old, new):
        await keeper.refresh()
        assert await dimension(keeper.embedder) == 24
    await begin_drop(lonely, new.own.generation)
    await old.refresh()
    assert (list(old.embedder.beside), list(old.embedder.lacking)) == ([], [])


async def test_the_settings_own_model_is_loaded_to_be_built_while_another_is_live(
    start: Start, lonely: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(model_of(tmp_path / "small", 24))
    keeper = await start(large := model_of(tmp_path / "large", 640))
    assert (keeper.own.dimensions, keeper.source) == (0, large)
    loads, may_load = list[int](), asyncio.Event()
    load = keeper.own.load

    async def load_slowly() -> None:
        loads.append(1)
        await may_load.wait()
        await load()

    monkeypatch.setattr(keeper.own, "load", load_slowly)
    monkeypatch.setattr(models, "PATIENCE_S", 0.01)
    with pytest.raises(EmbeddingError, match="is still being loaded: ask again"):
        await keeper.load_own()
    monkeypatch.setattr(models, "PATIENCE_S", 60.0)
    may_load.set()
    own = await keeper.load_own()
    assert (own.dimensions, len(loads)) == (640, 1), "it was loaded further meanwhile"
    await begin_build(lonely, own, keeper.source)
    await keeper.refresh()
    assert [one.generation for one in keeper.embedder.beside] == [own.generation]


async def test_a_process_that_has_not_the_live_model_says_what_to_do_and_embeds_nothing(
    start: Start, lonely: Database, tmp_path: Path
) -> None:
    folder = Path(model_of(tmp_path / "small", 24))
    await start(str(folder))
    shutil.move(folder, tmp_path / "away")
    with capture_logs() as logs:
        other = await start(model_of(tmp_path / "large", 640))
    assert "vectors are those of small" in other.explain_fault()
    assert "afterturn embeddings build" in other.explain_fault()
    assert [line["next_step"] for line in logs if line["event"] == "other_model_live"] == [other.explain_fault()]
    with pytest.raises(OtherModelLive, match="those of small"):
        await other.embedder.embed(["train"])
    assert await states(lonely) == [("small", 24, GenerationState.LIVE)]
    shutil.move(tmp_path / "away", folder)
    await other.refresh()
    assert (other.explain_fault(), await dimension(other.embedder)) == ("", 24)


async def test_the_doctor_says_whose_vectors_recall_compares_and_what_to_do(
    start: Start, lonely: Database, tmp_path: Path
) -> None:
    first = await start(model_of(tmp_path / "small", 24))
    other = await start(model_of(tmp_path / "large", 640))
    live = await read_live(lonely)
    assert live is not None
    fine, another = judge_live_model(live, first.own), judge_live_model(live, other.own)
    assert (fine.verdict, fine.seen) == (CheckVerdict.OK, "of small, 24 numbers")
    assert another.verdict is CheckVerdict.WARN
    assert another.seen == "recall compares those of small, 24 numbers; the settings name large"
    assert "afterturn embeddings build" in another.remedy


async def test_another_model_in_the_folder_of_the_live_one_is_not_taken_for_it(start: Start, tmp_path: Path) -> None:
    folder = Path(model_of(tmp_path / "model", 24))
    await start(str(folder))
    shutil.rmtree(folder)
    keeper = await start(model_of(tmp_path / "model", 64))
    assert "vectors are those of model" in keeper.explain_fault()


async def test_a_model_that_is_beside_the_live_one_and_is_not_here_lacks_its_vectors(
    start: Start, lonely: Database, tmp_path: Path
) -> None:
    old = await start(model_of(tmp_path / "small", 24))
    new = await start(model_of(tmp_path / "large", 640))
    await new.own.load()
    await begin_build(lonely, new.own, "/not/here")
    await old.refresh()
    assert (list(old.embedder.beside), list(old.embedder.lacking)) == ([], [new.own.generation])
    assert old.find_model(new.own.generation) is None
    old.embedder.note_behind(new.own.generation)
    await old.refresh()
    assert [one.behind for one in await read_generations(lonely)].count(True) == 1


async def test_the_endpoint_before_is_asked_until_another_model_is_live(start: Start, lonely: Database) -> None:
    with embedding_service() as service:
        service.dimensions = 48
        key = {"api_key": "sk-distinctive-key-8822"}
        before = {"base_url": service.url, "model": MODEL, **key}
        await start(provider="remote", remote=before)
        assert await states(lonely) == [(f"{MODEL} (remote)", 48, GenerationState.LIVE)]
        now = {"base_url": closed_port(), "model": "another", **key}
        with_both = await start(provider="remote", remote=now, former_remote=before)
        assert (with_both.explain_fault(), await dimension(with_both.embedder)) == ("", 48)
        with_one = await start(provider="remote", remote=now)
        assert f"vectors are those of {MODEL} (remote)" in with_one.explain_fault()
        service.dimensions = 32
        with pytest.raises(ModelMismatch, match="32 numbers, not 48"):
            await with_both.embedder.embed(["train"])


async def test_a_model_of_the_settings_that_cannot_be_loaded_ends_the_start_of_a_first_process(
    start: Start, lonely: Database, tmp_path: Path
) -> None:
    folder = Path(model_of(tmp_path / "model", 24))
    (folder / "model.onnx").write_bytes(b"cut off")
    with pytest.raises(EmbeddingError, match="cannot be loaded"):
        await start(str(folder))
    assert await states(lonely) == []


async def test_a_remote_model_that_is_away_at_the_first_start_becomes_live_when_it_answers(
    lonely: Database, tmp_path: Path
) -> None:
    with embedding_service() as service:
        service.dimensions = 40
        remote = RemoteSettings.model_validate(
            {"base_url": service.url, "model": MODEL, "api_key": "sk-distinctive-key-8822", "deadline_seconds": 0.2}
        )
        keeper = ModelKeeper(lonely, EmbeddingSettings(provider=Provider.REMOTE, remote=remote), tmp_path)
        service.fault = lambda _: PlainTextResponse("", 503)
        await keeper.load()
        assert (keeper.explain_fault(), await states(lonely)) == ("", [])
        service.fault = lambda _: None
        assert await dimension(keeper.embedder) == 40
        await keeper.refresh()
        assert await states(lonely) == [(f"{MODEL} (remote)", 40, GenerationState.LIVE)]
        await keeper.close()
