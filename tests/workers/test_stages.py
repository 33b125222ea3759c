"""Each stage's result, and that doing it twice changes nothing."""

import asyncio
from uuid import UUID

from sqlalchemy import Executable

from store.derived import projection
from store.ledger.stages import Stage
from store.log.catalog import EventType
from store.memory.turns import NewTurn
from store.text.terms import analyse_text
from tests.patience import until
from tests.workers.conftest import BANK, HOST, World, dialogue
from tests.workers.gateways import gateway
from tests.workers.stages import Crew, KnownEmbedder, held

TABLES = (
    "event_store_t",
    "agent_memory_unit_t",
    "agent_memory_entity_t",
    "agent_memory_unit_entity_t",
    "agent_memory_entity_cooccur_t",
    "agent_memory_link_t",
    "unit_word_t",
    "posting_t",
    "term_t",
    "bank_statistics_t",
    "unit_vector_t",
)


async def tables(world: World) -> dict[str, list[str]]:
    return {
        name: sorted(str(tuple(row)) for row in await world.sql(f"select * from afterturn.{name}")) for name in TABLES
    }


async def a_conversation(world: World) -> None:
    texts = (
        ("I live in Lisbon and my email is ann@example.com.", "Noted, Ann: you live in Lisbon."),
        ("Please meet Karl Berger in Kyoto on 8 May 2023.", "I will meet Karl Berger in Kyoto."),
        ("Karl Berger moved from Kyoto to Lisbon.", "So Karl Berger is in Lisbon now."),
    )
    for n, (user, assistant) in enumerate(texts):
        await world.append("s", f"t{n}", messages=dialogue(user, assistant))


async def test_every_stage_of_a_turn_ends(world: World) -> None:
    with gateway() as foreign:
        await world.hand_to(foreign.url)
        await a_conversation(world)
        async with Crew(world) as crew:
            await crew.drain()
    for stage, status in (
        (Stage.GATEWAY, "flushed"),
        (Stage.EXTRACTION, "done"),
        (Stage.EMBEDDING, "done"),
        (Stage.PROJECTION, "done"),
    ):
        assert set(await world.statuses(stage)) == {status}, stage
    assert await world.sql("select 1 from afterturn.claim_t") == []


async def test_extraction_links_what_messages_name_and_keeps_facts_beside_their_source(world: World) -> None:
    await a_conversation(world)
    crew = Crew(world)
    await crew.drain(Stage.EXTRACTION)
    names = await world.sql("""
        select u.content, e.canonical_name from afterturn.agent_memory_unit_entity_t l
          join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
          join afterturn.agent_memory_entity_t e using (host_id, bank_id, entity_id)""")
    assert ("Karl Berger moved from Kyoto to Lisbon.", "Kyoto") in {tuple(row) for row in names}
    facts = await world.sql("""
        select f.content, f.fact_type, f.source_memory_ids, s.unit_id, l.link_type, f.session_id = s.session_id as here
          from afterturn.agent_memory_unit_t f
          join afterturn.agent_memory_link_t l on l.from_unit_id = f.unit_id
          join afterturn.agent_memory_unit_t s on s.unit_id = l.to_unit_id
         where f.origin = 'extraction' and s.origin = 'message'""")
    assert facts
    assert all(row.fact_type == "world" and row.source_memory_ids == [row.unit_id] and row.here for row in facts)
    assert {Stage.PROJECTION, Stage.EMBEDDING} <= set(crew.notified)


async def test_what_extraction_found_stands_where_its_events_say(world: World) -> None:
    """In characters: the smiley is one, though two in UTF-16 and four in UTF-8."""
    said = dialogue("😀 I live in Kyoto. Zoë Moore left Kyoto on 8 May 2023.", "😀 Is Zoë Moore well?")
    await world.append(messages=said)
    await Crew(world).drain(Stage.EXTRACTION)
    events = "select data from afterturn.event_store_t where event_type = :type"
    units = await world.sql("select unit_id::text as id, content from afterturn.agent_memory_unit_t")
    content = {row.id: row.content for row in units}
    links = [row.data for row in await world.sql(events, type=EventType.UNIT_ENTITY_LINKED)]
    named = [(link["name"], [content[link["unitId"]][slice(*span)] for span in link["spans"]]) for link in links]
    assert sorted(named) == [
        ("2023-05-08", ["8 May 2023"]),
        ("Kyoto", ["Kyoto", "Kyoto"]),
        ("Zoë Moore", ["Zoë Moore"]),
        ("Zoë Moore", ["Zoë Moore"]),
    ]
    retained = [row.data for row in await world.sql(events, type=EventType.UNIT_RETAINED)]
    [fact] = [data for data in retained if data["origin"] == "extraction"]
    start, end = map(int, fact["metadata"]["span"].split(":"))
    assert content[fact["sourceMemoryIds"][0]][start:end] == fact["metadata"]["value"] == "Kyoto"


async def test_a_fact_is_found_by_its_words_and_embedded_as_a_follow_up_of_its_turn(world: World) -> None:
    await a_conversation(world)
    crew = Crew(world)
    await crew.drain(Stage.EXTRACTION)
    facts = await world.sql("""
        select unit_id, turn_id, content, position from afterturn.agent_memory_unit_t where origin = 'extraction'""")
    for fact in facts:
        words = await world.sql("select terms from afterturn.unit_word_t where unit_id = :unit", unit=fact.unit_id)
        assert set(analyse_text(fact.content).counts) <= set(words[0].terms)
    follow_ups = await world.sql("""
        select turn_id, position from afterturn.ledger_t where stage = 'embedding' and item_id <> turn_id""")
    assert {row.turn_id for row in follow_ups} == {fact.turn_id for fact in facts}
    for row in follow_ups:
        assert row.position == min(fact.position for fact in facts if fact.turn_id == row.turn_id)
    await crew.drain(Stage.EMBEDDING)
    embedded = {row.unit_id for row in await world.sql("select unit_id from afterturn.unit_vector_t")}
    assert {fact.unit_id for fact in facts} <= embedded


