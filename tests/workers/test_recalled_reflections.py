"""What a bank came to see is answered like what it was told, as far as all that it was drawn from may be told."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from store import identity
from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import ConcurrencyError, IsReflection, NotFound
from store.log.catalog import Aggregate, EventType
from store.memory.directives import Curation
from store.memory.reflections import KIND
from store.memory.turns import NewMessage, NewTurn
from store.memory.units import Units
from store.recall.query import Recalled, RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.replay import verify_log
from tests.generations import make_live
from tests.workers.conftest import HOST, START, World, now
from tests.workers.stages import Crew, KnownEmbedder
from tests.workers.test_insights import say

SAID = ("I live in Porto.", "I moved to Lisbon.")
ASKED = "user_home: Porto, Lisbon"


async def recalled(world: World, **more: Any) -> Sequence[Recalled]:
    recaller = Recaller(world.database, KnownEmbedder(), RecallSettings())
    return (await recaller.recall(HOST, RecallQuery("default", ASKED, k=50, **more))).items


async def drawn(world: World, **more: Any) -> list[Recalled]:
    return [one for one in await recalled(world, **more) if one.kind == KIND]


@pytest.fixture
async def crew(world: World) -> Crew:
    crew = await say(world, *SAID)
    await crew.drain()
    return crew


@pytest.mark.usefixtures("crew")
async def test_a_reflection_is_answered_with_its_kind_and_the_turns_it_was_drawn_from(world: World) -> None:
    [one] = await drawn(world)
    assert one.text.startswith("fact_evolution user_home::home: Porto")
    assert (one.session_name, one.turn_name, one.turn_names) == ("s", "t1", ("t1", "t0"))
    assert (one.role, one.name, one.arms) == (None, None, ("dense", "lexical"))
    everything = await recalled(world)
    assert {one.text for one in everything if one.role == "user"} == set(SAID)
    assert one.occurred_at == max(other.occurred_at for other in everything if other.role == "user")


@pytest.mark.usefixtures("crew")
async def test_it_is_answered_only_where_its_kind_is_asked_for(world: World) -> None:
    assert await drawn(world, kinds=["experience", "world"]) == []
    assert {one.kind for one in await recalled(world, kinds=[KIND])} == {KIND}


@pytest.mark.usefixtures("crew")
@pytest.mark.parametrize(
    "filters",
    [
        {"as_of": START - timedelta(days=1)},
        {"known_at": START - timedelta(days=1)},
        {"tags": ["elsewhere"]},
        {"metadata": {"place": "elsewhere"}},
        {"session_name": "s", "exclude_session": True},
    ],
    ids=lambda filters: next(iter(filters)),
)
async def test_what_may_not_be_told_of_its_facts_may_not_be_told_by_it(world: World, filters: dict[str, Any]) -> None:
    assert await drawn(world, **filters) == []


@pytest.mark.usefixtures("crew")
async def test_filters_that_all_its_facts_pass_let_it_pass(world: World) -> None:
    later = START + timedelta(days=3650)
    assert len(await drawn(world, as_of=later, known_at=later, session_name="other", exclude_session=True)) == 1


@pytest.mark.usefixtures("crew")
async def test_it_is_not_told_as_of_a_time_before_the_last_of_its_facts(world: World) -> None:
    await world.sql(
        "update afterturn.agent_memory_unit_t set occurred_start = :late where origin = 'extraction' "
        "and metadata->>'value' = 'Lisbon'",
        late=START + timedelta(days=30),
    )
    assert await drawn(world, as_of=START + timedelta(days=29)) == []
    assert len(await drawn(world, as_of=START + timedelta(days=31))) == 1


@pytest.mark.law("L11")
@pytest.mark.usefixtures("crew")
async def test_it_is_gone_with_any_of_its_facts_before_any_stage_has_seen_that(world: World) -> None:
    assert len(await drawn(world)) == 1
    await world.sql(
        "update afterturn.agent_memory_unit_t set active = false where origin = 'extraction' "
        "and metadata->>'value' = 'Porto'"
    )
    assert await drawn(world) == []


@pytest.mark.usefixtures("crew")
async def test_one_whose_event_does_not_say_what_it_was_drawn_from_is_not_told(world: World) -> None:
    await world.sql(
        "update afterturn.event_store_t set data = data - 'sourceMemoryIds' where event_type = :type",
        type=EventType.REFLECTION_CREATED,
    )
    assert await drawn(world) == []


@pytest.mark.usefixtures("crew")
async def test_it_is_shown_by_the_id_it_is_answered_with_and_leads_to_its_facts(world: World) -> None:
    units = Units(world.database, now)
    [one] = await drawn(world)
    shown = await units.get(HOST, "default", one.unit_id)
    assert (shown.unit_id, shown.kind, shown.text, shown.origin) == (one.unit_id, one.kind, one.text, "reflection")
    facts = [await units.get(HOST, "default", source) for source in shown.sources]
    assert {fact.metadata["value"] for fact in facts} == {"Porto", "Lisbon"}
    with pytest.raises(NotFound):
        await units.get(HOST, "elsewhere", one.unit_id)


@pytest.mark.usefixtures("crew")
async def test_whoever_would_change_it_is_told_its_facts_instead(world: World) -> None:
    units, erasures = Units(world.database, now), Erasures(world.database, now)
    [one] = await drawn(world)
    sources = [str(source) for source in (await units.get(HOST, "default", one.unit_id)).sources]
    for refused in (
        units.correct(HOST, "default", one.unit_id, "else"),
        units.pin(HOST, "default", one.unit_id, pinned=True),
        erasures.request(HOST, ErasureTarget(Kind.UNIT, "default", str(one.unit_id))),
    ):
        with pytest.raises(IsReflection, match=sources[0]) as caught:
            await refused
        assert caught.value.details == {"sources": sources}
    assert len(await drawn(world)) == 1


async def test_it_is_forgotten_at_once_and_made_anew_when_its_facts_change(world: World, crew: Crew) -> None:
    units = Units(world.database, now)
    [one] = await drawn(world)
    shown = await units.get(HOST, "default", one.unit_id)
    assert (await units.forget(HOST, "default", one.unit_id)).position > shown.position
    assert await drawn(world) == []
    for again in (units.get(HOST, "default", one.unit_id), units.forget(HOST, "default", one.unit_id)):
        with pytest.raises(NotFound):
            await again
    await crew.drain()
    assert await drawn(world) == []
    await (await say(world, "I moved to Madrid.")).drain()
    [anew] = await drawn(world)
    assert "Madrid" in anew.text


@pytest.mark.usefixtures("crew")
async def test_it_is_forgotten_as_what_it_is_and_in_the_version_that_the_caller_saw(world: World) -> None:
    units = Units(world.database, now)
    [one] = await drawn(world)
    with pytest.raises(NotFound):
        await units.forget(HOST, "default", one.unit_id, only=Aggregate.UNIT)
    with pytest.raises(ConcurrencyError):
        await units.forget(HOST, "default", one.unit_id, version=99, only=Aggregate.REFLECTION)
    assert [left.unit_id for left in await drawn(world)] == [one.unit_id]
    await units.forget(HOST, "default", one.unit_id, version=1, only=Aggregate.REFLECTION)
    assert await drawn(world) == []


async def end_fact(world: World, unit: UUID, how: str) -> None:
    units = Units(world.database, now)
    if how == "forgotten":
        await units.forget(HOST, "default", unit)
    else:
        await units.correct(HOST, "default", unit, "The user never said so.")


@pytest.mark.law("L11")
@pytest.mark.usefixtures("crew")
@pytest.mark.parametrize("how", ["forgotten", "corrected"])
async def test_it_is_told_and_shown_no_more_once_one_of_its_facts_is_forgotten_or_corrected(
    world: World, how: str
) -> None:
    units, curation = Units(world.database, now), Curation(world.database, now)
    [one] = await drawn(world)
    source = (await units.get(HOST, "default", one.unit_id)).sources[0]
    assert [listed.content for listed in await curation.reflections(HOST, "default", 10)] == [one.text]
    await end_fact(world, source, how)
    assert await drawn(world) == []
    with pytest.raises(NotFound):
        await units.get(HOST, "default", one.unit_id)
    assert await curation.reflections(HOST, "default", 10) == []


@pytest.mark.parametrize(
    "said, text",
    [
        (("I visited Ghent.", "I visited Porto.", "I visited Porto."), "The user visited: Ghent; Porto."),
        (("I live in Ghent.", "I moved to Porto.", "I moved to Porto."), "fact_evolution user_home::home: Ghent"),
    ],
)
@pytest.mark.parametrize("how", ["forgotten", "corrected"])
async def test_it_is_told_from_what_was_said_again_once_the_first_is_forgotten_or_corrected(
    world: World, said: Sequence[str], text: str, how: str
) -> None:
    """It says the same, so it is not embedded anew."""
    crew = await say(world, *said)
    await crew.drain()
    units = Units(world.database, now)
    [one] = [one for one in await drawn(world) if one.text.startswith(text)]
    _, first, again = await world.sql(
        "select unit_id from afterturn.agent_memory_unit_t where origin = 'extraction' order by position"
    )
    assert first.unit_id in (await units.get(HOST, "default", one.unit_id)).sources
    vectors = "select xmin, embedding::text from afterturn.unit_vector_t where unit_id = :one"
    embedded = await world.sql(vectors, one=one.unit_id)
    await end_fact(world, first.unit_id, how)
    assert one.unit_id not in {other.unit_id for other in await drawn(world)}
    await crew.drain()
    assert [other.text for other in await drawn(world) if other.unit_id == one.unit_id] == [one.text]
    assert (await units.get(HOST, "default", one.unit_id)).sources[-1] == again.unit_id
    assert await world.sql(vectors, one=one.unit_id) == embedded
    assert len(embedded) == 1
    await world.sql("update afterturn.ledger_t set status = 'pending' where stage = 'projection'")
    await crew.drain()
    events = await world.sql(
        "select event_type from afterturn.event_store_t where aggregate_key = :one order by aggregate_version",
        one=str(one.unit_id),
    )
    assert [row.event_type for row in events] == [EventType.REFLECTION_CREATED, EventType.REFLECTION_UPDATED]
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    assert all(one.equal for one in report.derived)


async def list_visits(world: World) -> None:
    """Let Ann and Bo each visit two places."""
    crew = Crew(world)
    await make_live(world.database, crew.embedder)
    for n, (name, place) in enumerate([("Ann", "Porto"), ("Bo", "Oslo"), ("Ann", "Ghent"), ("Bo", "Turin")]):
        said = [NewMessage("user", f"I visited {place}.", name=name, occurred_at=START)]
        await world.append("s", f"t{n}", messages=said)
    await crew.drain()


async def told(world: World, text: str, **more: Any) -> list[Recalled]:
    recaller = Recaller(world.database, KnownEmbedder(), RecallSettings())
    found = (await recaller.recall(HOST, RecallQuery("default", text, k=50, explain=True, **more))).items
    return [one for one in found if one.kind == KIND]


async def test_a_list_is_told_with_all_its_turns_by_its_words_and_its_subject(world: World) -> None:
    await list_visits(world)
    [one] = await told(world, "Which places has Ann visited?")
    assert (one.text, one.name, one.turn_names) == ("Ann visited: Porto; Ghent.", "Ann", ("t2", "t0"))
    assert one.explain is not None
    assert one.explain.arms["lexical"].score > 0
    assert one.explain.moved["speaker"] > 0


async def test_a_question_about_one_speaker_is_told_no_list_of_another(world: World) -> None:
    await list_visits(world)
    assert [one.name for one in await told(world, "Where was Bo, what has he visited?")] == ["Bo"]
    assert {one.name for one in await told(world, "Who visited a place?")} == {"Ann", "Bo"}


def user(name: str) -> UUID:
    return identity.user_id(HOST, name)


async def say_of_ann(world: World, *said: tuple[str, str]) -> Crew:
    """Let Ann say each on a day of its own, in a turn of this user's."""
    crew = Crew(world)
    await make_live(world.database, crew.embedder)
    for day, (who, words) in enumerate(said):
        message = NewMessage("user", words, name="Ann", occurred_at=START + timedelta(days=day))
        await world.turns.append(HOST, [NewTurn("default", f"s{day}", f"t{day}", [message], user_id=who)])
        await crew.drain()
    return crew


