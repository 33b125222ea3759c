"""An erasure goes on where it stopped, is one however often it is asked for, and can be tried without being done."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from store import identity
from store.authority import Authority, act_as_service, begin_call
from store.erasure import Erasures, ErasureTarget, Kind, aggregates
from store.errors import ErasedMeanwhile, NotFound
from store.ledger.stages import Stage
from store.log.append import append_events
from store.log.catalog import EventType, parse_event_data
from store.log.envelope import Origin, build_command
from store.memory.offered_turns import NewMessage, NewTurn
from store.memory.units import Units
from store.replay import verify_log
from tests.store.erasure.conftest import Scene
from tests.store.erasure.dump import dump, lines_with, rows_of
from tests.workers.conftest import BANK, HOST, dialogue, now

pytestmark = pytest.mark.law("L11")

SESSION = ErasureTarget(Kind.SESSION, "default", "s")
STATE = "select md5(string_agg(cast(e as text), ',' order by position)) as state from afterturn.event_store_t e"


def changed(before: str, after: str) -> set[str]:
    return set(rows_of(before)) ^ set(rows_of(after))


async def told(scene: Scene, turns: int = 3) -> None:
    for n in range(turns):
        await scene.world.append(
            "s", f"t{n}", messages=dialogue(f"My name is Karl{n}. Bob lives in Kyoto.", f"Hello Karl{n}.")
        )


async def test_an_erasure_that_was_cut_off_goes_on_where_it_was(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "PAGE_UNITS", 2)
    await told(scene)
    await scene.crew.drain()
    first = await scene.erasures.request(HOST, SESSION)
    partly = await scene.erasures.run(HOST, first, timedelta(0))
    assert (partly.done, partly.counts["messages"]) == (False, 2)
    after_a_crash = Erasures(scene.world.database, now)
    assert await after_a_crash.request(HOST, SESSION) == first
    whole = await after_a_crash.run(HOST, first)
    assert (whole.done, whole.counts["messages"]) == (True, 6)
    assert lines_with(await dump(scene.world.postgres), "Karl") == []
    assert (await verify_log(scene.world.postgres.owner_url)).equal


async def test_an_erasure_that_everybody_left_is_found(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "PAGE_UNITS", 2)
    await told(scene)
    erasure = await scene.erasures.request(HOST, SESSION)
    assert await scene.erasures.list_stalled() == []
    later = Erasures(scene.world.database, lambda: now() + timedelta(minutes=1))
    assert await later.list_stalled() == [(HOST, erasure)]
    await later.run(HOST, erasure)
    assert await later.list_stalled() == []


async def test_a_second_erasure_of_the_same_changes_nothing(scene: Scene) -> None:
    await told(scene)
    await scene.crew.drain()
    for kind, name in ((Kind.SESSION, "s"), (Kind.BANK, "")):
        await scene.erase(kind, name)
        before = await scene.world.sql(STATE)
        again = await scene.erase(kind, name)
        assert await scene.world.sql(STATE) == before
        assert sum(again.counts.values()) == 0


@pytest.mark.parametrize("kind, name", [(Kind.BANK, ""), (Kind.SESSION, "s"), (Kind.USER, "ana")])
@pytest.mark.parametrize("stepped", [False, True], ids=["at once", "after its last page"])
async def test_a_second_request_while_the_first_runs_reaches_what_came_between(
    scene: Scene, kind: Kind, name: str, *, stepped: bool
) -> None:
    """The bank, session or user began anew: what was written until the second request goes, and what was under way."""
    target = ErasureTarget(kind, None if kind is Kind.USER else "default", name)
    spoken = partial(dialogue_of, "ana")
    await scene.world.turns.append(HOST, [spoken("first", "default"), spoken("first", "~ana/own")])
    first = await scene.erasures.request(HOST, target)
    if stepped:
        with act_as_service():
            while await step(scene, first):
                pass
    await scene.world.turns.append(HOST, [spoken("second", "default"), spoken("second", "~ana/own")])
    under_way = now()
    assert await scene.erasures.request(HOST, target) == first
    begin_call(Authority(began=under_way))
    [refused] = await scene.world.turns.append(HOST, [spoken("third", "default")])
    assert isinstance(refused, ErasedMeanwhile)
    begin_call(Authority(began=now()))
    receipt = await scene.erasures.run(HOST, first)
    assert receipt.done
    assert receipt.requested_at > under_way
    left = await scene.world.sql("select content from afterturn.agent_memory_unit_t where active order by 1")
    own = ["I keep first.", "I keep second."] if kind is not Kind.USER else []
    assert [row.content for row in left] == own
    assert (await verify_log(scene.world.postgres.owner_url)).equal


@pytest.mark.parametrize("kind, name", [(Kind.BANK, ""), (Kind.SESSION, "s"), (Kind.USER, "ana")])
async def test_what_was_requested_twice_is_counted_once(scene: Scene, kind: Kind, name: str) -> None:
    target = ErasureTarget(kind, None if kind is Kind.USER else "default", name)
    await scene.world.turns.append(HOST, [dialogue_of("ana", f"{n}", "default") for n in range(3)])
    await scene.crew.drain()
    once = await scene.erasures.estimate(HOST, target)
    await scene.erasures.request(HOST, target)
    twice = await scene.erasures.run(HOST, await scene.erasures.request(HOST, target))
    assert (twice.counts, twice.delivered) == (once.counts, once.delivered)


def dialogue_of(user: str, said: str, bank: str) -> NewTurn:
    private = user if bank.startswith("~") else None
    message = NewMessage("user", f"I keep {said}.")
    return NewTurn(bank, "s", said, [message], user_id=user, private_to=private)


async def step(scene: Scene, erasure: UUID) -> bool:
    async with scene.world.database.tenant(HOST) as connection:
        return await scene.erasures._erase_page(connection, HOST, erasure)


async def test_trying_counts_what_doing_does_and_writes_nothing(scene: Scene) -> None:
    await told(scene)
    await scene.crew.drain()
    before = await dump(scene.world.postgres)
    tried = await scene.erasures.estimate(HOST, SESSION)
    assert changed(before, await dump(scene.world.postgres)) == set()
    done = await scene.erase(Kind.SESSION, "s")
    assert tried.counts == done.counts
    assert {name for name, number in done.counts.items() if number} >= {
        *("messages", "facts", "mentions", "links", "entities", "events", "turns", "words", "vectors", "sessions"),
    }
    assert done.counts["messages"] == 6
    assert done.counts["turns"] == 3


async def test_a_fact_goes_with_any_of_its_sources_and_a_message_stays_without_its_facts(scene: Scene) -> None:
    await told(scene, 1)
    await scene.crew.drain()
    facts = await scene.world.sql("select unit_id from afterturn.agent_memory_unit_t where origin = 'extraction'")
    await scene.erase(Kind.UNIT, str(facts[0].unit_id))
    assert (await scene.world.sql("select count(*) as n from afterturn.agent_memory_unit_t where active"))[0].n == (
        2 + len(facts) - 1
    )
    await scene.erase(Kind.UNIT, await scene.unit_of("My name is"))
    rows = await scene.world.sql("select content from afterturn.agent_memory_unit_t where active")
    assert [row.content for row in rows] == ["Hello Karl0."]
    assert (await verify_log(scene.world.postgres.owner_url)).equal


async def test_an_entity_nobody_names_any_more_is_gone_and_begins_again_when_it_is_named(scene: Scene) -> None:
    query = "select canonical_name, mention_count from afterturn.agent_memory_entity_t where active order by 1"
    for turn in ("t0", "t1"):
        met = dialogue("Karl Berger met Ann Moore in Kyoto.", "In Kyoto, good.")
        await scene.world.append(turn, turn, messages=met)
        await scene.crew.drain()
        names = [tuple(row) for row in await scene.world.sql(query)]
        assert [name for name, _ in names] == ["Ann Moore", "Karl Berger", "Kyoto"]
        assert all(mentions for _, mentions in names)
        await scene.erase(Kind.SESSION, turn)
        assert await scene.world.sql(query) == []
        assert lines_with(await dump(scene.world.postgres), "Kyoto", "Moore") == []
    assert (await verify_log(scene.world.postgres.owner_url)).equal


async def test_what_a_user_made_beside_turns_goes_too(scene: Scene) -> None:
    ana = Origin(HOST, BANK, identity.user_id(HOST, "ana"), now())
    await scene.world.append("s", "t")
    thing = str(uuid4())
    said = [{"role": "user", "content": "Xanaduvia restored"}]
    events = [
        build_command(ana, EventType.DOC_CREATED, {"docId": thing, "originalText": "Xanaduvia", "contentHash": "00"}),
        build_command(
            ana, EventType.DIRECTIVE_CREATED, {"directiveId": thing, "name": "Xanaduvia", "content": "Xanaduvia"}
        ),
        build_command(ana, EventType.REFLECTION_CREATED, {"reflectionId": thing, "content": "Xanaduvia"}),
        build_command(ana, EventType.SESSION_CREATED, {"sessionId": thing, "messages": said}),
        build_command(ana, EventType.SESSION_APPENDED, {"sessionId": thing, "messages": said}, version=2),
        build_command(ana, EventType.SESSION_COMPACTED, {"sessionId": thing, "messages": said}, version=3),
    ]
    # Ids of different kinds must not meet: an aggregate id does not hold its kind.
    for event in events[:3]:
        other = str(uuid4())
        event["subject"] = event["subject"].replace(thing, other)
        event["data"] |= {k: other for k, v in event["data"].items() if v == thing}
        event["id"] = str(uuid4())
    async with scene.world.database.tenant(HOST) as connection:
        await append_events(connection, HOST, events)
    receipt = await scene.erase(Kind.USER, "ana")
    assert {name: receipt.counts[name] for name in ("documents", "directives", "reflections")} == {
        "documents": 1,
        "directives": 1,
        "reflections": 1,
    }
    assert lines_with(await dump(scene.world.postgres), "Xanaduvia") == []
    assert (await verify_log(scene.world.postgres.owner_url)).equal


async def test_a_second_beginning_of_what_lives_hides_nothing_from_an_erasure(scene: Scene) -> None:
    """It changed no row, so what a row shows is the first one's, and goes with that."""
    await told(scene, 1)
    units = [await scene.unit_of(words) for words in ("My name is", "Hello Karl0")]
    ana = Origin(HOST, BANK, identity.user_id(HOST, "ana"), now())
    thing = str(uuid4())
    drawn = [
        {"reflectionId": thing, "content": content, "sourceMemoryIds": [unit]}
        for content, unit in zip(("Xanaduvia", "something else"), units, strict=True)
    ]
    async with scene.world.database.tenant(HOST) as connection:
        for version, data in enumerate(drawn, 1):
            event = build_command(ana, EventType.REFLECTION_CREATED, data, version=version)
            await append_events(connection, HOST, [event])
    receipt = await scene.erase(Kind.UNIT, units[0])
    assert receipt.counts["reflections"] == 1
    assert lines_with(await dump(scene.world.postgres), "Xanaduvia", "My name is") == []
    assert (await verify_log(scene.world.postgres.owner_url)).equal


