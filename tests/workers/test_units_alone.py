"""Units that came without a turn, as of a history that was written in bulk: they get vectors as turns' units do."""

import pytest

from deploy.cli.extract import Reembedding
from deploy.components.reprocessing import ReprocessingProgress, ReprocessingScope, reprocess_turns
from deploy.lab.bench.history import History
from store import identity
from store.ledger.stages import Stage
from store.log.bulk import append_bulk
from store.memory.units import Units
from tests.workers.conftest import HOST, World, now
from tests.workers.stages import Crew, KnownEmbedder

BANK_NAME = "generated"
LIVING = "select unit_id, content from afterturn.agent_memory_unit_t where active order by position"
WITH_VECTOR = """
    select u.content, v.generation from afterturn.unit_vector_t v
      join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id) where u.active order by u.position"""


@pytest.fixture
async def history(world: World) -> History:
    """What is written already is the first part of it."""
    made = History(HOST, BANK_NAME, 1)
    await append_bulk(world.database, HOST, made.events(400))
    return made


async def embed(world: World, generation: int = 1) -> ReprocessingProgress:
    """`afterturn embed` beside a worker that begins when all is opened."""
    scope = ReprocessingScope(HOST, identity.bank_id(HOST, BANK_NAME))
    progress = await reprocess_turns(
        world.database, Reembedding(generation), scope, ahead=10_000, timeout_s=0, say=print
    )
    crew = Crew(world, embedder=KnownEmbedder(generation=generation))
    await crew.drain(Stage.EMBEDDING)
    return progress


@pytest.mark.usefixtures("history")
async def test_each_that_lives_gets_its_vector_of_every_model(world: World) -> None:
    living = [row.content for row in await world.sql(LIVING)]
    assert len(living) > 50
    for generation in (1, 2):
        first, again = await embed(world, generation), await embed(world, generation)
        assert (first.opened >= len(living), again.turns, again.left) == (True, 0, 0)
        found = [row.content for row in await world.sql(WITH_VECTOR) if row.generation == generation]
        assert found == living


async def test_what_was_changed_in_bulk_after_it_was_embedded_is_embedded_once_more(
    world: World, history: History
) -> None:
    await embed(world)
    await append_bulk(world.database, HOST, history.events(400))
    await embed(world)
    assert (await embed(world)).left == 0
    assert [row.content for row in await world.sql(WITH_VECTOR)] == [row.content for row in await world.sql(LIVING)]


@pytest.mark.usefixtures("history")
async def test_one_that_is_corrected_is_embedded_anew_at_once(world: World) -> None:
    await embed(world)
    first = (await world.sql(LIVING))[0]
    await Units(world.database, now).correct(HOST, BANK_NAME, first.unit_id, "We fly to Bergen on Friday.")
    await Crew(world).drain(Stage.EMBEDDING)
    assert "We fly to Bergen on Friday." in [row.content for row in await world.sql(WITH_VECTOR)]
    assert (await embed(world)).turns == 0
