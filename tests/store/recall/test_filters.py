"""What a question leaves out: other sessions, kinds and tags, what happened later, what was not known by then."""

from datetime import timedelta
from typing import Any

from store.memory.turns import NewMessage
from tests.store.conftest import NOON
from tests.store.recall.conftest import Memory


async def test_only_and_without_a_session(memory: Memory) -> None:
    await memory.say("the blue kayak is here", session="a")
    await memory.say("the blue kayak is there", session="b")
    await memory.embed_all()
    asked = "where is the blue kayak?"
    assert await memory.texts(asked, session_name="a", only_session=True) == ["the blue kayak is here"]
    assert await memory.texts(asked, session_name="a", exclude_session=True) == ["the blue kayak is there"]
    assert len(await memory.texts(asked, session_name="a")) == 2


async def test_filters_hold_in_the_fresh_tail_too(memory: Memory) -> None:
    await memory.say("the blue kayak is here", session="a")
    await memory.say("the blue kayak is there", session="b")
    await memory.ask("a boat?", session_name="a", exclude_session=True)
    assert memory.embedder.heard == [["a boat?"], ["the blue kayak is there"]]


async def test_as_of_hides_what_happened_later(memory: Memory) -> None:
    await memory.say(NewMessage("user", "I live in Oslo", occurred_at=NOON - timedelta(days=9)))
    await memory.say(NewMessage("user", "I live in Rome now", occurred_at=NOON), session="s2")
    await memory.embed_all()
    assert await memory.texts("Where do I live?", as_of=NOON - timedelta(days=1)) == ["I live in Oslo"]


async def test_kinds_and_tags_filter(memory: Memory) -> None:
    await memory.say("the anchor is rusty", "the anchor is shiny", "the anchor is lost")
    await memory.sql(
        "update afterturn.agent_memory_unit_t set fact_type = 'opinion' where content like '%rusty'",
    )
    await memory.sql(
        """update afterturn.agent_memory_unit_t set metadata = '{"tags": ["boat", "work"]}'
            where content like '%shiny'""",
    )
    await memory.embed_all()
    assert await memory.texts("the anchor?", kinds=["opinion"]) == ["the anchor is rusty"]
    assert await memory.texts("the anchor?", tags=["work", "home"]) == ["the anchor is shiny"]
    assert await memory.texts("the anchor?", tags=["home"]) == []
    assert await memory.texts("the anchor?", kinds=["world"]) == []


async def test_sessions_roles_and_times_filter(memory: Memory) -> None:
    await memory.say("the blue kayak is here", session="a")
    await memory.say(
        NewMessage("assistant", "the blue kayak is there", occurred_at=NOON - timedelta(days=3)), session="b"
    )
    await memory.say(NewMessage("user", "the blue kayak is gone", occurred_at=NOON - timedelta(days=9)), session="c")
    await memory.sql(
        """update afterturn.agent_memory_unit_t set occurred_start = event_date - interval '5 days'
            where content like '%there'"""
    )
    await memory.embed_all()
    asked = "where is the blue kayak?"
    assert sorted(await memory.texts(asked, sessions=["a", "b"])) == [
        "the blue kayak is here",
        "the blue kayak is there",
    ]
    assert await memory.texts(asked, sessions=["nowhere"]) == []
    assert await memory.texts(asked, roles=["assistant"]) == ["the blue kayak is there"]
    since = NOON - timedelta(days=4)
    assert await memory.texts(asked, begin=since) == ["the blue kayak is here"]
    assert await memory.texts(asked, begin=since, end=NOON, time_of="said") == ["the blue kayak is there"]


