"""Denials end facts: in profiles, lists and recall at any moment, before and after the workers, and after a replay."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from producers.settings import ApiSettings
from store.replay import verify_log
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.producers.service.test_profiles import MARCH, profile, say, worked_through
from tests.servers import TestPostgres, TestValkey


@pytest_asyncio.fixture(loop_scope="session")
async def quiet(fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[World]:
    """An API whose stages have nobody else's work."""
    made = build(fresh_database, broker_of(valkey.url, f"denials-{uuid4().hex}"), settings=ApiSettings())
    yield made
    await made.close()


async def told(tenant: Tenant, **asked: Any) -> set[str]:
    return {fact["text"] for fact in (await profile(tenant, **asked))["facts"]}


async def recalled(tenant: Tenant, query: str, **asked: Any) -> set[str]:
    reply = await tenant.http.post("/api/v1/recall", json={"query": query, "k": 20, "kinds": ["world"], **asked})
    assert reply.status_code == 200, reply.text
    return {one["text"] for one in reply.json()["results"]}


async def listed(tenant: Tenant) -> set[str]:
    found = (await tenant.http.get("/api/v1/units", params={"limit": 1000})).json()
    return {one["text"] for one in found["units"] if one["origin"] == "extraction"}


PAIRS = {
    "I work at Nordwind.": "I no longer work at Nordwind.",
    "I live in Bonn.": "I don't live in Bonn any more.",
    "I'm vegetarian.": "I'm not vegetarian any more.",
    "I'm allergic to nuts.": "I'm not allergic to nuts after all.",
    "I like golf.": "I don't like golf any more.",
    "My name is Ana.": "My name is not Ana, it is Anna.",
    "I play the cello.": "I stopped playing the cello.",
    "My dentist is Dr. Nys.": "My dentist is no longer Dr. Nys.",
}


#: Denials in other words, and those that name no value: these end all facts of their kind.
INDIRECT = {
    "We have a dog called Rex.": "I don't have a dog any more.",
    "We have a cat called Tom.": "Our cat died last week.",
    "I work at Nordwind.": "I quit my job.",
    "I'm a nurse.": "I retired last year.",
    "My girlfriend is Ana.": "Ana and I broke up.",
    "I'm vegetarian.": "I eat meat again.",
    "I have a nut allergy.": "My nut allergy is gone.",
    "I'm allergic to eggs.": "My egg allergy is gone.",
    "I own a car.": "We got rid of the car.",
    "Ich wohne in Bonn.": "Ich wohne nicht mehr in Bonn.",
    "I have asthma.": "My asthma has cleared up.",
    "I play tennis.": "I gave up tennis.",
    "My rabbit is called Biscuit.": "we had to put Biscuit down on Monday",
    "My dentist is Dr. Nys.": "Dr. Nys is not my dentist anymore.",
    "My favourite band is Oasis.": "Oasis isn't my favourite band any more.",
}


@pytest.mark.parametrize("worked", [True, False])
async def test_a_denial_in_other_words_ends_the_speakers_facts_alone(quiet: World, *, worked: bool) -> None:
    ana = await quiet.tenant()
    await say(ana, *INDIRECT, "I speak Dutch.", name="Kim")
    await say(ana, *INDIRECT, name="Uwe")
    if worked:
        await worked_through(quiet)
    assert len(await told(ana, name="Kim")) == len(INDIRECT) + 1
    await say(ana, *INDIRECT.values(), day=30, name="Kim")
    before = await told(ana, name="Kim")
    await worked_through(quiet)
    assert before == await told(ana, name="Kim") == {"Kim speaks Dutch."}
    assert len(await told(ana, name="Uwe")) == len(INDIRECT)


