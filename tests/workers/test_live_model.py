"""Direct readers of the database are shown vectors of the model that the service embeds with, of no other."""

import json

import numpy as np
import pytest

from store.ledger.stages import Stage
from store.tenancy.external_models import note_live_model
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


@pytest.mark.parametrize("newer", [7, -3])
async def test_the_views_show_the_live_models_vectors_whatever_its_number(world: World, newer: int) -> None:
    await world.append(session="s", turn="t")
    await Crew(world).drain(Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION, Stage.EMBEDDING)
    texts = len(await shown(world))
    assert texts > 1
    assert await shown(world) == [None] * texts, "no process has said which model is live"
    await note_live_model(world.database, KnownEmbedder())
    assert await shown(world) == [1.0] * texts
    await note_live_model(world.database, KnownEmbedder(name="newer", generation=newer))
    assert await shown(world) == [None] * texts, "what the live model has not come to has no vector yet"
    await world.sql(AGAIN, generation=newer)
    assert await shown(world) == [-1.0] * texts
    await note_live_model(world.database, KnownEmbedder())
    assert await shown(world) == [1.0] * texts
