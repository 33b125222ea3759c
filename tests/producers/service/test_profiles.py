"""What is known of a person: over HTTP, from turns that went through the stages; and who may ask about whom."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
import pytest_asyncio
from afterturn_client.contract.facts import Fact, FactState
from numpy.typing import NDArray

from producers.settings import ApiSettings
from store.derived.facts import Identity
from store.derived.persons import Statement, order_statements
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage
from store.memory.turns import TurnStore
from tests.generations import make_live
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.producers.words import WordEmbedder
from tests.servers import TestPostgres, TestValkey
from tests.workers.conftest import World as Workers
from tests.workers.conftest import now
from tests.workers.stages import Crew

MARCH = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest_asyncio.fixture(loop_scope="session")
async def quiet(fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[World]:
    """An API whose stages have nobody else's work."""
    made = build(fresh_database, broker_of(valkey.url, f"profile-{uuid4().hex}"), settings=ApiSettings())
    yield made
    await made.close()


async def say(tenant: Tenant, *said: str, day: int = 0, **more: Any) -> None:
    """Say each in a turn of its own, a day after the one before."""
    for nth, words in enumerate(said):
        at = MARCH + timedelta(days=day + nth)
        message = {"role": "user", "content": words, **({"name": more["name"]} if "name" in more else {})}
        turn = {"session_id": "s", "turn_id": uuid4().hex, "occurred_at": at.isoformat(), "messages": [message]}
        body = turn | {name: value for name, value in more.items() if name != "name"}
        assert (await tenant.http.post("/api/v1/turns", json=body)).status_code == 201


async def worked_through(world: World) -> None:
    workers = Workers(world.postgres, world.database, Ledger(world.database), TurnStore(world.database, now))
    await Crew(workers).drain(Stage.EXTRACTION, Stage.PROJECTION)


async def profile(tenant: Tenant, **asked: Any) -> dict[str, Any]:
    reply = await tenant.http.get("/api/v1/profile", params=asked)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def values(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(fact["key"], fact["value"]) for fact in found["facts"]]


