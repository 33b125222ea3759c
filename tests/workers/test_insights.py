"""From turns to what a bank knows beyond them: changed and repeated facts, names that mean the same, links."""

import asyncio
import json
from collections import Counter
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import store.derived.reflections as reflections_module
from store.derived.readings import FollowUp, open_follow_ups
from store.derived.reflections import READ_FOR_LIST
from store.derived.temporal_links import link_weight
from store.derived.unit_vectors import derive_reembedding_id, find_reflections_without_vectors
from store.erasure import Erasures, ErasureTarget, Kind
from store.ledger.stages import Stage
from store.log.catalog import EventType
from store.memory.turns import NewMessage
from store.memory.units import Units
from store.replay import swap_tables, verify_log
from tests.generations import make_live
from tests.patience import PATIENCE_S
from tests.workers.conftest import BANK, HOST, START, World, dialogue, now, turn_uuid
from tests.workers.stages import Crew, KnownEmbedder, held


async def say(world: World, *said: str) -> Crew:
    """Say each in a turn of its own, and work it through before the next."""
    crew = Crew(world)
    await make_live(world.database, crew.embedder)
    for words in said:
        number = await world.sql("select count(*) as n from afterturn.turn_t")
        await world.append("s", f"t{number[0].n}", messages=dialogue(words, "I see."))
        await crew.drain(Stage.EXTRACTION, Stage.PROJECTION)
    return crew


async def reflections(world: World) -> list[str]:
    rows = await world.sql("select content from afterturn.agent_memory_reflection_t where active order by 1")
    return [row.content for row in rows]


async def test_a_fact_that_changed_and_one_that_was_repeated_are_reflections(world: World) -> None:
    await say(world, "I live in Porto. I prefer window seats.", "I moved to Lisbon.", "I prefer window seats.")
    evolved, stable = await reflections(world)
    assert evolved == (
        "fact_evolution user_home::home: Porto (2026-03-01) -> Lisbon (2026-03-01). The user moved to Lisbon."
    )
    assert stable.startswith("fact_stability user_preference::preference = window seats, stated in 2 turns since 2026")


async def test_facts_of_one_moment_follow_in_the_order_of_their_turns_in_whatever_order_these_were_read(
    world: World,
) -> None:
    """As of a history that came in without times, in many sessions."""
    for n, said in enumerate(["I live in Porto.", "I moved to Lisbon."]):
        await world.append(f"s{n}", f"t{n}", messages=dialogue(said, "I see."))
    await world.sql(
        "update afterturn.ledger_t set next_attempt_at = now() + interval '1 hour'"
        " where stage = 'extraction' and turn_id = :turn",
        turn=turn_uuid("s0", "t0"),
    )
    crew = Crew(world)
    await crew.drain(Stage.EXTRACTION, Stage.PROJECTION)
    await world.forget_backoff()
    await crew.drain(Stage.EXTRACTION, Stage.PROJECTION)
    facts = await world.sql(
        "select value, valid_from, valid_to is null as holds from afterturn.fact_t order by position"
    )
    assert [(fact.value, fact.holds) for fact in facts] == [("lisbon", True), ("porto", False)]
    assert len({fact.valid_from for fact in facts}) == 1
    assert (await reflections(world))[0].startswith("fact_evolution user_home::home: Porto")
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    assert all(one.equal for one in report.derived)


async def test_two_sisters_are_two_facts_and_a_list(world: World) -> None:
    await say(world, "My sister is called Anna.", "My sister is called Maria.", "I like jazz.")
    assert await reflections(world) == ["The user's sister is called: Anna; Maria."]
    assert {row.valid_to for row in await world.sql("select valid_to from afterturn.fact_t")} == {None}


