"""The arm that knows entities: what is named, by any of its names, and what stands beside it."""

from uuid import UUID

from store import identity
from store.recall.entity_arm import asked_entities
from store.recall.settings import RankingSettings, RecallSettings
from tests.store.conftest import NOON
from tests.store.recall.conftest import BANK, Memory

WITH_ENTITIES = RecallSettings(ranking=RankingSettings(entity_weight=0.5))
ENTITY = """
    insert into afterturn.agent_memory_entity_t
        (host_id, entity_id, bank_id, canonical_name, mention_count, update_ts, update_user)
    values (:host, :entity, :bank, :name, 1, :noon, 'test')"""
MENTION = """
    insert into afterturn.agent_memory_unit_entity_t
        (host_id, bank_id, unit_id, entity_id, aggregate_version, name, kind)
    select u.host_id, u.bank_id, u.unit_id, :entity, 1, '', '' from afterturn.agent_memory_unit_t u
     where u.bank_id = :bank and u.content like :part"""
BESIDE = """
    insert into afterturn.agent_memory_entity_cooccur_t
        (host_id, bank_id, entity_id_1, entity_id_2, cooccur_count, last_cooccurred)
    values (:host, :bank,
            least(cast(:one as uuid), :other), greatest(cast(:one as uuid), :other), 3, :noon)"""


async def _named(memory: Memory, name: str, part: str) -> UUID:
    bank = identity.bank_id(memory.host, BANK)
    entity = identity.entity_id(bank, name)
    await memory.sql(ENTITY, host=memory.host, entity=entity, bank=bank, name=name, noon=NOON)
    await memory.sql(MENTION, entity=entity, bank=bank, part=f"%{part}%")
    return entity


async def test_a_unit_that_names_the_entity_is_found_by_it_and_what_stands_beside_less(memory: Memory) -> None:
    memory.settings = WITH_ENTITIES
    await memory.say("Biscuit sleeps.", "The vet was kind.", "It rains.")
    bank = identity.bank_id(memory.host, BANK)
    dog, vet = await _named(memory, "biscuit", "Biscuit"), await _named(memory, "dr lima", "vet")
    await memory.sql(BESIDE, host=memory.host, bank=bank, one=dog, other=vet, noon=NOON)
    answer = await memory.ask("How is Biscuit?", explain=True)
    found = {item.text: item.explain.arms["entities"].score for item in answer.items if item.explain}
    assert found["Biscuit sleeps."] > found["The vet was kind."] > found["It rains."] == 0


async def test_a_weight_of_nought_asks_the_database_nothing(memory: Memory) -> None:
    await memory.say("Biscuit sleeps.")
    await _named(memory, "biscuit", "Biscuit")
    answer = await memory.ask("How is Biscuit?", explain=True)
    assert all(item.explain and item.explain.arms["entities"].score == 0 for item in answer.items)


def test_one_two_and_three_words_may_be_a_name() -> None:
    bank = UUID(int=1)
    asked = asked_entities(bank, "Did Ana Lima's dog bark?")
    assert identity.entity_id(bank, "ana lima") in asked
    assert identity.entity_id(bank, "ana") in asked
    assert identity.entity_id(bank, "lima dog bark") in asked