VISITS = (("u1", "I visited Porto."), ("u1", "I visited Ghent."), ("u2", "I visited Granada."))


@pytest.mark.parametrize(
    "filters",
    [
        {"user": user("u1")},
        {"as_of": START + timedelta(days=1, hours=1)},
        {"sessions": ["s0", "s1"]},
        {"session_name": "s2", "exclude_session": True},
    ],
    ids=lambda filters: next(iter(filters)),
)
async def test_a_list_is_told_of_the_members_that_pass_the_filters(world: World, filters: dict[str, Any]) -> None:
    await say_of_ann(world, *VISITS)
    [whole] = await told(world, "Which places has Ann visited?")
    assert (whole.text, whole.turn_names) == ("Ann visited: Porto; Ghent; Granada.", ("t2", "t1", "t0"))
    [one] = await told(world, "Which places has Ann visited?", **filters)
    assert (one.unit_id, one.text, one.name) == (whole.unit_id, "Ann visited: Porto; Ghent.", "Ann")
    assert (one.session_name, one.turn_names) == ("s1", ("t1", "t0"))
    assert one.occurred_at == START + timedelta(days=1)


@pytest.mark.parametrize("filters", [{"user": user("u2")}, {"as_of": START}], ids=lambda filters: next(iter(filters)))
async def test_a_list_of_which_one_member_passes_is_not_told(world: World, filters: dict[str, Any]) -> None:
    await say_of_ann(world, *VISITS)
    assert await told(world, "Which places has Ann visited?", **filters) == []