@pytest.mark.parametrize(
    "said, kept",
    [
        (
            ("I visited Ghent.", "I visited Porto with Xanaduvia.", "I visited Porto."),
            "The user visited: Ghent; Porto.",
        ),
        (
            ("I live in Ghent.", "I moved to Porto, Xanaduvia.", "I moved to Porto."),
            "fact_evolution user_home::home: Ghent",
        ),
    ],
)
async def test_what_was_drawn_from_an_erased_text_stays_where_another_says_the_same(
    scene: Scene, said: Sequence[str], kept: str
) -> None:
    for n, words in enumerate(said):
        await scene.world.append("s", f"t{n}", messages=dialogue(words, "I see."))
        await scene.crew.drain()
    living = (
        "select reflection_id, content from afterturn.agent_memory_reflection_t where active and content like :kept"
    )
    before = await scene.world.sql(living, kept=f"{kept}%")
    assert len(before) == 1
    await scene.erase(Kind.UNIT, await scene.unit_of("Xanaduvia"))
    for _ in range(2):
        assert await scene.world.sql(living, kept=f"{kept}%") == before
        shown = await Units(scene.world.database, now).get(HOST, "default", before[0].reflection_id)
        assert len(shown.sources) == 2
        await scene.crew.drain()
    assert lines_with(await dump(scene.world.postgres), "Xanaduvia") == []
    vector = "select 1 from afterturn.unit_vector_t where unit_id = :one"
    assert len(await scene.world.sql(vector, one=before[0].reflection_id)) == 1
    assert (await verify_log(scene.world.postgres.owner_url)).equal