async def test_a_profile_tells_what_holds_since_when_and_where_it_was_said(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I live in Porto.", "I moved to Lisbon.", "I live in Lisbon. Today I need bread.", name="Ana Lima")
    await say(ana, "I live in Faro.", name="Bo")
    await worked_through(quiet)
    found = await profile(ana, name="ana lima")
    assert (found["names"], found["whole"], values(found)) == (["Ana Lima"], True, [("home", "Lisbon")])
    [home] = found["facts"]
    assert (home["stated"], home["since"], home["said_at"]) == (
        2,
        "2026-03-02T12:00:00+00:00",
        "2026-03-03T12:00:00+00:00",
    )
    assert (home["bank"], home["session_id"], home["until"], home["history"]) == ("default", "s", None, [])
    unit = (await ana.http.get(f"/api/v1/units/{home['unit_id']}")).json()
    assert (unit["text"], unit["turn_id"], unit["sources"]) == (home["text"], home["turn_id"], home["sources"])
    assert "Lisbon" in {one["name"] for one in found["beside"]}


async def test_what_was_replaced_is_left_out_or_told_as_history(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I live in Porto.", "I moved to Lisbon.", "I live in Porto.", name="Ana")
    await worked_through(quiet)
    [home] = (await profile(ana, name="Ana", history="true"))["facts"]
    assert (home["value"], home["since"][:10]) == ("Porto", "2026-03-03")
    assert [(one["value"], one["since"][:10], one["until"][:10]) for one in home["history"]] == [
        ("Lisbon", "2026-03-02", "2026-03-03"),
        ("Porto", "2026-03-01", "2026-03-02"),
    ]
    assert home["history"][0]["superseded_by"] == home["unit_id"]


async def test_a_first_name_finds_the_one_person_it_means(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I live in Porto.", name="Ana Lima")
    await say(ana, "I like jazz, and I am from Braga.", name="Ana", day=1)
    await worked_through(quiet)
    assert values(await profile(ana, name="Ana")) == values(await profile(ana, name="Ana Lima"))
    assert len((await profile(ana, name="Ana"))["facts"]) == 3


async def test_a_name_that_others_call_somebody_finds_that_one(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I live in Porto.", name="Katherine")
    await say(ana, "Hey Kate!", "I live in Faro. Thanks, Kate!", name="Robert")
    assert values(await profile(ana, name="Kate")) == []
    await say(ana, "Wow, Kate, great!", name="Robert")
    assert values(await profile(ana, name="Kate")) == values(await profile(ana, name="katherine")) != []
    await worked_through(quiet)
    found = await profile(ana, name="Kate")
    assert (found["names"], values(found)) == (["Katherine"], [("home", "Porto")])
    assert values(await profile(ana, name="Kate", bank="other")) == []


async def test_a_users_memory_is_one_across_banks_and_the_newest_value_holds(quiet: World) -> None:
    host = await quiet.tenant()
    await say(host, "I live in Porto. I prefer window seats.", user_id="ana", bank="home")
    await say(host, "I moved to Lisbon. I prefer window seats.", user_id="ana", bank="work", day=5)
    await say(host, "I live in Faro.", user_id="bob", bank="work", day=9)
    await worked_through(quiet)
    found = await profile(host, user_id="ana", history="true")
    assert values(found) == [("home", "Lisbon"), ("preference", "window seats")]
    home, seats = found["facts"]
    assert [(one["value"], one["bank"], one["until"]) for one in home["history"]] == [("Porto", "home", home["since"])]
    assert (seats["stated"], seats["bank"], seats["since"][:10]) == (2, "work", "2026-03-01")
    assert values(await profile(host, user_id="ana", bank="home")) == [
        ("home", "Porto"),
        ("preference", "window seats"),
    ]
    assert (await profile(host, user_id="nobody"))["facts"] == []


@pytest.mark.parametrize("worked", [True, False])
async def test_facts_come_in_pages(quiet: World, *, worked: bool) -> None:
    ana = await quiet.tenant()
    await say(ana, "I like jazz.", "I live in Bonn.", "I like tea.", "I live in Porto.", "I like rain.", name="Ana")
    if worked:
        await worked_through(quiet)
    found = await profile(ana, name="Ana", limit=2)
    assert (len(found["facts"]), found["whole"]) == (2, False)
    pages = [found["facts"]]
    while found["has_more"]:
        found = await profile(ana, name="Ana", limit=2, cursor=found["cursor"])
        pages.append(found["facts"])
    whole = await profile(ana, name="Ana")
    assert (whole["has_more"], whole["cursor"]) == (False, None)
    assert [one for page in pages for one in page] == whole["facts"]
    assert [len(page) for page in pages[:-1]] == [2] * (len(pages) - 1)
    assert len(pages) >= 2


def group(*said: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": "user", "name": name, "content": words} for name, words in said]


@pytest.mark.parametrize(
    "user, own",
    [("ann-3f2a1b", ["Ann"]), ("ann@example.org", ["Ann"]), ("u-17", []), ("bo", ["Bo"])],
    ids=["named by the id", "named by the address", "named by nothing", "another of them"],
)
async def test_a_profile_takes_in_nobody_elses_facts_of_a_groups_turns(quiet: World, user: str, own: list[str]) -> None:
    home = await quiet.tenant()
    messages = group(("Ann", "I moved to Ghent."), ("Bo", "I'm allergic to walnuts."), ("Cy", "Hello!"))
    await say(home, "", user_id=user, messages=messages)
    expected = {"Ann": {"Ghent"}, "Bo": {"walnuts"}}
    for _ in range(2):
        found = await profile(home, user_id=user)
        assert found["names"] == own
        assert {value for _, value in values(found)} == {value for name in own for value in expected[name]}
        assert values(await profile(home, user_id=user, name="Bo")) == [("allergy", "walnuts")]
        await worked_through(quiet)


async def test_a_user_who_speaks_under_one_name_has_the_facts_of_that_name(quiet: World) -> None:
    home = await quiet.tenant()
    await say(home, "I moved to Ghent.", user_id="u-17", name="Ann Lima")
    await say(home, "I like jazz.", user_id="u-17", name="Ann")
    await say(home, "", user_id="u-17", messages=group(("Ann", "Hi."), ("Bo", "I'm allergic to walnuts.")))
    for _ in range(2):
        assert values(await profile(home, user_id="u-17")) == [("home", "Ghent"), ("like", "jazz")]
        await worked_through(quiet)


async def test_a_name_that_a_user_states_is_the_users_among_many(quiet: World) -> None:
    home = await quiet.tenant()
    await say(home, "My name is Zoë.", user_id="u-17")
    await say(home, "", user_id="u-17", messages=group(("Zoe", "I moved to Ghent."), ("Bo", "I like jazz.")))
    for _ in range(2):
        found = await profile(home, user_id="u-17")
        assert (found["names"], values(found)) == (["Zoë"], [("home", "Ghent"), ("name", "Zoë")])
        await worked_through(quiet)


async def test_a_name_with_either_apostrophe_is_one_person(quiet: World) -> None:
    home = await quiet.tenant()
    await say(home, "I moved to Ghent.", name="Sinead O'Brien")
    await say(home, "I like jazz.", name="Sinead O\u2019Brien")
    for _ in range(2):
        for name in ("sinead o'brien", "Sinead O\u2019Brien", "Sinead O\u02bcBrien"):
            assert values(await profile(home, name=name)) == [("home", "Ghent"), ("like", "jazz")]
        await worked_through(quiet)


@pytest.mark.law("L6")
async def test_a_key_is_told_of_its_own_user_and_of_banks_it_reaches(quiet: World) -> None:
    everybody = await quiet.tenant()
    ana = await quiet.tenant(everybody.host, user="ana")
    bob = await quiet.tenant(everybody.host, user="bob")
    held = await quiet.tenant(everybody.host, banks=["home"])
    await say(everybody, "I live in Porto.", user_id="ana", bank="home")
    await say(ana, "I like jazz.", bank="notes")
    await worked_through(quiet)
    assert {value for _, value in values(await profile(ana))} == {"Porto", "jazz"}
    assert (await profile(bob))["facts"] == []
    for path in (
        "/api/v1/profile?user_id=ana",
        "/api/v1/profile?user_id=nobody",
        "/api/v1/profile?user_id=ana&bank=home",
    ):
        assert (await bob.http.get(path)).status_code == 403
    assert values(await profile(held, user_id="ana")) == [("home", "Porto")]
    assert (await held.http.get("/api/v1/profile?user_id=ana&bank=notes")).status_code == 403
    foreign = await quiet.tenant()
    assert (await profile(foreign, user_id="ana", bank="home"))["facts"] == []


async def test_a_profile_of_nobody_is_refused(quiet: World) -> None:
    ana = await quiet.tenant()
    for query in ("", "?bank=home", "?user_id=", "?name=Ana&limit=0", "?name=Ana&name=Bo", "?whose=Ana"):
        assert (await ana.http.get(f"/api/v1/profile{query}")).status_code == 422


def statement(bank: str, value: str, since: int, until: int | None = None, stated: int = 1) -> Statement:
    fact = Fact(
        fact_id="user_home",
        key="home",
        value=value,
        text=value,
        since=MARCH + timedelta(days=since),
        until=None if until is None else MARCH + timedelta(days=until),
        superseded_by=None if until is None else UUID(int=until),
        state=FactState.ACTIVE if until is None else FactState.SUPERSEDED,
        stated=stated,
        confidence=None,
        bank=bank,
        unit_id=UUID(int=since),
        session_id=None,
        turn_id=None,
        said_at=MARCH + timedelta(days=since),
        sources=(),
    )
    return Statement(Identity("user_home", "ana", "home"), fact)


def test_banks_that_agree_are_added_up_and_the_order_of_rows_does_not_matter() -> None:
    rows = [statement("a", "Porto", 1, 3), statement("a", "Lisbon", 3, stated=2), statement("b", "lisbon", 5)]
    forth, back = (order_statements(order, history=True) for order in (rows, rows[::-1]))
    assert forth == back
    [home] = forth
    assert (home.value, home.stated, home.since) == ("lisbon", 3, MARCH + timedelta(days=3))
    assert [one.value for one in home.history] == ["Porto"]


async def finish_turn(tenant: Tenant, turn: str, words: str, **more: Any) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
    body = {"session_id": "said", "turn_id": turn, "user_id": "u-1", "input_items": [item], **more}
    assert (await tenant.http.post("/api/v1/turns/after", json=body)).status_code == 200


async def facts_before_turn(tenant: Tenant, **more: Any) -> list[tuple[str, str]]:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Who am I?"}]}
    body = {"session_id": "other", "turn_id": "1", "current_input": [item], "reference": "json", **more}
    answer = (await tenant.http.post("/api/v1/turns/before", json=body)).json()
    parts = [part["text"] for one in answer["input_items"] for part in one["content"]]
    told = [text for text in parts if text.startswith("<memory_reference>")]
    facts = [fact for text in told for fact in json.loads(text.split("\n")[1])["facts"]]
    assert sorted(answer["recall_fact_ids"]) == sorted({fact["id"] for fact in facts})
    return sorted((fact["id"], fact["value"]) for fact in facts)


async def test_what_a_position_brings_is_history_too(quiet: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ana = await quiet.tenant()
    await finish_turn(ana, "1", "I like jazz.")
    parts, asked = quiet.memory.lifecycle._dependencies, asyncio.Event()
    ask, read = parts.recall_coordinator.ask, parts.turns.sessions.recent_and_holding

    async def wait_and_ask(*about: Any) -> Any:
        await finish_turn(ana, "2", "I like hiking.")  # it comes while the position is waited for
        found = await ask(*about)
        asked.set()
        return found

    async def read_afterwards(*about: Any, **within: Any) -> Any:
        assert asked.is_set(), "the history is read when the position is shown"
        return await read(*about, **within)

    monkeypatch.setattr(parts.recall_coordinator, "ask", wait_and_ask)
    monkeypatch.setattr(parts.turns.sessions, "recent_and_holding", read_afterwards)
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What now?"}]}
    body = {"session_id": "said", "turn_id": "3", "current_input": [item], "min_position": 1}
    answer = (await ana.http.post("/api/v1/turns/before", json=body)).json()
    said = [part["text"] for one in answer["input_items"] for part in one["content"]]
    assert said[-3:] == ["I like jazz.", "I like hiking.", "What now?"]


@pytest.mark.law("L4")
async def test_a_fact_is_read_right_after_its_turn_and_by_no_worker_made_another(quiet: World) -> None:
    ana = await quiet.tenant()
    await finish_turn(ana, "1", "My name is Ann. I like hiking.")
    await finish_turn(ana, "2", "I like jazz. I moved to Ghent.")
    await finish_turn(ana, "3", "Today I need milk.", session_id="third")
    expected = [("user_like", "hiking"), ("user_like", "jazz"), ("user_name", "Ann")]
    said = await facts_before_turn(ana)
    assert {*expected, ("today_task", "milk")} <= set(said)
    assert ("today_task", "milk") not in await facts_before_turn(ana, session_id="said", scope="session")
    early = await profile(ana, user_id="u-1")
    by_name = await profile(ana, name="ann")
    assert early["names"] == by_name["names"] == ["Ann"]
    assert [fact["unit_id"] for fact in by_name["facts"]] == [fact["unit_id"] for fact in early["facts"]]
    assert {("name", "Ann"), ("like", "hiking"), ("like", "jazz")} <= set(values(early))
    # One stage has read the turns, the other not yet; then both have.
    workers = Workers(quiet.postgres, quiet.database, Ledger(quiet.database), TurnStore(quiet.database, now))
    for stage in (Stage.EXTRACTION, Stage.PROJECTION):
        await Crew(workers).drain(stage)
        assert await facts_before_turn(ana) == said
        assert await profile(ana, user_id="u-1") == early
        assert (await profile(ana, name="ann"))["facts"] == by_name["facts"]
    units = await quiet.sql("""
        select unit_id from afterturn.agent_memory_unit_t
         where origin = 'extraction' and metadata->>'fact_id' <> 'today_task'""")
    assert sorted(str(row.unit_id) for row in units) == sorted(fact["unit_id"] for fact in early["facts"])
    await ana.http.aclose()


async def test_what_is_said_last_holds_at_once_and_what_is_forgotten_does_not(quiet: World) -> None:
    ana = await quiet.tenant()
    await finish_turn(ana, "1", "I moved to Ghent.")
    await worked_through(quiet)
    await finish_turn(ana, "2", "I moved to Porto.")
    assert [value for _, value in values(await profile(ana, user_id="u-1"))] == ["Porto"]
    assert [value for _, value in await facts_before_turn(ana)] == ["Porto"]
    [told] = (await profile(ana, user_id="u-1", history="true"))["facts"]
    assert [before["value"] for before in told["history"]] == ["Ghent"]
    source = told["sources"][0]
    assert (await ana.http.delete(f"/api/v1/units/{source}")).status_code == 204
    assert [value for _, value in values(await profile(ana, user_id="u-1"))] == ["Ghent"]
    await ana.http.aclose()


async def test_a_turn_is_told_what_follows_from_several_facts_by_the_contracts_type(quiet: World) -> None:
    ana = await quiet.tenant()
    await make_live(quiet.database, WordEmbedder())
    workers = Workers(quiet.postgres, quiet.database, Ledger(quiet.database), TurnStore(quiet.database, now))
    for nth, words in enumerate(("I live in Porto. I like jazz.", "I moved to Lisbon.", "I like jazz.")):
        await finish_turn(ana, str(nth), words)
        await Crew(workers, embedder=WordEmbedder()).drain()  # type: ignore[arg-type]  # the API's own
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "jazz Lisbon Porto?"}]}
    body = {"session_id": "other", "turn_id": "1", "current_input": [item], "reference": "json"}
    answer = (await ana.http.post("/api/v1/turns/before", json=body)).json()
    told = json.loads(answer["input_items"][1]["content"][0]["text"].split("\n")[1])["insights"]
    assert {(one["type"], one["confidence"]) for one in told} == {
        ("fact_evolution", "0.84"),
        ("fact_stability", "0.78"),
    }
    assert all(one["summary"].startswith(f"{one['type']} ") for one in told)
    assert answer["recall_insight_ids"] == [one["id"] for one in told]
    await ana.http.aclose()


async def test_what_another_user_said_is_told_a_turn_as_that_users(quiet: World) -> None:
    ana = await quiet.tenant()
    await make_live(quiet.database, WordEmbedder())
    workers = Workers(quiet.postgres, quiet.database, Ledger(quiet.database), TurnStore(quiet.database, now))
    said = (("u-ben", "My name is Ben."), ("u-ben", "cats eat everything"), ("u-cleo", "cats and dogs sleep"))
    await say(ana, said[0][1], user_id="u-ben")
    await Crew(workers, embedder=WordEmbedder()).drain()  # type: ignore[arg-type]  # the API's own
    alone = (await ana.http.post("/api/v1/recall", json={"query": "name?"})).json()["results"]
    assert [one["name"] for one in alone] == [None]
    for user, words in (
        *said[1:],
        ("u-ben", "I live in Leeds."),
        ("u-ben", "I moved to York."),
        ("u-ann", "cats purr"),
    ):
        await say(ana, words, user_id=user)
        await Crew(workers, embedder=WordEmbedder()).drain()  # type: ignore[arg-type]  # the API's own
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "cats Leeds York?"}]}
    body = {"session_id": "other", "turn_id": "1", "user_id": "u-ann", "current_input": [item]}
    answer = (await ana.http.post("/api/v1/turns/before", json=body)).json()
    told = re.sub(r"\[\d+\] | 12:00:", "", answer["input_items"][1]["content"][0]["text"]).split("\n")
    assert {"Ben cats eat everything", "another user cats and dogs sleep", "user cats purr"} <= {*told}
    assert "home changed: Leeds (2026-03-01), then York (2026-03-01). Ben moved to York." in told
    await say(ana, "My name is Cleo.", user_id="u-cleo")  # no worker has read it
    soon = (await ana.http.post("/api/v1/turns/before", json=body)).json()
    assert "Cleo 12:00: cats and dogs sleep" in soon["input_items"][1]["content"][0]["text"]
    nobody = (await ana.http.post("/api/v1/turns/before", json={**body, "user_id": None})).json()
    assert "Cleo 12:00: cats and dogs sleep" in nobody["input_items"][1]["content"][0]["text"]
    assert "another user" not in nobody["input_items"][1]["content"][0]["text"]
    recalled = (await ana.http.post("/api/v1/recall", json={"query": "cats?", "reference": "lines"})).json()
    block = recalled["reference"]["content"]
    assert " Ben 12:00: cats eat everything" in block
    assert " user 12:00: cats purr" in block
    assert {one["name"] for one in recalled["results"] if one["text"].startswith("cats e")} == {"Ben"}
    his = {"query": "cats?", "reference": "lines", "user_id": "u-ben"}
    assert "user 12:00: cats eat" in (await ana.http.post("/api/v1/recall", json=his)).json()["reference"]["content"]
    await ana.http.aclose()


async def test_a_question_for_the_id_of_its_user_asks_for_the_user(
    quiet: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = await quiet.tenant()
    await make_live(quiet.database, WordEmbedder())
    await say(ana, "I live in Celje.", user_id="kate")

    async def score(query: str) -> float:
        answer = await ana.http.post("/api/v1/recall", json={"query": query, "user_id": "kate"})
        return float(answer.json()["results"][0]["score"])

    asked = [await score(f"Where does {one} live?") for one in ("Kate", "the user", "Jan")]
    assert asked[0] == asked[1] > asked[2]

    heard, embed = list[str](), WordEmbedder.embed

    async def hear(model: WordEmbedder, texts: Sequence[str]) -> NDArray[np.float32]:
        heard.extend(texts)
        return await embed(model, texts)

    monkeypatch.setattr(WordEmbedder, "embed", hear)
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where is Kate's house?"}]}
    for turn, user in enumerate(("kate", "jan")):
        body = {"session_id": "other", "turn_id": str(turn), "user_id": user, "current_input": [item]}
        assert (await ana.http.post("/api/v1/turns/before", json=body)).is_success
        assert ("Kate" in heard[-1]) is (user == "jan")
    await ana.http.aclose()