async def test_embedding_writes_the_vector_of_every_unit_in_one_batch(world: World) -> None:
    await a_conversation(world)
    crew = Crew(world)
    await crew.drain(Stage.EMBEDDING)
    assert [len(batch) for batch in crew.embedder.batches] == [6]
    rows = await world.sql("""
        select u.content, v.embedding::text as embedding, v.generation, v.chunk from afterturn.unit_vector_t v
          join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)""")
    assert len(rows) == 6
    for row in rows:
        stored = [float(x) for x in row.embedding.strip("[]").split(",")]
        expected = crew.embedder.vector(row.content)
        assert max(abs(a - b) for a, b in zip(stored, expected, strict=True)) < 1e-3
        assert (row.generation, row.chunk) == (1, 0)


async def test_while_the_model_is_at_one_piece_the_next_is_read_already(world: World) -> None:
    for n in range(40):
        await world.append(f"s{n}", "t", messages=dialogue(f"Question {n}?", f"Answer {n}."))
    crew = Crew(world, held())
    draining = asyncio.ensure_future(crew.drain(Stage.EMBEDDING))
    await until(lambda: [len(batch) for batch in crew.embedder.batches] == [64, 16], "the model has two pieces")
    crew.embedder.may_end.set()
    await draining
    assert set(await world.statuses(Stage.EMBEDDING)) == {"done"}


async def test_texts_of_many_hosts_are_embedded_apart_and_each_written_to_its_own(world: World) -> None:
    other = UUID(int=7)
    await world.sql("insert into afterturn.host_t (host_id, name) values (:host, 'other')", host=other)
    await world.append()
    await world.turns.append(other, [NewTurn("default", "s", "t", dialogue("Who is there?", "Somebody."))])
    crew = Crew(world)
    await crew.drain(Stage.EMBEDDING)
    assert [len(batch) for batch in crew.embedder.batches] == [2, 2]
    rows = await world.sql("""
        select v.host_id, u.content, v.embedding::text as embedding from afterturn.unit_vector_t v
          join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)""")
    assert {row.host_id for row in rows} == {HOST, other}
    for row in rows:
        stored = [float(x) for x in row.embedding.strip("[]").split(",")]
        assert max(abs(a - b) for a, b in zip(stored, crew.embedder.vector(row.content), strict=True)) < 1e-3


async def test_a_forgotten_unit_gets_no_vector(world: World) -> None:
    await a_conversation(world)
    await world.sql("update afterturn.agent_memory_unit_t set active = false where ordinal = 0")
    crew = Crew(world, KnownEmbedder())
    await crew.drain(Stage.EMBEDDING)
    assert len(await world.sql("select 1 from afterturn.unit_vector_t")) == 3
    assert set(await world.statuses(Stage.EMBEDDING)) == {"done"}


async def test_one_text_that_cannot_be_embedded_does_not_hold_up_its_batch(world: World) -> None:
    await a_conversation(world)
    crew = Crew(world, KnownEmbedder(poison="Kyoto on 8 May"), max_attempts=1)
    await crew.drain(Stage.EMBEDDING)
    assert await world.statuses(Stage.EMBEDDING) == ["done", "dead", "done"]
    rows = await world.sql("select error_category, error_reason from afterturn.ledger_t where status = 'dead'")
    assert [tuple(row) for row in rows] == [("embedding", "EmbeddingError")]


async def test_every_stage_done_twice_is_done_once(world: World) -> None:
    """L2: the rows are opened again behind the workers' back, as a replayed ledger would."""
    await a_conversation(world)
    crew = Crew(world)
    await crew.drain()
    before = await tables(world)
    await world.sql("""
        update afterturn.ledger_t set status = 'pending', attempts = 0
         where stage in ('extraction', 'embedding')""")
    await crew.drain()
    assert await tables(world) == before


async def test_the_projection_counts_what_a_count_from_nothing_gives(world: World) -> None:
    await a_conversation(world)
    await Crew(world).drain()
    await projections_hold(world)
    assert (await world.sql("select max(cooccur_count) as most from afterturn.agent_memory_entity_cooccur_t"))[
        0
    ].most > 1


async def projections_hold(world: World) -> None:
    """Compare the derived tables with a count from nothing."""
    place = {"host": HOST, "bank": BANK}

    async def same(actual: str, expected: Executable) -> None:
        found = [tuple(row) for row in await world.sql(actual, **place)]
        wanted = [tuple(row) for row in await world.sql(expected, **place)]
        assert found == wanted

    where = "where host_id = :host and bank_id = :bank"
    await same(
        "select entity_id_1, entity_id_2, cooccur_count, last_cooccurred"
        f" from afterturn.agent_memory_entity_cooccur_t {where} order by 1, 2",
        projection.EXPECTED_PAIRS,
    )
    await same(
        f"select entity_id, mention_count from afterturn.agent_memory_entity_t {where} order by 1",
        projection.EXPECTED_MENTIONS,
    )
    await same(f"select term, df from afterturn.term_t {where} order by 1", projection.EXPECTED_TERMS)
    await same(f"select units, tokens from afterturn.bank_statistics_t {where}", projection.EXPECTED_STATISTICS)