#: Who had a role, who has it from now on, and what holds then.
HOLDERS = {
    "My dentist is Dr. Nys.": ("My new dentist is Dr. Cho.", {"Kim's dentist is called Dr. Cho."}),
    "My boss is Tom.": ("Ines is my boss now.", {"Kim's boss is called Ines."}),
    "Il mio coinquilino si chiama Franco.": (
        "Il mio nuovo coinquilino si chiama Marco.",
        {"Kim's roommate is called Marco."},
    ),
    "My landlord is Peter Brown.": (
        "My new landlord is called Peter.",
        {"Kim's landlord is called Peter.", "Kim's landlord is called Peter Brown."},
    ),
    "My car is a Toyota Yaris.": ("My new car is a Kia Rio.", {"Kim's car is Kia Rio."}),
    "Our cat is called Tom.": (
        "Our new cat is called Mimi.",
        {"Kim's cat is called Tom.", "Kim's cat is called Mimi."},
    ),
}


@pytest.mark.parametrize("worked", [True, False])
async def test_a_new_holder_of_a_role_ends_the_former_one_alone(quiet: World, *, worked: bool) -> None:
    ana = await quiet.tenant()
    await say(ana, *HOLDERS, name="Kim")
    await say(ana, *HOLDERS, name="Uwe")
    if worked:
        await worked_through(quiet)
    await say(ana, *(new for new, _ in HOLDERS.values()), day=30, name="Kim")
    before = await told(ana, name="Kim")
    await worked_through(quiet)
    assert before == await told(ana, name="Kim") == set[str]().union(*(then for _, then in HOLDERS.values()))
    assert len(await told(ana, name="Uwe")) == len(HOLDERS)


#: What takes back the message before it, and what does not.
RETRACTIONS = [
    "Just kidding!",
    "haha jk",
    "Only joking.",
    "Scratch that.",
    "I made that up.",
    "Kidding, I live in Oslo.",
]
NO_RETRACTIONS = ["Not really.", "No kidding!", "Are you joking?", "Kidding aside, I like tea."]


@pytest.mark.parametrize("worked", [True, False])
async def test_a_joke_takes_back_the_message_before_it_alone(quiet: World, *, worked: bool) -> None:
    for said in (*RETRACTIONS, *NO_RETRACTIONS):
        ana = await quiet.tenant()
        await say(ana, "I speak Dutch.", "I live in Rome and I work at Nordwind.", name="Kim")
        await say(ana, "I like golf.", name="Uwe")
        if worked:
            await worked_through(quiet)
        await say(ana, said, day=3, name="Kim")
        kept = {"Kim speaks Dutch."}
        if said in NO_RETRACTIONS:
            kept |= {"Kim lives in Rome.", "Kim works at Nordwind."}
        before = {one for one in await told(ana, name="Kim") if "tea" not in one}
        assert before == kept, said
        await worked_through(quiet)
        assert {one for one in await told(ana, name="Kim") if "tea" not in one} == kept, said
        assert await told(ana, name="Uwe") == {"Uwe likes golf."}


async def test_what_is_stated_after_a_denial_without_a_value_holds(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "We have a dog called Rex.", "I don't have a dog any more.", name="Kim")
    await say(ana, "We have a dog called Bello.", day=3, name="Kim")
    before = await told(ana, name="Kim")
    await worked_through(quiet)
    assert before == await told(ana, name="Kim") == {"Kim's dog is called Bello."}


@pytest.mark.parametrize("worked", [True, False])
async def test_a_denial_ends_the_fact_in_every_answer(quiet: World, *, worked: bool) -> None:
    ana = await quiet.tenant()
    await say(ana, *PAIRS, name="Kim")
    if worked:
        await worked_through(quiet)
    before = await told(ana, name="Kim")
    assert len(before) == len(PAIRS)
    await say(ana, *PAIRS.values(), day=30, name="Kim")
    if worked:
        await worked_through(quiet)
    assert await told(ana, name="Kim") == {"Kim does not like golf.", "Kim's name is Anna."}
    assert await listed(ana) == before | {"Kim does not like golf.", "Kim's name is Anna."}


