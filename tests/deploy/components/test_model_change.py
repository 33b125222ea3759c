"""The sentence model is changed to one of another dimension and back while turns are written and recalled."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from deploy.components.models import ModelKeeper
from embeddings.settings import EmbeddingSettings
from store.derived import vector_indexes
from store.derived.generations import begin_build, read_live, roll_back, switch_to
from store.derived.vector_indexes import VectorIndexes
from store.ledger.stages import Stage
from store.recall.accuracy_check import compare_generations, compare_searches, find_stored_banks
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from tests.embeddings.sentence_models import make_sentence_model
from tests.patience import until
from tests.servers import TestPostgres
from tests.workers.conftest import HOST, World, dialogue, open_world
from tests.workers.stages import Crew
from workers.generation_passes import GenerationPasses

pytestmark = pytest.mark.slow

TURNS = 80
STEMS, ENDS = ("kal", "mor", "ten", "sul", "pim"), ("ba", "do", "ri", "ve", "zu", "lo")
NAMES = [f"{stem}{end}" for stem in STEMS for end in ENDS]
WORDS = tuple((name,) for name in NAMES)
#: A bank beyond it is searched by its index, of whose lists enough are read.
SETTINGS = RecallSettings(exact_units=100, read_units=1800)
COMPLETE = "select complete_at from public.afterturn_generation where generation = :generation"


@pytest_asyncio.fixture(loop_scope="session")
async def world(fresh_database: TestPostgres) -> AsyncIterator[World]:
    opened = await open_world(fresh_database)
    yield opened
    await opened.database.close()


class Load:
    """Writes turns, embeds them, and recalls, all the time; every recall has to be whole."""

    def __init__(self, world: World, keeper: ModelKeeper) -> None:
        self.world, self.keeper = world, keeper
        self.recaller = Recaller(world.database, keeper.embedder, SETTINGS)
        self.passes = GenerationPasses(world.database, keeper.find_model)
        self.numbers, self.recalled, self.wrong = count(TURNS), 0, list[str]()

    async def say(self, number: int) -> None:
        said = f"{NAMES[number % 30]} met {NAMES[number * 7 % 30]} and {NAMES[number * 11 % 30]}"
        await self.world.append(session=f"s{number % 9}", turn=f"t{number}", messages=dialogue(said, "I see."))

    async def work(self) -> None:
        crew = Crew(self.world, self.keeper.embedder)  # type: ignore[arg-type]  # any embedder
        await crew.drain(Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION, Stage.EMBEDDING)
        while (await self.passes.step(None)).place is not None:
            pass

    async def recall(self) -> None:
        asked = NAMES[self.recalled % 30]
        answer = await self.recaller.recall(HOST, RecallQuery("default", f"Whom did {asked} meet?"))
        if answer.degraded or not any(asked in item.text for item in answer.items):
            self.wrong.append(f"{asked}: {answer.degraded} {len(answer.items)}")
        self.recalled += 1

    async def run(self) -> None:
        """Go on until cancelled."""

        async def write() -> None:
            while True:
                await self.say(next(self.numbers))
                await asyncio.sleep(0.2)

        async def work() -> None:
            while True:
                await self.keeper.refresh()
                await self.work()
                await asyncio.sleep(0.05)

        async def ask() -> None:
            while True:
                await self.recall()
                await asyncio.sleep(0.1)

        async with asyncio.TaskGroup() as tasks:
            for one in (write(), work(), ask()):
                tasks.create_task(one)

    async def accuracy(self) -> float:
        """Return the share of the exact ten that the live generation's index gives."""
        live = await read_live(self.world.database)
        assert live is not None
        [bank] = [one for one in await find_stored_banks(self.world.database) if one.name == "default"]
        asked = await compare_searches(self.world.database, bank, 20, SETTINGS)
        assert asked
        return sum(one.found for one in asked) / sum(one.there for one in asked)


async def test_a_model_is_changed_and_changed_back_under_load_and_no_recall_fails(
    world: World, fresh_database: TestPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_indexes, "LIST_UNITS", 40)
    folders = {n: make_sentence_model(tmp_path / f"m{n}", WORDS, dimensions=n, seed=n) for n in (384, 96)}
    keeper, new = (ModelKeeper(world.database, EmbeddingSettings(model=str(folders[n])), tmp_path) for n in (384, 96))
    await keeper.load()
    load = Load(world, keeper)
    for number in range(TURNS):
        await load.say(number)
    await load.work()
    await new.own.load()
    indexes = VectorIndexes(fresh_database.owner_url, SETTINGS.exact_units)
    running = asyncio.create_task(load.run())

    async def is_complete() -> bool:
        assert not running.done(), running.exception()
        [row] = await world.sql(COMPLETE, generation=new.own.generation)
        return row.complete_at is not None

    async def has_switched(dimension: int) -> None:
        begun = load.recalled
        await until(lambda: keeper.embedder.dimensions == dimension, "the process asks the live model")
        await until(lambda: load.recalled > begun + 10, "recalls go on")

    async def index() -> None:
        while await indexes.build_some():
            pass

    await begin_build(world.database, new.own, str(folders[96]))
    await until(is_complete, "the vectors of the new model are made")
    await index()
    live = await read_live(world.database)
    assert live is not None
    [bank] = await find_stored_banks(world.database)
    same = await compare_generations(world.database, bank, live.number, live.number, 10)
    other = await compare_generations(world.database, bank, live.number, new.own.generation, 10)
    assert len(same) == len(other) == 10
    # Texts that are written between the two searches may be among the nearest of the second.
    assert all(one.shared >= one.there - 2 for one in same), same
    assert sum(one.shared for one in other) > 0
    await switch_to(world.database)
    await has_switched(96)
    after = await load.accuracy()
    await roll_back(world.database)
    await has_switched(384)
    back = await load.accuracy()
    running.cancel()
    await asyncio.wait([running])
    await indexes.close()
    for one in (keeper, new):
        await one.close()
    assert load.wrong == []
    assert min(after, back) >= 0.99, (after, back)
