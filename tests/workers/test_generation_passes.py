"""The vectors of a generation are made of all that is stored and all that comes, and deleted where it is dropped."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from embeddings.protocol import Embedder
from embeddings.switching import SwitchingEmbedder
from store import identity
from store.derived.generation_passes import measure_share
from store.derived.generations import (
    ENDED,
    Generation,
    GenerationState,
    PassPlace,
    begin_build,
    begin_drop,
    note_behind,
    read_generations,
    roll_back,
    switch_to,
)
from store.errors import GenerationRefused, NotFound
from store.ledger.stages import Stage
from tests.generations import make_live
from tests.workers.conftest import HOST, World
from tests.workers.stages import Crew, KnownEmbedder
from workers.generation_passes import STRAGGLERS, GenerationPasses

FIRST, SECOND = 5, 9
COUNT = """
    select v.generation, public.vector_dims(v.embedding) as dims, count(*) as n
      from afterturn.unit_vector_t v group by 1, 2 order by 1"""
TEXTS = """
    select (select count(*) from afterturn.agent_memory_unit_t where active)
         + (select count(*) from afterturn.agent_memory_reflection_t where active) as n"""

AGAIN = """
    insert into afterturn.unit_vector_t
    select host_id, bank_id, unit_id, 0, 9, embedding from afterturn.unit_vector_t"""
LONG_AGO = "update public.afterturn_generation set since = since - interval '2 minutes' where generation = 9"
UNIT = "select unit_id from afterturn.agent_memory_unit_t where seq is not null"
END = "update afterturn.agent_memory_unit_t set active = false where unit_id = :unit"
DELETE = "delete from afterturn.unit_vector_t where unit_id = :unit"
KEPT = "select 1 from afterturn.unit_vector_t where unit_id = :unit"


class Deployment:
    """Workers of two models: the first is live, the second has another dimension."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.first = KnownEmbedder(name="first", generation=FIRST)
        self.second = KnownEmbedder(name="second", generation=SECOND, dimensions=96)
        self.models: dict[int, Embedder] = {FIRST: self.first, SECOND: self.second}
        self.behind: list[int] = []
        self.switching = SwitchingEmbedder(self.first, self.behind.append)
        self.passes = GenerationPasses(world.database, self.models.get)

    async def say(self, *turns: str) -> None:
        for one in turns:
            await self.world.append(session="s", turn=one)
        await self.drain()

    async def drain(self) -> None:
        crew = Crew(self.world, self.switching)  # type: ignore[arg-type]  # any embedder
        await crew.drain(Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION, Stage.EMBEDDING)

    async def work(self, steps: int = 1000) -> None:
        for _ in range(steps):
            if (await self.passes.step(None)).place is None:
                return

    async def counts(self) -> dict[int, int]:
        rows = await self.world.sql(COUNT)
        assert {row.dims for row in rows if row.generation == FIRST} <= {384}
        assert {row.dims for row in rows if row.generation == SECOND} <= {96}
        return {row.generation: row.n for row in rows}

    async def texts(self) -> int:
        [row] = await self.world.sql(TEXTS)
        return int(row.n)

    async def states(self) -> dict[int, GenerationState]:
        return {one.number: one.state for one in await read_generations(self.world.database)}

    async def of(self, number: int) -> Generation:
        return next(one for one in await read_generations(self.world.database) if one.number == number)


@pytest.fixture
async def deployment(world: World) -> Deployment:
    made = Deployment(world)
    await make_live(world.database, made.first)
    return made


async def test_a_build_makes_vectors_of_all_that_is_stored_and_of_all_that_comes(deployment: Deployment) -> None:
    database = deployment.world.database
    await deployment.say("t1", "t2")
    await begin_build(database, deployment.second, "second")
    with pytest.raises(GenerationRefused, match="wait until it is built"):
        await switch_to(database)
    deployment.switching.set_models(deployment.first, [deployment.second])
    await deployment.say("t3")
    await deployment.work()
    assert await deployment.counts() == dict.fromkeys((FIRST, SECOND), await deployment.texts())
    built = await deployment.of(SECOND)
    assert built.complete_at is not None
    assert 0 < built.vectors < await deployment.texts(), "what came during the build was not embedded twice"
    await switch_to(database)
    assert await deployment.states() == {FIRST: GenerationState.RETIRED, SECOND: GenerationState.LIVE}
    await roll_back(database)
    assert await deployment.states() == {FIRST: GenerationState.LIVE, SECOND: GenerationState.RETIRED}


async def test_a_build_that_was_killed_goes_on_where_it_was(deployment: Deployment) -> None:
    database = deployment.world.database
    for bank in ("one", "two", "three"):
        await deployment.world.append(session="s", turn=bank, bank=bank)
    await deployment.drain()
    await begin_build(database, deployment.second, "second")
    await deployment.work(steps=3)
    half = await deployment.of(SECOND)
    assert half.place is not None
    assert 0 < half.vectors < await deployment.texts()
    assert 0 < half.share < 1
    batches = len(deployment.second.batches)
    other = GenerationPasses(database, deployment.models.get)
    await begin_build(database, deployment.second, "second")
    while (await other.step(None)).place is not None:
        pass
    assert await deployment.counts() == dict.fromkeys((FIRST, SECOND), await deployment.texts())
    assert (await deployment.of(SECOND)).share == 1
    again = [text for batch in deployment.second.batches[batches:] for text in batch]
    assert len(again) == await deployment.texts() - half.vectors


