"""Facts beside the messages they were drawn from: folded into them, or standing for their turn."""

from uuid import UUID, uuid4

from tests.store.conftest import rows
from tests.store.recall.conftest import Memory
from tests.store.recall.test_recaller import CHATTER


async def test_a_fact_folds_into_the_message_it_was_drawn_from(memory: Memory) -> None:
    await memory.say(*CHATTER, "I moved to Lisbon in May.")
    fact = await _add_fact(memory, "The user lives in Lisbon.", source="I moved to Lisbon in May.")
    await memory.embed_all()
    found = (await memory.ask("Who lives in Lisbon?")).items
    assert found[0].text == "I moved to Lisbon in May."
    assert fact not in {item.unit_id for item in found}


async def test_a_fact_whose_message_is_filtered_out_stands_for_its_turn(memory: Memory) -> None:
    await memory.say("I moved to Lisbon in May.")
    fact = await _add_fact(memory, "The user lives in Lisbon.", source="I moved to Lisbon in May.")
    await memory.embed_all()
    (found,) = (await memory.ask("Who lives in Lisbon?", kinds=["world"])).items
    assert (found.unit_id, found.kind, found.turn_name) == (fact, "world", "s1-I moved to Lisbon in May.")


async def test_a_fact_that_no_worker_has_written_is_found_by_its_meaning(memory: Memory) -> None:
    await memory.say(*CHATTER, "I moved to Lisbon in May.")
    found = (await memory.ask("Which town is home now?", kinds=["world"], without=["lexical"])).items
    assert [(one.text, one.arms) for one in found] == [("The user moved to Lisbon.", ("dense",))]
    assert memory.embedder.heard[-1] == ["The user moved to Lisbon."]


async def _add_fact(memory: Memory, content: str, source: str) -> UUID:
    """Write a fact and its words as extraction does, and close the turn's rows: the rules would find it again."""
    fact = uuid4()
    ((unit, session),) = await rows(
        memory.database,
        memory.host,
        "select unit_id, session_id from afterturn.agent_memory_unit_t where content = :source",
        source=source,
    )
    await memory.sql(
        """insert into afterturn.agent_memory_unit_t
               (host_id, unit_id, bank_id, content, event_date, fact_type, source_memory_ids, user_id, origin,
                session_id, turn_id, session_name, turn_name, position, update_ts, update_user)
           select host_id, :fact, bank_id, :content, event_date, 'world', array[unit_id], user_id, 'extraction',
                  session_id, turn_id, session_name, turn_name, position, update_ts, update_user
             from afterturn.agent_memory_unit_t where unit_id = :unit""",
        fact=fact,
        content=content,
        unit=unit,
    )
    await memory.sql(
        """insert into afterturn.unit_word_t (host_id, bank_id, unit_id, session_id, length, terms)
           values (:host, :bank, :fact, :session, 4, '{"user": 1, "live": 1, "lisbon": 1}')""",
        host=memory.host,
        bank=memory.bank,
        fact=fact,
        session=session,
    )
    await memory.sql("update afterturn.ledger_t set status = 'done' where stage in ('extraction', 'projection')")
    return fact
