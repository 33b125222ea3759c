"""What was embedded along with a question is stored, so that no worker embeds it again."""

import numpy as np

from store.derived.unit_vectors import UnitsToEmbed, read_missing
from store.memory.documents import Documents, NewDocument, content_hash
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.recall.tail import UnembeddedText
from store.recall.vector_writeback import VectorWriteback
from tests.store.conftest import NOON, rows
from tests.store.recall.conftest import BANK, Memory

LONG = "The lighthouse keeper writes down every ship. " * 30


async def without_vectors(memory: Memory) -> list[str]:
    """Return the texts that a worker would still embed."""
    found = await rows(memory.database, memory.host, "select turn_id from afterturn.turn_t")
    wanted = [UnitsToEmbed(memory.bank, turn, facts=False) for (turn,) in found]
    async with memory.database.tenant(memory.host) as connection:
        units = await read_missing(connection, memory.host, memory.embedder.generation, wanted)
    return sorted(unit.content for unit in units)


def writeback(memory: Memory) -> VectorWriteback:
    kept = VectorWriteback(memory.database)
    memory.recaller = Recaller(memory.database, memory.embedder, memory.settings, writeback=kept)
    return kept


async def test_the_fresh_tail_is_embedded_once_by_whoever_is_first(memory: Memory) -> None:
    await memory.say("one", "two", "three")
    memory.settings = RecallSettings(fresh_tail_ms=0)
    kept = writeback(memory)
    before = await memory.ask("anything?")
    await kept.close()
    assert await without_vectors(memory) == ["one"]
    memory.recaller = None
    after = await memory.ask("anything?")
    assert memory.embedder.heard == [["anything?"], ["three", "two"], ["anything?"], ["one"]]
    assert {one.text for one in before.items} < {one.text for one in after.items}


async def test_a_text_that_was_corrected_meanwhile_does_not_get_the_vector_of_the_old_one(memory: Memory) -> None:
    await memory.say("one")
    [(unit,)] = await rows(memory.database, memory.host, "select unit_id from afterturn.agent_memory_unit_t")
    kept = VectorWriteback(memory.database)
    vector = {unit: np.full(384, 0.05, dtype=np.float32)}
    await memory.sql("update afterturn.agent_memory_unit_t set aggregate_version = 2 where unit_id = :u", u=unit)
    kept.keep(memory.host, memory.bank, memory.embedder.generation, [UnembeddedText(unit, "one", 1)], vector)
    await kept.close()
    assert await without_vectors(memory) == ["one"]


async def test_what_comes_while_a_write_runs_is_left_to_the_workers(memory: Memory) -> None:
    await memory.say("one", "two")
    found = await rows(memory.database, memory.host, "select unit_id, content from afterturn.agent_memory_unit_t")
    kept = VectorWriteback(memory.database)
    for unit, content in sorted(found, key=lambda row: str(row[1])):
        vector = {unit: np.full(384, 0.05, dtype=np.float32)}
        kept.keep(memory.host, memory.bank, memory.embedder.generation, [UnembeddedText(unit, content)], vector)
    await kept.close()
    assert await without_vectors(memory) == ["two"]


async def test_a_document_is_found_by_its_meaning_before_any_worker_saw_it(memory: Memory) -> None:
    await memory.say("The printer is out of toner.", "We ordered sandwiches.")
    await memory.embed_all()
    text = "Biscuit chewed up my slippers, that naughty puppy."
    for content in (LONG, text):
        document = NewDocument(BANK, content_hash(content.encode()), content)
        await Documents(memory.database, lambda: NOON).add(memory.host, document)
    answer = await memory.ask("Which animal does the person own?")
    assert memory.embedder.heard[1][0] == text
    found = {one.text: one.arms for one in answer.items}
    assert "dense" in found[text]
    assert any("lighthouse" in one and "dense" in arms for one, arms in found.items())