async def test_the_share_of_a_pass_grows_with_tenants_banks_and_positions(deployment: Deployment) -> None:
    database = deployment.world.database
    for bank in ("one", "two"):
        for n in range(3):
            await deployment.world.append(session="s", turn=f"{bank}{n}", bank=bank)
    [head] = await deployment.world.sql(
        "select max(position) as n from afterturn.event_store_t where host_id = :h", h=HOST
    )
    banks = sorted(identity.bank_id(HOST, name) for name in ("one", "two"))
    places = [
        PassPlace(HOST, banks[0]),
        PassPlace(HOST, banks[0], head.n // 2),
        PassPlace(HOST, banks[0], ENDED),
        PassPlace(HOST, banks[1], head.n // 2),
        PassPlace(HOST, banks[1], ENDED),
    ]
    shares = [await measure_share(database, place) for place in places]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1), "there is one tenant"
    assert shares[2] - shares[0] == pytest.approx(shares[4] - shares[2])
    assert shares[1] - shares[0] == pytest.approx((shares[2] - shares[0]) / 2, rel=0.1)


async def test_what_is_erased_during_a_build_has_no_vector_of_any_generation(deployment: Deployment) -> None:
    database = deployment.world.database
    await deployment.say("t1", "t2")
    await begin_build(database, deployment.second, "second")
    deployment.switching.set_models(deployment.first, [deployment.second])
    await deployment.work(steps=2)
    [unit, *_] = await deployment.world.sql(UNIT)
    for statement in (END, DELETE):
        await deployment.world.sql(statement, unit=unit.unit_id)
    await note_behind(database, SECOND)
    await deployment.work()
    assert await deployment.world.sql(KEPT, unit=unit.unit_id) == []
    assert (await deployment.counts())[SECOND] == await deployment.texts()


async def test_a_generation_whose_model_fails_is_behind_and_holds_up_nothing(deployment: Deployment) -> None:
    database = deployment.world.database
    await deployment.say("t1")
    await begin_build(database, deployment.second, "second")
    await deployment.work()
    deployment.second.poison = ""
    deployment.switching.set_models(deployment.first, [deployment.second])
    await deployment.say("t2")
    counts = await deployment.counts()
    assert counts[FIRST] == await deployment.texts() > counts[SECOND]
    assert set(deployment.behind) == {SECOND}
    await note_behind(database, SECOND)
    deployment.second.poison = None
    await deployment.work()
    assert await deployment.counts() == dict.fromkeys((FIRST, SECOND), await deployment.texts())


async def test_a_process_without_the_model_notes_what_it_does_not_embed(deployment: Deployment) -> None:
    await begin_build(deployment.world.database, deployment.second, "second")
    deployment.switching.set_models(deployment.first, lacking=[SECOND])
    del deployment.models[SECOND]
    await deployment.say("t1")
    assert set(deployment.behind) == {SECOND}
    await deployment.work()
    assert (await deployment.of(SECOND)).complete_at is None


async def test_a_dropped_generation_leaves_no_vector_and_then_is_off_the_list(deployment: Deployment) -> None:
    database = deployment.world.database
    await deployment.say("t1")
    await begin_build(database, deployment.second, "second")
    await deployment.work()
    with pytest.raises(GenerationRefused, match="first is live"):
        await begin_drop(database, FIRST)
    await begin_drop(database, SECOND)
    await deployment.work()
    assert await deployment.counts() == {FIRST: await deployment.texts()}
    assert await deployment.states() == {FIRST: GenerationState.LIVE, SECOND: GenerationState.DROPPING}
    # As a process that learns late of it leaves it.
    await deployment.world.sql(AGAIN)
    await deployment.world.sql(LONG_AGO)
    deployment.passes = replace(deployment.passes, now=lambda: datetime.now(UTC) + STRAGGLERS + timedelta(hours=1))
    await deployment.work()
    assert await deployment.counts() == {FIRST: await deployment.texts()}
    assert await deployment.states() == {FIRST: GenerationState.LIVE}


async def test_one_generation_is_built_at_a_time_and_a_live_one_not_at_all(deployment: Deployment) -> None:
    database = deployment.world.database
    with pytest.raises(GenerationRefused, match="first is live already"):
        await begin_build(database, deployment.first, "")
    await begin_build(database, deployment.second, "second")
    with pytest.raises(GenerationRefused, match="second is being built"):
        await begin_build(database, KnownEmbedder(name="third", generation=11), "third")
    with pytest.raises(GenerationRefused, match="no generation was live before"):
        await roll_back(database)
    with pytest.raises(NotFound, match="there is no generation 77"):
        await begin_drop(database, 77)