async def test_a_marker_is_an_event_the_catalog_knows(scene: Scene) -> None:
    await told(scene, 1)
    await scene.crew.drain()
    await scene.erase(Kind.BANK)
    rows = await scene.world.sql("select event_type, payload->'data' as data from hindsight.event_store_t")
    assert all(row.data["erased"] for row in rows)
    for row in rows:
        parse_event_data(EventType(row.event_type), row.data)


@pytest.mark.law("L6")
async def test_what_is_unknown_or_foreign_is_not_found(scene: Scene) -> None:
    await told(scene, 1)
    unit = await scene.unit_of("My name is")
    stranger = identity.host_id("stranger")
    await scene.world.sql("insert into afterturn.host_t (host_id, name) values (:host, 'stranger')", host=stranger)
    before = await scene.world.sql(STATE)
    for target in (
        ErasureTarget(Kind.UNIT, "default", unit),
        SESSION,
        ErasureTarget(Kind.BANK, "default"),
        ErasureTarget(Kind.USER),
    ):
        with pytest.raises(NotFound):
            await scene.erasures.request(stranger, target)
    for target in (ErasureTarget(Kind.UNIT, "default", str(uuid4())), ErasureTarget(Kind.UNIT, "other", unit)):
        with pytest.raises(NotFound):
            await scene.erasures.request(HOST, target)
    assert await scene.world.sql(STATE) == before