async def test_what_was_denied_holds_as_of_the_time_before(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I work at Nordwind.", "I no longer work at Nordwind.", "I live in Porto.", name="Kim")
    await worked_through(quiet)
    asked = "Where does Kim work, at Nordwind?"
    assert "Kim works at Nordwind." not in await recalled(ana, asked)
    assert "Kim works at Nordwind." in await recalled(ana, asked, as_of=(MARCH + timedelta(hours=1)).isoformat())
    assert not any("has left" in text for text in await recalled(ana, asked))
    [former] = [one for one in (await profile(ana, name="Kim", history="true"))["facts"] if one["key"] == "employer"]
    assert (former["value"], former["since"][:10], former["until"][:10]) == ("Nordwind", "2026-03-01", "2026-03-02")
    denial = (await ana.http.get(f"/api/v1/units/{former['superseded_by']}")).json()
    assert denial["text"] == "Kim has left Nordwind."


@pytest.mark.parametrize("worked", [True, False])
async def test_each_fact_says_how_it_stands_and_by_which_other(quiet: World, *, worked: bool) -> None:
    ana = await quiet.tenant()
    said = ("I live in Porto.", "I live in Lisbon.", "I live in Lisbon.", "I like golf.", "I do not like golf.")
    await say(ana, *said, "I'm vegan.", "I'm no longer vegan.", name="Kim")
    if worked:
        await worked_through(quiet)
    found = (await profile(ana, name="Kim", history="true"))["facts"]
    facts = {one["text"]: one for fact in found for one in (fact, *fact["history"])}
    states = {text: one["state"] for text, one in facts.items()}
    assert states == {
        "Kim lives in Lisbon.": "active",
        "Kim lives in Porto.": "superseded",
        "Kim does not like golf.": "active",
        "Kim likes golf.": "contradicted",
        "Kim is vegan.": "contradicted",
    }
    assert facts["Kim likes golf."]["superseded_by"] == facts["Kim does not like golf."]["unit_id"]
    assert facts["Kim lives in Lisbon."]["stated"] == 2
    units = (await ana.http.get("/api/v1/units", params={"limit": 1000})).json()["units"]
    shown = [(await ana.http.get(f"/api/v1/units/{one['unit_id']}")).json() for one in units]
    judged = sorted((one["text"], one["state"]) for one in shown if one["origin"] == "extraction")
    if not worked:
        assert {state for _, state in judged} == {None}
        return
    assert judged == sorted([*states.items(), ("Kim lives in Lisbon.", "consolidated")])
    by = {(one["text"], one["state"]): one["state_by"] for one in shown}
    assert by["Kim lives in Lisbon.", "consolidated"] == facts["Kim lives in Lisbon."]["unit_id"]
    assert by["Kim lives in Lisbon.", "active"] is None
    assert by["Kim likes golf.", "contradicted"] == facts["Kim does not like golf."]["unit_id"]


async def test_a_denial_of_another_value_ends_nothing_and_what_is_said_again_holds_again(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I live in Bonn.", "I live in Porto.", "I don't live in Bonn any more.", name="Kim")
    await worked_through(quiet)
    assert await told(ana, name="Kim") == {"Kim lives in Porto."}
    await say(ana, "I don't live in Porto any more.", "I live in Porto.", day=5, name="Kim")
    await worked_through(quiet)
    [home] = (await profile(ana, name="Kim", history="true"))["facts"]
    assert (home["value"], home["since"][:10], home["until"]) == ("Porto", "2026-03-07", None)


async def test_a_denial_that_is_forgotten_ends_nothing(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I'm vegan.", "I'm no longer vegan.", name="Kim")
    await worked_through(quiet)
    assert await told(ana, name="Kim") == set()
    [former] = (await profile(ana, name="Kim", history="true"))["facts"]
    denial = former["superseded_by"]
    assert (await ana.http.delete(f"/api/v1/units/{denial}")).status_code == 204
    await worked_through(quiet)
    assert await told(ana, name="Kim") == {"Kim is vegan."}


@pytest.mark.law("L5")
async def test_denials_are_replayed_to_the_same_rows(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, *PAIRS, *PAIRS.values(), *PAIRS, "I don't live in Oslo any more.", name="Kim")
    await say(ana, *INDIRECT, *INDIRECT.values(), name="Uwe")
    await worked_through(quiet)
    report = await verify_log(quiet.postgres.owner_url)
    assert report.equal
    assert [one.name for one in report.derived if not one.equal and one.name != "vectors"] == []


@pytest.mark.parametrize("ahead", [timedelta(minutes=10), timedelta(days=365)])
@pytest.mark.parametrize("worked", [True, False])
async def test_a_fact_dated_ahead_is_replaced_by_what_is_said_later(
    quiet: World, ahead: timedelta, *, worked: bool
) -> None:
    ana = await quiet.tenant()
    for words, later in (("I live in Bergen.", ahead), ("I live in Oslo.", timedelta())):
        at = datetime.now(UTC) + later
        message = {"role": "user", "content": words, "name": "Kim"}
        turn = {"session_id": "s", "turn_id": uuid4().hex, "occurred_at": at.isoformat(), "messages": [message]}
        assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
        if worked:
            await worked_through(quiet)
    assert await told(ana, name="Kim") == {"Kim lives in Oslo."}


async def test_what_was_deleted_or_has_expired_is_counted_with_its_reason_and_not_told(quiet: World) -> None:
    ana = await quiet.tenant()
    await say(ana, "I like golf.", "I like tea.", "I live in Porto.", "I'm vegan.", name="Kim")
    today = datetime.now(UTC)
    for turn, words, ends in (("task", "Today I need milk.", None), ("guest", "I like rain.", timedelta(hours=1))):
        message = {"role": "user", "content": words, "name": "Kim"}
        at = today - timedelta(days=3) if ends is None else today
        body = {"session_id": "s", "turn_id": turn, "messages": [message], "occurred_at": at.isoformat()}
        if ends is not None:
            body["expires_at"] = (today + ends).isoformat()
        assert (await ana.http.post("/api/v1/turns", json=body)).status_code == 201
    await worked_through(quiet)
    assert (await profile(ana, name="Kim"))["ended"] == []
    units = (await ana.http.get("/api/v1/units", params={"limit": 1000})).json()["units"]
    ids = {one["text"]: one["unit_id"] for one in units}
    assert (await ana.http.delete(f"/api/v1/units/{ids['Kim likes golf.']}")).status_code == 204
    assert (await ana.http.delete(f"/api/v1/units/{ids['I like tea.']}")).status_code == 204
    corrected = await ana.http.patch(
        f"/api/v1/units/{ids['I live in Porto.']}", json={"content": "I lived in Porto once."}
    )
    assert corrected.status_code == 200, corrected.text
    quiet.clock.ahead = timedelta(hours=2)
    told = await profile(ana, name="Kim", history="true")
    assert told["ended"] == [
        {"state": "deleted", "why": "forgotten", "facts": 1},
        {"state": "deleted", "why": "source_corrected", "facts": 1},
        {"state": "deleted", "why": "source_forgotten", "facts": 1},
        {"state": "expired", "why": "source_expired", "facts": 1},
        {"state": "expired", "why": "tier", "facts": 1},
    ]
    assert [fact["text"] for fact in told["facts"]] == ["Kim is vegan."]
    await worked_through(quiet)
    assert (await profile(ana, name="Kim", history="true"))["ended"] == told["ended"]
    assert (await profile(await quiet.tenant(), name="Kim", history="true"))["ended"] == []
    assert (await ana.http.delete(f"/api/v1/units/{ids['I like tea.']}?erase=true")).status_code in (200, 202)
    left = [(one["state"], one["why"]) for one in (await profile(ana, name="Kim", history="true"))["ended"]]
    assert ("deleted", "source_forgotten") not in left
