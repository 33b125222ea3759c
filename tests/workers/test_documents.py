"""A document passes the stages as a turn does, and leaves nothing derived behind when it is forgotten."""

import pytest

from store.ledger.stages import Stage
from store.memory.documents import Documents, NewDocument, content_hash
from tests.store.derived_rows import read_contents
from tests.workers.conftest import BANK, HOST, World, now
from tests.workers.stages import Crew

TEXT = "Karl Berger met Ann Moore in Kyoto.\n\n" + "They spoke of rain and of boats. " * 60


async def test_a_document_is_embedded_extracted_and_counted(world: World) -> None:
    documents, crew = Documents(world.database, now), Crew(world)
    document = NewDocument("default", content_hash(TEXT.encode()), TEXT, "trip.md")
    added = await documents.add(HOST, document)
    assert (await documents.add(HOST, document)).duplicate
    await crew.drain()
    for stage in (Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION):
        assert await world.statuses(stage) == ["done"]
    vectors = await world.sql("select count(*) as n from afterturn.unit_vector_t")
    named = await world.sql("select name from afterturn.entity_profile_t where kind = 'person' order by 1")
    counted = await world.sql("select units from afterturn.bank_statistics_t")
    assert (vectors[0].n, counted[0].units) == (added.units, added.units)
    assert [row.name for row in named] == ["Ann Moore", "Karl Berger"]


async def test_a_forgotten_document_leaves_nothing_derived_behind(world: World) -> None:
    documents, crew = Documents(world.database, now), Crew(world)
    added = await documents.add(HOST, NewDocument("default", content_hash(TEXT.encode()), TEXT))
    await crew.drain()
    await documents.forget(HOST, "default", added.doc_id)
    await crew.drain()
    async with world.database.tenant(HOST) as connection:
        left = await read_contents(connection, HOST, BANK)
    assert left.pop("bank_statistics_t") == [(0, 0)]
    assert {mentions for _, mentions in left.pop("agent_memory_entity_t")} == {0}
    assert not any(left.values())


@pytest.mark.law("L1")
@pytest.mark.parametrize("text", [TEXT, None], ids=["of itself", "of turns"])
async def test_a_content_may_be_forgotten_and_added_however_often(
    world: World, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    monkeypatch.setattr("store.memory.documents.LIVES_AT_ONCE", 2)
    await world.append()
    documents = Documents(world.database, now)
    document = NewDocument("default", content_hash(TEXT.encode()), text)
    add = documents.add if text else documents.register
    lives = set()
    for _ in range(5):
        added = await add(HOST, document)
        assert not added.duplicate
        assert (await add(HOST, document)).duplicate
        assert (await documents.get(HOST, "default", added.doc_id)).units == added.units
        lives.add(added.doc_id)
        await documents.forget(HOST, "default", added.doc_id)
    assert len(lives) == 5