async def test_a_fact_that_was_replaced_is_told_only_as_of_when_it_held(memory: Memory) -> None:
    await memory.say("Marta lives in Porto.", "Marta lives in Turin.")
    await memory.sql(
        "update afterturn.agent_memory_unit_t set fact_type = 'world', origin = 'extraction' where host_id = :h",
        h=memory.host,
    )
    await memory.sql(
        """insert into afterturn.fact_t
               (host_id, bank_id, unit_id, subject, fact_id, key, value, position, valid_from, valid_to)
           select host_id, bank_id, unit_id, 'marta', 'home', 'city', right(content, 6), position, :noon,
                  case when content like '%Porto%' then cast(:later as timestamptz) end
             from afterturn.agent_memory_unit_t where host_id = :h""",
        h=memory.host,
        noon=NOON,
        later=NOON + timedelta(days=2),
    )

    async def told(**more: Any) -> set[str]:
        return {item.text for item in (await memory.ask("Where does Marta live?", kinds=["world"], **more)).items}

    assert await told() == {"Marta lives in Turin."}
    assert "Marta lives in Porto." in await told(as_of=NOON + timedelta(days=1))
    assert await told(as_of=NOON + timedelta(days=3)) == {"Marta lives in Turin."}


async def test_what_was_recorded_later_was_not_known_then_whenever_it_happened(memory: Memory) -> None:
    await memory.say("The old diary tells of a flood.", occurred_at=NOON - timedelta(days=900))
    assert await memory.texts("Was there a flood?", as_of=NOON - timedelta(days=1))
    assert not await memory.texts("Was there a flood?", known_at=NOON - timedelta(days=1))
    assert await memory.texts("Was there a flood?", known_at=NOON)
    await memory.embed_all()
    assert not await memory.texts("Was there a flood?", known_at=NOON - timedelta(days=1))
    assert await memory.texts("Was there a flood?", known_at=NOON, as_of=NOON)
    assert not await memory.texts("Was there a flood?", known_at=NOON, as_of=NOON - timedelta(days=901))


async def test_a_fact_was_known_to_hold_until_another_was_recorded(memory: Memory) -> None:
    """Porto since day 0; Rome since day 1, told on day 5; Turin since day 2, told on day 3."""
    told_on = {"Porto": 0, "Rome": 5, "Turin": 3}
    await memory.say(*(f"Marta lives in {city}." for city in told_on))
    for since, (city, day) in enumerate(told_on.items()):
        await memory.sql(
            """with told as (
                   update afterturn.agent_memory_unit_t set fact_type = 'world', origin = 'extraction',
                           update_ts = :told, event_date = :since
                    where host_id = :h and content like :like returning *)
               insert into afterturn.fact_t
                      (host_id, bank_id, unit_id, subject, fact_id, key, value, position, valid_from, valid_to)
               select host_id, bank_id, unit_id, 'marta', 'home', 'city', :like, position, :since,
                      case when :like not like '%Turin%' then cast(:until as timestamptz) end from told""",
            h=memory.host,
            like=f"%{city}%",
            told=NOON + timedelta(days=day),
            since=NOON + timedelta(days=since),
            until=NOON + timedelta(days=since + 1),
        )

    async def told(**days: int) -> set[str]:
        when: dict[str, Any] = {name: NOON + timedelta(days=day) for name, day in days.items()}
        found = await memory.ask("Where does Marta live?", kinds=["world"], **when)
        return {item.text.removeprefix("Marta lives in ").removesuffix(".") for item in found.items}

    assert await told() == {"Turin"}
    assert await told(known_at=2) == {"Porto"}
    assert await told(known_at=4) == {"Turin"}
    assert await told(known_at=4, as_of=1) == {"Porto"}
    assert await told(known_at=6, as_of=1) == {"Rome"}


async def test_what_has_ended_lends_its_neighbours_neither_words_nor_meaning(memory: Memory) -> None:
    gone, lasts, hour = "The gate code was changed.", "It is blue now.", timedelta(hours=1)
    await memory.say(lasts, session="alone")
    await memory.say(gone, expires_at=NOON + hour)
    await memory.say(lasts)
    await memory.embed_all()
    for arm, others in (("lexical", ["dense", "recent", "time"]), ("dense", ["lexical", "recent", "time"])):
        then = await memory.ask("gate code", without=others, as_of=NOON + hour / 2, sessions=["s1"])
        assert [one.text for one in then.items] == [gone, lasts], arm
        now = [await memory.ask("gate code", without=others, sessions=[one]) for one in ("s1", "alone")]
        found = [[(one.text, one.score) for one in answer.items] for answer in now]
        assert found[0] == found[1], arm
        assert [text for text, _ in found[0]] == ([] if arm == "lexical" else [lasts])