@pytest.mark.law("L11")
@pytest.mark.parametrize("how", ["forgotten", "corrected"])
async def test_a_member_that_is_forgotten_or_corrected_leaves_its_list_at_once(world: World, how: str) -> None:
    crew = await say_of_ann(world, *VISITS)
    [fact] = await world.sql("select unit_id from afterturn.fact_t where value = 'granada'")
    await end_fact(world, fact.unit_id, how)
    [at_once] = await told(world, "Which places has Ann visited?")
    assert (at_once.text, at_once.turn_names) == ("Ann visited: Porto; Ghent.", ("t1", "t0"))
    await crew.drain()
    [later] = await told(world, "Which places has Ann visited?")
    assert (later.text, later.turn_names) == (at_once.text, at_once.turn_names)


@pytest.mark.parametrize(
    "said, begins",
    [
        ((("u1", "I live in Porto."), ("u1", "I moved to Ghent."), ("u2", "I moved to Granada.")), "fact_evolution"),
        ((("u1", "I visited Porto."), ("u2", "I visited Porto.")), "fact_stability"),
        ((("u1", "I visited Malaga."), ("u1", "I visited Málaga."), ("u2", "I visited Malaga.")), "fact_stability"),
    ],
)
async def test_of_what_is_no_list_nothing_is_told_while_one_fact_does_not_pass(
    world: World, said: Sequence[tuple[str, str]], begins: str
) -> None:
    await say_of_ann(world, *said)
    [whole] = await told(world, "Porto")
    assert whole.text.startswith(begins)
    assert await told(world, "Porto", user=user("u1")) == []


async def test_reflections_can_be_left_out(world: World) -> None:
    await list_visits(world)
    assert await told(world, "Which places has Ann visited?", without=["reflections"]) == []


class NearLists(KnownEmbedder):
    """An embedder to which lists say what questions ask."""

    def vector(self, text: str) -> NDArray[np.float32]:
        return super().vector("who visited" if text.startswith("Who") or " visited: " in text else text)


async def test_lists_take_no_place_of_a_unit_in_an_agents_memory(world: World) -> None:
    crew = Crew(world, NearLists())
    await make_live(world.database, crew.embedder)
    for n in range(24):
        said = NewMessage("user", f"I visited place {n}.", name=f"Person{n % 12}", occurred_at=START)
        await world.append("s", f"t{n}", messages=[said, NewMessage("assistant", f"So you visited a place, {n}.")])
    await crew.drain()
    recaller = Recaller(world.database, crew.embedder, RecallSettings(candidates=10))
    query = RecallQuery("default", "Who visited a place?", k=18, without=["lexical", "time", "recent", "pinned"])
    found = (await recaller.recall(HOST, query)).items
    assert sum(one.kind == KIND for one in found) == 8
    assert sum(one.kind != KIND for one in found) == 10