FUNCTIONS = [
    "erase_events(:erasure, '{x}', null)",
    "erase_at(:erasure, '{1}')",
    "erase_messages(:erasure, gen_random_uuid(), '{}')",
    "erase_words_of(:erasure, '{1}')",
    "erase_guards(:erasure, '{}')",
    "erase_samples(:erasure)",
]


@pytest.mark.law("L5")
@pytest.mark.parametrize("function", FUNCTIONS)
async def test_the_log_is_rewritten_for_a_running_erasure_of_the_tenant_alone(scene: Scene, function: str) -> None:
    await told(scene, 1)
    running = await scene.erasures.request(HOST, SESSION)
    stranger = identity.host_id("stranger")
    call = text(f"select afterturn.{function}")
    for host, erasure in ((HOST, uuid4()), (stranger, running)):
        with pytest.raises(DBAPIError, match="no such erasure runs"):
            async with scene.world.database.tenant(host) as connection:
                await connection.execute(call, {"erasure": erasure})
    await scene.erasures.run(HOST, running)
    with pytest.raises(DBAPIError, match="no such erasure runs"):
        async with scene.world.database.tenant(HOST) as connection:
            await connection.execute(call, {"erasure": running})
    with pytest.raises(DBAPIError, match="permission denied"):
        async with scene.world.database.operator() as connection:
            await connection.execute(call, {"erasure": running})


async def test_a_projection_under_way_and_an_erasure_do_not_count_twice(scene: Scene) -> None:
    await told(scene, 8)
    await scene.crew.drain(Stage.EXTRACTION, Stage.EMBEDDING)
    unit = await scene.unit_of("My name is Karl3")
    await asyncio.gather(scene.crew.drain(Stage.PROJECTION), scene.erase(Kind.UNIT, unit))
    await scene.crew.drain(Stage.PROJECTION)
    assert (await verify_log(scene.world.postgres.owner_url)).equal
    assert lines_with(await dump(scene.world.postgres), "My name is Karl3") == []
