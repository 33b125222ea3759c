"""Direct readers of the database are shown vectors of the model that the service embeds with, of no other."""

import json

import numpy as np
import pytest

from store.ledger.stages import Stage
from tests.generations import make_live
from tests.workers.conftest import World
from tests.workers.stages import Crew, KnownEmbedder

SHOWN = """
    select u.content, u.embedding::text as vector from hindsight.agent_memory_unit_t u
    union all
    select r.content, r.embedding::text from hindsight.agent_memory_reflection_t r"""
AGAIN = """
    insert into afterturn.unit_vector_t
    select host_id, bank_id, unit_id, chunk, :generation, (array_fill(0, array[384])::public.halfvec - embedding)
      from afterturn.unit_vector_t"""


async def shown(world: World) -> list[float | None]:
    """How near each shown vector is to that of its text by the first model; None where none is shown."""
    rows = await world.sql(SHOWN)
    first = KnownEmbedder()
    return [
        None if row.vector is None else round(float(np.array(json.loads(row.vector)) @ first.vector(row.content)), 2)
        for row in rows
    ]


@pytest.mark.parametrize("newer", [7, 3])
async def test_the_views_show_the_live_models_vectors_whatever_its_number(world: World, newer: int) -> None:
    first = KnownEmbedder(generation=5)
    await world.append(session="s", turn="t")
    await Crew(world, first).drain(Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION, Stage.EMBEDDING)
    texts = len(await shown(world))
    assert texts > 1
    assert await shown(world) == [None] * texts, "no process has said which model is live"
    await make_live(world.database, first)
    assert await shown(world) == [1.0] * texts
    await make_live(world.database, KnownEmbedder(name="newer", generation=newer))
    assert await shown(world) == [None] * texts, "what the live model has not come to has no vector yet"
    await world.sql(AGAIN, generation=newer)
    assert await shown(world) == [-1.0] * texts
    await make_live(world.database, first)
    assert await shown(world) == [1.0] * texts


@pytest.mark.parametrize("dimension", [3, 1024, 4000])
async def test_the_views_show_null_where_the_live_models_vectors_have_another_dimension(
    world: World, dimension: int
) -> None:
    await world.append(session="s", turn="t")
    crew = Crew(world, KnownEmbedder(generation=5, dimensions=dimension))
    await crew.drain(Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION, Stage.EMBEDDING)
    await make_live(world.database, crew.embedder)
    stored = await world.sql("select distinct public.vector_dims(embedding) as n from afterturn.unit_vector_t")
    assert [row.n for row in stored] == [dimension]
    assert set(await shown(world)) == {None}