async def test_a_list_grows_with_its_facts_and_ends_with_the_last_but_one(world: World) -> None:
    crew = await say(world, "I visited Porto.", "My favourite dish is goulash.", "My favourite colour is blue.")
    assert await reflections(world) == []
    await say(world, "We went to Ghent.", "I visited Granada.")
    assert await reflections(world) == ["The user visited: Porto; Ghent; Granada."]
    await say(world, "I visited Porto again.")
    assert "The user visited: Ghent; Granada; Porto." in await reflections(world)
    units = Units(world.database, now)
    for place, left in (("granada", ["The user visited: Ghent; Porto."]), ("ghent", [])):
        [fact] = await world.sql("select unit_id from afterturn.fact_t where value = :place", place=place)
        await units.forget(HOST, "default", fact.unit_id)
        await crew.drain(Stage.PROJECTION)
        assert [one for one in await reflections(world) if not one.startswith("fact_")] == left
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    assert all(one.equal for one in report.derived)


async def test_a_list_holds_the_newest_of_very_many_facts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.derived.insights.LISTED", 2)
    await say(world, "I visited Porto.", "We went to Ghent.", "I visited Granada.")
    assert await reflections(world) == ["The user visited: Ghent; Granada."]


async def test_a_list_is_drawn_from_the_newest_statements_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of facts of one moment those of later turns."""
    monkeypatch.setattr("store.derived.reflections.READ_FOR_LIST", 3)
    await say(world, "I visited Porto.", "We went to Ghent.", "I visited Granada.", "I visited Granada.")
    assert "The user visited: Ghent; Granada." in await reflections(world)


async def test_a_list_keeps_a_member_however_often_another_one_is_said_again(world: World) -> None:
    await say(world, "I went swimming.", "I went running.")
    for n in range(READ_FOR_LIST):
        await world.append("again", f"t{n}", messages=dialogue("I went running.", "I see."))
    await Crew(world).drain(Stage.EXTRACTION, Stage.PROJECTION)
    assert "The user goes: swimming; running." in await reflections(world)


async def test_likes_and_favourites_are_no_list(world: World) -> None:
    await say(world, "I love hiking. My favourite dish is goulash.", "I love skiing. My favourite colour is blue.")
    assert await reflections(world) == []


async def test_a_list_is_derived_once_however_many_identities_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.derived.reflections.AT_ONCE", 2)
    asked = list[Any]()

    async def derive(connection: Any, origin: Any, kinds: Any) -> Any:
        asked.extend(kinds)
        return await derive_lists(connection, origin, kinds)

    derive_lists = reflections_module._derive_lists
    monkeypatch.setattr(reflections_module, "_derive_lists", derive)
    await say(world, "I visited Porto. I visited Ghent. I visited Granada. I visited Lyon. I visited Oslo.")
    assert await reflections(world) == ["The user visited: Porto; Ghent; Granada; Lyon; Oslo."]
    assert [fact_id for fact_id, _ in asked] == ["user_visited"]


async def test_an_insight_is_made_once_whatever_is_delivered_again(world: World) -> None:
    crew = await say(world, "I live in Porto.", "I moved to Lisbon.")
    await world.sql("update afterturn.ledger_t set status = 'pending' where stage = 'extraction'")
    await crew.drain(Stage.EXTRACTION, Stage.PROJECTION)
    events = await world.sql("select event_type from afterturn.event_store_t where aggregate_type like '%Reflection'")
    assert [row.event_type for row in events] == [EventType.REFLECTION_CREATED]


async def test_an_insight_ends_with_the_facts_it_stands_on(world: World) -> None:
    crew = await say(world, "I live in Porto.", "I moved to Lisbon.")
    [porto] = await world.sql("select unit_id from afterturn.fact_t where value = 'porto'")
    await Units(world.database, now).forget(HOST, "default", porto.unit_id)
    await crew.drain(Stage.PROJECTION)
    assert await reflections(world) == []
    assert await world.statuses(Stage.PROJECTION) == ["done"] * 3
    links = await world.sql("select active from afterturn.agent_memory_link_t where link_type = 'temporal'")
    assert [row.active for row in links] == [False]


VECTORS = """
    select r.content, r.active, v.embedding::text as vector, h.embedding::text as shown
      from afterturn.agent_memory_reflection_t r
      left join afterturn.unit_vector_t v
        on v.host_id = r.host_id and v.bank_id = r.bank_id and v.unit_id = r.reflection_id
      join hindsight.agent_memory_reflection_t h on h.reflection_id = r.reflection_id"""


async def vectors(world: World) -> list[Any]:
    """Say of each reflection whether its vector is that of what it says, None where it has none."""
    return [
        row.vector and row.shown == row.vector and near(row.vector, row.content) for row in await world.sql(VECTORS)
    ]


def near(vector: str, content: str) -> bool:
    return bool(np.array(json.loads(vector)) @ KnownEmbedder().vector(content) > 0.999)


async def test_a_reflection_is_embedded_anew_whenever_it_says_something_else(world: World) -> None:
    crew = await say(world, "I live in Porto.", "I moved to Lisbon.")
    assert await vectors(world) == [None]
    await crew.drain()
    assert await vectors(world) == [True]
    await say(world, "I moved to Kyoto.")
    assert await vectors(world) == [None]
    report = await verify_log(world.postgres.owner_url)
    assert all(one.equal for one in report.derived)
    await crew.drain()
    assert await vectors(world) == [True]


async def test_a_reflection_that_ends_leaves_no_vector(world: World) -> None:
    crew = await say(world, "I live in Porto.", "I moved to Lisbon.")
    await crew.drain()
    [porto] = await world.sql("select unit_id from afterturn.fact_t where value = 'porto'")
    await Units(world.database, now).forget(HOST, "default", porto.unit_id)
    await crew.drain()
    assert await vectors(world) == [None]


async def test_a_reflection_that_changes_while_it_is_embedded_gets_no_vector_of_what_it_said(world: World) -> None:
    await say(world, "I live in Porto.", "I moved to Lisbon.")
    embedder = held()
    work = asyncio.create_task(Crew(world, embedder=embedder).drain(Stage.EMBEDDING))
    await asyncio.wait_for(embedder.begun.wait(), PATIENCE_S)
    await say(world, "I moved to Kyoto.")
    embedder.may_end.set()
    await asyncio.wait_for(work, PATIENCE_S)
    await Crew(world).drain()
    assert await vectors(world) == [True]


@pytest.mark.law("L11")
@pytest.mark.parametrize("kind", [Kind.BANK, Kind.SESSION])
async def test_what_is_erased_takes_the_vectors_of_reflections_along(world: World, kind: Kind) -> None:
    crew = await say(world, "I live in Porto.", "I moved to Lisbon.")
    await crew.drain()
    erasures = Erasures(world.database, now)
    target = ErasureTarget(kind, "default", "s" if kind is Kind.SESSION else "")
    await erasures.run(HOST, await erasures.request(HOST, target))
    assert await world.sql("select 1 from afterturn.unit_vector_t") == []
    await crew.drain()
    assert await world.sql("select 1 from afterturn.unit_vector_t") == []


@pytest.mark.law("L5")
async def test_a_swap_keeps_the_vector_of_a_reflection_unless_it_said_something_else(world: World) -> None:
    crew = await say(world, "I live in Porto.", "I moved to Lisbon.")
    await crew.drain()
    await swap_tables(world.postgres.owner_url)
    assert await vectors(world) == [True]
    for pruned in (False, True):
        if pruned:
            await world.sql("delete from afterturn.ledger_t where stage = 'embedding'")
        await world.sql("update afterturn.agent_memory_reflection_t set content = 'else'")
        await swap_tables(world.postgres.owner_url)
        assert await vectors(world) == [None]
        await crew.drain()
        assert await vectors(world) == [True]


async def test_reflections_without_a_vector_of_a_model_are_found_among_what_lacks_one(world: World) -> None:
    crew = await say(world, "I live in Porto.", "I moved to Lisbon.")
    await crew.drain()
    async with world.database.tenant(HOST) as connection:
        assert await find_reflections_without_vectors(connection, HOST, 1, bank=None, after=0, limit=10) == []
        [one] = await find_reflections_without_vectors(connection, HOST, 2, bank=BANK, after=0, limit=10)
        assert (
            await find_reflections_without_vectors(connection, HOST, 2, bank=BANK, after=one.position, limit=10) == []
        )
        item = derive_reembedding_id(one.turn, 2, one.position)
        follow_up = FollowUp(Stage.EMBEDDING, item, item, one.bank, one.session, one.turn, one.position, START)
        await open_follow_ups(connection, HOST, [follow_up])
    await Crew(world, embedder=KnownEmbedder(generation=2)).drain()
    found = await world.sql(
        "select generation from afterturn.unit_vector_t v "
        "join afterturn.agent_memory_reflection_t r on r.reflection_id = v.unit_id order by 1"
    )
    assert [row.generation for row in found] == [1, 2]


async def test_a_reflection_that_changed_since_it_was_embedded_again_is_embedded_once_more(world: World) -> None:
    crew = await say(world, "I live in Porto.", "I moved to Lisbon.")
    await crew.drain()
    opened = []
    for place in ("Madrid", "Rome"):
        async with world.database.tenant(HOST) as connection:
            [one] = await find_reflections_without_vectors(connection, HOST, 2, bank=BANK, after=0, limit=10)
            item = derive_reembedding_id(one.turn, 2, one.position)
            row = FollowUp(Stage.EMBEDDING, item, item, one.bank, one.session, one.turn, one.position, START)
            opened.append(await open_follow_ups(connection, HOST, [row]))
        await Crew(world, embedder=KnownEmbedder(generation=2)).drain()
        await (await say(world, f"I moved to {place}.")).drain()
    assert opened == [1, 1]


async def test_a_unit_tells_until_when_it_holds_and_what_took_its_place(world: World) -> None:
    await say(world, "I live in Porto.", "I moved to Lisbon.")
    facts = {row.value: row.unit_id for row in await world.sql("select value, unit_id from afterturn.fact_t")}
    porto = await Units(world.database, now).get(HOST, "default", facts["porto"])
    lisbon = await Units(world.database, now).get(HOST, "default", facts["lisbon"])
    assert (porto.valid_to, porto.superseded_by) == (lisbon.valid_from, facts["lisbon"])
    assert (lisbon.valid_to, lisbon.superseded_by) == (None, None)


@pytest.mark.parametrize(
    "said, same",
    [
        (("Zoë came to Ghent.", "I met Zoe in Ghent."), {"zoë": "zoe", "zoe": "zoe"}),
        (("Ana Lima is here.", "Did Ana call?"), {"ana": "ana lima", "ana lima": "ana lima"}),
        (("Ana Lima is here.", "Ana Costa too.", "Did Ana call?"), {"ana": "ana"}),
    ],
)
async def test_names_that_mean_the_same_are_one_entity(
    world: World, said: tuple[str, ...], same: dict[str, str]
) -> None:
    await say(world, *said)
    rows = await world.sql("""
        select e.metadata->>'normalised' as name, c.metadata->>'normalised' as canonical
          from afterturn.entity_profile_t p
          join afterturn.agent_memory_entity_t e on e.entity_id = p.entity_id
          join afterturn.agent_memory_entity_t c on c.entity_id = p.canonical_id""")
    found = {row.name: row.canonical for row in rows}
    canonical = {name: found[name] for name in same}
    assert len(set(canonical.values())) == len(set(same.values()))
    if "ana" in same:
        assert canonical == same


async def test_facts_of_a_turn_follow_each_other_and_messages_share_what_they_name(world: World) -> None:
    messages = dialogue("My name is Karl and I live in Porto.", "Porto is lovely, Karl.")
    await world.append("s", "t", messages=messages)
    await Crew(world).drain(Stage.EXTRACTION)
    links = await world.sql("select link_type from afterturn.agent_memory_link_t where bank_id = :bank", bank=BANK)
    assert Counter(row.link_type for row in links) == {"semantic": 2, "temporal": 1, "entity": 1}


LINKED = """
    select f.metadata->>'value' as former, l.metadata->>'value' as later, k.weight
      from afterturn.agent_memory_link_t k
      join afterturn.agent_memory_unit_t f on f.unit_id = k.from_unit_id
      join afterturn.agent_memory_unit_t l on l.unit_id = k.to_unit_id
     where k.link_type = 'temporal' and k.active order by f.position, l.position"""


async def test_facts_of_turns_that_follow_each_other_in_a_session_are_linked_once(world: World) -> None:
    crew = await say(world, "I like tea.", "Where is it?", "My name is Karl and I live in Porto.", "I like jazz.")
    await world.append("another", "t", messages=dialogue("I like snow."))
    await crew.drain(Stage.EXTRACTION, Stage.PROJECTION)
    expected = [("tea", "Karl", 0.99), ("Karl", "Porto", 1.0), ("Porto", "jazz", 0.99)]
    assert [tuple(row) for row in await world.sql(LINKED)] == expected
    await world.sql("update afterturn.ledger_t set status = 'pending' where stage = 'projection'")
    await crew.drain(Stage.PROJECTION)
    assert [tuple(row) for row in await world.sql(LINKED)] == expected


async def test_a_fact_that_took_anothers_place_is_linked_for_that_alone_and_a_later_one_for_both(world: World) -> None:
    await say(world, "I live in Porto.", "I moved to Lisbon.", "I moved to Rome.")
    assert [tuple(row) for row in await world.sql(LINKED)] == [("Porto", "Lisbon", 1.0), ("Lisbon", "Rome", 1.0)]


@pytest.mark.law("L5")
@pytest.mark.parametrize("order", [("s0", "z", "s1"), ("s0", "s1", "z"), ("z", "s0", "s1")])
async def test_the_links_of_facts_are_the_same_in_whatever_order_sessions_were_read(
    world: World, order: tuple[str, ...]
) -> None:
    """Of another session a fact that stands between two of this one, read before, between or after them."""
    said = {
        "s0": ("s", "I live in Porto.", START),
        "z": ("z", "I moved to Rome.", START + timedelta(minutes=5)),
        "s1": ("s", "I moved to Lisbon.", START + timedelta(minutes=10)),
    }
    crew = Crew(world)
    for name in order:
        session, words, at = said[name]
        await world.append(session, name, messages=[NewMessage("user", words, occurred_at=at)])
        await crew.drain(Stage.EXTRACTION, Stage.PROJECTION)
    links = {(row.former, row.later, round(row.weight, 2)) for row in await world.sql(LINKED)}
    assert links == {("Porto", "Rome", 1.0), ("Rome", "Lisbon", 1.0), ("Porto", "Lisbon", 0.99)}
    report = await verify_log(world.postgres.owner_url)
    assert report.equal


async def test_turns_in_one_batch_are_linked_as_turns_one_by_one(world: World) -> None:
    for n, said in enumerate(("I live in Porto.", "I like jazz.", "I like tea.")):
        await world.append("s", f"t{n}", messages=dialogue(said))
    await Crew(world).drain(Stage.EXTRACTION, Stage.PROJECTION)
    assert [row[:2] for row in await world.sql(LINKED)] == [("Porto", "jazz"), ("jazz", "tea")]


@pytest.mark.parametrize("hours,expected", [(0, 0.99), (12, 0.645), (24, 0.3)])
def test_the_longer_ago_the_less_a_link_weighs(hours: int, expected: float) -> None:
    assert link_weight(timedelta(hours=hours)) == expected
