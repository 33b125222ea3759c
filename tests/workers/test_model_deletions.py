"""What a model says is to be deleted is shown and counted; facts end by it only where a tenant says so."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from afterturn_client.contract.facts import Fact
from prometheus_client import REGISTRY

from producers.mcp.bank_memory import BankMemory
from producers.mcp.settings import TurnMemorySettings
from store import identity
from store.derived.persons import PersonKey, Persons
from store.erasure import Erasures, ErasureTarget, Kind
from store.ledger.stages import Stage
from store.memory.session_history import SessionHistory, WantedFacts
from store.memory.turns import Appended, NewMessage, NewTurn
from store.memory.units import Units
from store.replay import verify_log
from store.tenancy.spaces import Space
from tests.workers.conftest import HOST, World, now
from tests.workers.models import Model, model, reader
from tests.workers.stages import Crew
from workers.extraction.llm.rights import ModelRights

LIKES, ASKS = "I like jazz.", "Please stop telling me about jazz, I am through with it."


@pytest.fixture
def server() -> Iterator[Model]:
    with model() as running:
        running.says = lambda turn: deleted(turn, "jazz", "I am through with it")
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def crew(world: World, server: Model) -> AsyncIterator[Crew]:
    one = reader(server.url)
    yield Crew(world, reader=one)
    await one.close()


def deleted(turn: Mapping[str, Any], value: str, quote: str, **more: Any) -> dict[str, Any]:
    """Say that a like is to be deleted, where the turn has the quote."""
    named = {"fact_id": "user_like", "key": "like", "value": value, "message": 0, "quote": quote, **more}
    asked = any(quote in one["text"] for one in turn["messages"])
    return {"updated_facts": [], "entities": [], "deleted_facts": [named] if asked else []}


def told_of(value: str, fact_id: str = "user_like", key: str = "like") -> dict[str, str]:
    """Return a known fact as the model reads it."""
    return {"fact_id": fact_id, "key": key, "value": value}


def rights(**settings: Any) -> ModelRights:
    memory = BankMemory(TurnMemorySettings.model_validate(settings))
    return ModelRights(memory.may_model_read, memory.may_model_delete)


def counted() -> dict[str, float]:
    name = "afterturn_extraction_model_deletions_total"
    outcomes = ("proposed", "applied", "unmatched")
    return {one: REGISTRY.get_sample_value(name, {"outcome": one}) or 0.0 for one in outcomes}


async def say(world: World, turn: str, words: str, *, user: str = "ann", bank: str = "default") -> None:
    new = NewTurn(bank, "s", turn, [NewMessage("user", words)], user_id=user)
    assert isinstance((await world.turns.append(HOST, [new]))[0], Appended)


async def said(world: World, crew: Crew, *turns: tuple[str, str], **who: str) -> None:
    for turn, words in turns:
        await say(world, turn, words, **who)
        await crew.drain()
        await crew.drain()


async def held(world: World, bank: str = "default") -> list[str]:
    found = await SessionHistory(world.database, now).holding(HOST, bank, WantedFacts(50, "ann"), "another")
    return sorted(one.value for one in found)


async def known(world: World, *, history: bool = False) -> tuple[Fact, ...]:
    of = Persons(world.database, now).of
    return (await of(HOST, Space(None, None), PersonKey("ann"), banks=None, history=history, limit=50)).facts


async def message_of(world: World, turn: str) -> UUID:
    [row] = await world.sql(
        "select unit_id from afterturn.agent_memory_unit_t where turn_name = :turn and origin = 'message'", turn=turn
    )
    assert isinstance(row.unit_id, UUID)
    return row.unit_id


async def see_equal(world: World) -> None:
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    assert [one.name for one in report.derived if not one.equal and one.name != "vectors"] == []


@pytest.mark.law("L5")
async def test_a_deletion_is_a_proposal_that_profile_and_unit_show(world: World, server: Model, crew: Crew) -> None:
    before = counted()
    await said(world, crew, ("1", LIKES), ("2", ASKS))
    assert await held(world) == ["jazz"]
    message = await message_of(world, "2")
    [fact] = await known(world)
    assert (fact.value, fact.deletion_proposed_by) == ("jazz", (message,))
    unit = await Units(world.database, now).get(HOST, "default", fact.unit_id)
    assert (unit.state, unit.deletion_proposed_by) == ("active", (message,))
    assert counted() == before | {"proposed": before["proposed"] + 1}
    # The model gets what was said in its turn, and the facts of its speaker by then; no id.
    assert [[one["text"] for one in turn["messages"]] for turn in server.asked] == [[LIKES], [ASKS]]
    assert [turn.get("known_facts") for turn in server.asked] == [None, [told_of("jazz")]]
    assert all(set(turn) - {"known_facts"} == {"kind", "untrusted", "occurred_at", "messages"} for turn in server.asked)
    for seen in server.server.seen:
        lists = seen.json["tools"][0]["parameters"]["properties"]
        assert list(lists) == ["updated_facts", "deleted_facts", "entities"]
    await see_equal(world)
    # Said again, it is no longer proposed of what holds; without its message, of nothing.
    await said(world, crew, ("3", LIKES))
    assert [one.deletion_proposed_by for one in await known(world)] == [()]
    await Units(world.database, now).forget(HOST, "default", message)
    assert (await Units(world.database, now).get(HOST, "default", fact.unit_id)).deletion_proposed_by == ()


@pytest.mark.law("L11")
async def test_where_a_tenant_says_so_the_fact_ends_and_comes_back_with_the_message_erased(
    world: World, crew: Crew
) -> None:
    before = counted()
    crew.rights = rights(tenants={"default": {"model_deletions": "apply"}})
    await said(world, crew, ("1", LIKES), ("2", LIKES), ("3", ASKS))
    assert await held(world) == []
    assert await known(world) == ()
    [former] = await known(world, history=True)
    denial = await Units(world.database, now).get(HOST, "default", former.superseded_by or UUID(int=0))
    assert (former.value, former.state, former.stated) == ("jazz", "contradicted", 2)
    assert (denial.text, denial.sources) == ("The user's like is no longer jazz.", (await message_of(world, "3"),))
    assert denial.metadata["extractor"] == "llm-5:test/model-1"
    assert denial.expires_at is None
    assert counted() == before | {"applied": before["applied"] + 1}
    await see_equal(world)
    erasures = Erasures(world.database, now)
    request = await erasures.request(HOST, ErasureTarget(Kind.UNIT, "default", str(await message_of(world, "3"))))
    assert (await erasures.run(HOST, request)).done
    await crew.drain()
    assert await held(world) == ["jazz"]
    await see_equal(world)


async def test_a_banks_own_setting_goes_before_its_tenants(world: World, crew: Crew) -> None:
    banks = {"tame": {"model_deletions": "show"}}
    crew.rights = rights(tenants={"default": {"model_deletions": "apply", "banks": banks}})
    for bank in ("tame", "wild"):
        await said(world, crew, ("1", LIKES), ("2", ASKS), bank=bank)
    assert (await held(world, "tame"), await held(world, "wild")) == (["jazz"], [])


@pytest.mark.parametrize(
    "more, outcome",
    [
        ({"value": "blues"}, "unmatched"),
        ({"fact_id": "user_dislike", "key": "dislike"}, "unmatched"),
        ({"quote": "I am through with everything"}, "dropped"),
        ({"message": 7}, "dropped"),
        ({"fact_id": "api_key"}, "dropped"),
    ],
)
async def test_what_nobody_said_is_not_proposed(
    world: World, server: Model, crew: Crew, more: Mapping[str, Any], outcome: str
) -> None:
    def say_it(turn: Mapping[str, Any]) -> dict[str, Any]:
        told = deleted(turn, "jazz", "I am through with it")
        return {**told, "deleted_facts": [{**one, **more} for one in told["deleted_facts"]]}

    server.says = say_it
    before = counted()
    crew.rights = rights(model_deletions="apply")
    await said(world, crew, ("1", LIKES), ("2", ASKS))
    assert await held(world) == ["jazz"]
    assert [one.deletion_proposed_by for one in await known(world)] == [()]
    unmatched = 1 if outcome == "unmatched" else 0
    assert counted() == before | {"unmatched": before["unmatched"] + unmatched}


async def test_only_what_the_same_person_had_said_by_then_is_meant(world: World, server: Model, crew: Crew) -> None:
    server.says = lambda turn: deleted(turn, "jazz", "I am through with it")
    crew.rights = rights(model_deletions="apply")
    await said(world, crew, ("1", LIKES), user="bo")
    await said(world, crew, ("2", ASKS))
    await said(world, crew, ("3", LIKES))
    assert await held(world) == ["jazz"]
    assert [(one.value, one.deletion_proposed_by) for one in await known(world)] == [("jazz", ())]


@pytest.mark.law("L2")
async def test_the_model_is_not_asked_where_a_tenant_or_bank_has_it_off(
    world: World, server: Model, crew: Crew
) -> None:
    off = {"default": {"banks": {"quiet": {"model_reads": False}}}}
    crew.rights = rights(tenants=off)
    await said(world, crew, ("1", LIKES), bank="quiet")
    assert (server.asked, await world.statuses(Stage.ENRICHMENT)) == ([], [])
    # Switched off while a turn waits: it is skipped, with the reason.
    crew.rights = ModelRights()
    await say(world, "2", LIKES, bank="quiet")
    await crew.drain(Stage.EXTRACTION)
    crew.rights = rights(tenants={"default": {"model_reads": False}})
    await crew.drain()
    assert (server.asked, await world.statuses(Stage.ENRICHMENT)) == ([], ["skipped"])
    assert not rights(tenants={"default": {"model_reads": False}}).read(HOST, identity.bank_id(HOST, "any"))


async def test_a_fact_ends_by_the_names_under_which_it_is_known_and_no_rule_could_guess(
    world: World, server: Model, crew: Crew
) -> None:
    """What a model calls a fact of its own making it can say again: it is told."""
    first, last = "On Sundays it is the hurdy-gurdy for old Mrs Zo\u00eb.", "That is over, she has moved away."
    own = {"fact_id": "Sunday habit", "key": "Hurdy-Gurdy (aunt)", "value": "the hurdy-gurdy for old Mrs Zo\u00eb"}

    def say_it(turn: Mapping[str, Any]) -> dict[str, Any]:
        known = [one for one in turn.get("known_facts", ()) if "hurdy" in one["value"]]
        read = {"message": 0, "quote": turn["messages"][0]["text"]}
        fact = {**own, "tier": "L0", "confidence": 0.9, **read}
        found = [fact] if "Sundays" in read["quote"] else []
        return {"updated_facts": found, "entities": [], "deleted_facts": [{**one, **read} for one in known]}

    server.says = say_it
    crew.rights = rights(model_deletions="apply")
    await said(world, crew, ("1", first))
    assert await held(world) == [own["value"]]
    await said(world, crew, ("2", last))
    assert await held(world) == []
    assert server.asked[1]["known_facts"] == [told_of(own["value"], "sunday_habit", "hurdy_gurdy_aunt")]
    await see_equal(world)


@pytest.mark.law("L6")
async def test_a_model_is_told_facts_of_this_speaker_and_bank_alone_from_turns_that_it_has_read(
    world: World, server: Model, crew: Crew
) -> None:
    server.says = lambda _turn: {"updated_facts": [], "entities": []}
    crew.rights = rights(tenants={"default": {"banks": {"quiet": {"model_reads": False}}}})
    await said(world, crew, ("1", "I like cinnamon."), user="bo")
    await said(world, crew, ("2", "I like cardamom."), bank="other")
    await said(world, crew, ("3", "I like saffron."), bank="quiet")
    unread, crew.reader = crew.reader, None
    await said(world, crew, ("4", "I like turmeric."))
    crew.reader = unread
    await said(world, crew, ("5", "I like nutmeg."), ("6", "I prefer tea."), ("7", "My pin is 4711."), ("8", "Hm."))
    assert server.asked[-1]["known_facts"] == [told_of("tea", "user_preference", "preference"), told_of("nutmeg")]
    # What was forgotten is told no longer; a fact that the turn names goes first.
    await Units(world.database, now).forget(HOST, "default", await message_of(world, "6"))
    await said(world, crew, ("9", "I like mace."), ("10", "No more Nutmeg, please!"))
    assert server.asked[-1]["known_facts"] == [told_of("nutmeg"), told_of("mace")]


@pytest.mark.parametrize("most", [0, 3])
async def test_no_more_known_facts_are_sent_than_a_setting_says(world: World, server: Model, most: int) -> None:
    one = reader(server.url, max_known_facts=most)
    crew = Crew(world, reader=one)
    await said(world, crew, *((f"{n}", f"I like dish number {n}.") for n in range(5)), ("9", "Hm."))
    assert len(server.asked[-1].get("known_facts", ())) == most
    await one.close()
