"""A model reads turns beside the rules: what it adds, what it cannot take away, what it is never asked twice."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from pydantic import ValidationError
from sqlalchemy import text
from starlette.responses import JSONResponse, Response

from store.ledger.circuit_breakers import Gate, GatePolicy, gate_name
from store.ledger.stages import Stage
from store.memory.turns import NewMessage
from store.memory.units import Units
from store.text.rules import VERSION
from tests.client.loopback import closed_port, silence
from tests.tables import each_row
from tests.workers.conftest import BANK, HOST, World, dialogue, now, turn_uuid
from tests.workers.models import KEY, Model, called, fact, facts, model, reader
from tests.workers.stages import Crew
from tests.workers.test_stages import projections_hold, tables
from workers.extraction.events import derive_events, reading_id
from workers.extraction.llm.reader import build_reader
from workers.settings import EnrichmentSettings

SAID = "My name is Ana. We moved house to Porto in May with Karl Berger."
MakeCrew = Callable[..., Crew]


@pytest.fixture
def server() -> Iterator[Model]:
    with model() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def crew_with(world: World) -> AsyncIterator[MakeCrew]:
    """Workers with a reader and a sight of the gate of their own."""
    readers = []

    def make(url: str, **more: Any) -> Crew:
        readers.append(reader(url, **more))
        gate = Gate(world.database, gate_name("model", "the one"), GatePolicy(threshold=2, cooldown_s=60.0))
        return Crew(world, reader=readers[-1], model_gate=gate)

    yield make
    for one in readers:
        await one.close()


def porto(_turn: Any) -> dict[str, Any]:
    entities = [{"name": "Karl Berger", "kind": "person", "message": 0}, {"name": "May", "kind": "name", "message": 0}]
    return facts(fact("Porto", "We moved house to Porto"), entities=entities)


async def statements(world: World) -> list[tuple[str, str]]:
    """What is known as facts, and which version found it."""
    rows = await world.sql("""
        select content, metadata->>'extractor' as extractor from afterturn.agent_memory_unit_t
         where origin = 'extraction' and active order by position""")
    return [tuple(row) for row in rows]


async def audited(world: World) -> list[tuple[str, dict[str, Any]]]:
    rows = await world.sql("select event, payload from afterturn.audit_event_t order by audit_id")
    return [(row.event, row.payload) for row in rows]


async def row(world: World) -> tuple[str, str | None, int]:
    rows = await world.sql("""
        select status, error_category, attempts from afterturn.ledger_t where stage = 'enrichment' order by position""")
    return tuple(rows[0])


async def test_it_is_off_by_default(world: World) -> None:
    assert build_reader(EnrichmentSettings()) is None
    await world.append(messages=dialogue(SAID, "Noted."))
    await Crew(world).drain()
    assert await world.statuses(Stage.ENRICHMENT) == []


async def test_what_a_model_finds_stands_beside_what_the_rules_found(
    world: World, server: Model, crew_with: MakeCrew
) -> None:
    server.says = porto
    await world.append(messages=dialogue(SAID, "Noted."))
    crew = crew_with(server.url)
    await crew.drain()
    await crew.drain()
    assert await statements(world) == [
        ("The user's name is Ana.", VERSION),
        ("The user's city is Porto.", "llm-5:test/model-1"),
    ]
    (unit,) = await world.sql("""
        select f.source_memory_ids, f.metadata, s.unit_id, s.content from afterturn.agent_memory_unit_t f
          join afterturn.agent_memory_unit_t s on s.unit_id = f.source_memory_ids[1]
         where f.metadata->>'value' = 'Porto'""")
    start, end = map(int, unit.metadata["span"].split(":"))
    assert unit.content[start:end] == "We moved house to Porto"
    assert await world.statuses(Stage.ENRICHMENT) == ["done"]
    for stage in (Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION):
        assert set(await world.statuses(stage)) == {"done"}
    assert await audited(world) == [
        ("extraction_model_succeeded", {"version": "llm-5:test/model-1", "facts": 1, "dropped": 0})
    ]


async def test_a_fact_that_a_model_puts_beside_those_of_a_kind_is_in_no_list(
    world: World, server: Model, crew_with: MakeCrew
) -> None:
    server.says = lambda _turn: facts(
        *(fact(one, one, fact_id="user_profile", key=key) for one, key in (("34", "age"), ("a nurse", "job"))),
        fact("Porto", "Porto", fact_id="user_visited"),
        fact("techno", "techno", fact_id="user_like", key="music"),
    )
    said = "I visited Ghent. I visited Lyon. I like jazz. Of Porto, techno: 34, a nurse."
    await world.append(messages=dialogue(said, "Noted."))
    await crew_with(server.url).drain()
    assert len(await statements(world)) == 7
    told = await world.sql("select content from afterturn.agent_memory_reflection_t where active")
    assert [row.content for row in told] == ["The user visited: Ghent; Lyon."]


async def test_late_facts_are_counted_embedded_and_found_by_word(
    world: World, server: Model, crew_with: MakeCrew
) -> None:
    server.says = porto
    await world.append(messages=dialogue(SAID, "Noted."))
    crew = crew_with(server.url)
    await crew.drain(Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION)
    await crew.drain(Stage.ENRICHMENT)
    assert {Stage.PROJECTION, Stage.EMBEDDING} <= set(crew.notified)
    await crew.drain(Stage.EMBEDDING, Stage.PROJECTION)
    await projections_hold(world)
    lines = await world.sql("select fact_id, key, value from afterturn.fact_t where valid_to is null order by value")
    assert ("user_location", "city", "porto") in [tuple(line) for line in lines]
    embedded = await world.sql("""
        select 1 from afterturn.unit_vector_t v join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
         where u.metadata->>'value' = 'Porto'""")
    assert len(embedded) == 1


@pytest.mark.parametrize(
    "reply,category",
    [
        (Response("<html>"), "invalid_reply"),
        (Response("x" * 3_000_000), "too_large"),
        (Response(status_code=401), "unauthorized"),
        (Response(status_code=404), "http_error"),
        (Response(status_code=503), "unavailable"),
        (Response(status_code=429), "rate_limited"),
        (Response(status_code=302, headers={"location": "/"}), "redirect"),
        (JSONResponse({"output": []}), "no_call"),
        (JSONResponse(called("{")), "wrong_schema"),
        (JSONResponse({"output": [{"type": "refusal", "refusal": "no"}]}), "refused"),
    ],
)
async def test_no_failure_of_the_model_loses_what_the_rules_found(
    world: World, server: Model, crew_with: MakeCrew, reply: Response, category: str
) -> None:
    await world.append(messages=dialogue(SAID, "Noted."))
    crew = crew_with(server.url)
    crew.max_attempts = 2
    server.fault = lambda _seen: reply
    for _ in range(2):
        await crew.drain()
        await world.forget_backoff()
    await crew.drain(Stage.ENRICHMENT)
    ends = {"refused": "skipped", "unavailable": "pending"}
    status, told, _ = await row(world)
    assert (status, told) == (ends.get(category, "dead"), category)
    assert await statements(world) == [("The user's name is Ana.", VERSION)]
    assert await world.statuses(Stage.EXTRACTION) == ["done"]
    event, payload = (await audited(world))[0]
    assert (event, payload["category"]) == ("extraction_model_failed", category)
    assert set(payload) <= {"operation", "category", "http_status"}


async def test_a_model_that_hangs_holds_up_no_rule(world: World, server: Model, crew_with: MakeCrew) -> None:
    crew = crew_with(server.url, timeout_seconds=0.3)
    await world.append(messages=dialogue(SAID, "Noted."))
    with silence() as server.fault:
        await crew.drain(Stage.EXTRACTION)
        assert server.asked == [], "the rules ask nobody"
        assert await statements(world) == [("The user's name is Ana.", VERSION)]
        await crew.drain(Stage.ENRICHMENT)
    assert (await audited(world))[0][1] == {"operation": "extract", "category": "timeout"}


async def test_a_model_that_is_away_costs_no_turn_its_attempts(
    world: World, server: Model, crew_with: MakeCrew
) -> None:
    server.says = porto
    for n in range(4):
        await world.append(f"s{n}", messages=dialogue(SAID, "Noted."))
    away = crew_with(closed_port())
    await away.drain(Stage.EXTRACTION)
    for _ in range(8):
        await away.drain(Stage.ENRICHMENT)
        await world.forget_backoff()
        await world.sql("update public.afterturn_gate set shut_until = clock_timestamp()")
    attempts = await world.sql("select sum(attempts) as n from afterturn.ledger_t where stage = 'enrichment'")
    assert attempts[0].n <= 4
    for _ in range(2):
        await crew_with(server.url).drain(Stage.ENRICHMENT)
        await world.sql("update public.afterturn_gate set shut_until = clock_timestamp()")
        await world.forget_backoff()
    assert await world.statuses(Stage.ENRICHMENT) == ["done"] * 4


@pytest.mark.law("L2")
async def test_a_model_asked_again_by_accident_changes_nothing_whatever_it_says_then(
    world: World, server: Model, crew_with: MakeCrew
) -> None:
    server.says = porto
    await world.append(messages=dialogue(SAID, "Noted."))
    crew = crew_with(server.url)
    await crew.drain()
    await crew.drain()
    before = await tables(world)
    server.says = lambda _turn: facts(fact("Braga", "Porto in May", key="home"))
    await world.sql("update afterturn.ledger_t set status = 'pending', attempts = 0 where stage = 'enrichment'")
    await crew.drain()
    await crew.drain()
    assert len(server.asked) == 2
    assert await tables(world) == before
    assert await world.statuses(Stage.ENRICHMENT) == ["done"]


@pytest.mark.law("L2")
async def test_a_worker_that_dies_after_the_answer_leaves_no_half(
    world: World, server: Model, crew_with: MakeCrew
) -> None:
    server.says = porto
    await world.append(messages=dialogue(SAID, "Noted."))
    crew = crew_with(server.url)
    await crew.drain(Stage.EXTRACTION)
    (claim,) = await world.ledger.claim(
        Stage.ENRICHMENT, streams=1, rows=1, lease=timedelta(seconds=30), worker="dead", max_attempts=5
    )
    await world.expire_leases()
    await crew.drain()
    before = await tables(world)
    late = crew.runner(Stage.ENRICHMENT)
    await late._work_piece([claim])
    assert await tables(world) == before
    assert [content for content, _ in await statements(world)].count("The user's city is Porto.") == 1


@pytest.mark.law("L11")
async def test_what_is_erased_while_the_model_reads_is_not_written(
    world: World, server: Model, crew_with: MakeCrew
) -> None:
    server.says = porto
    await world.append(messages=dialogue(SAID, "Noted."))
    crew = crew_with(server.url)
    await crew.drain(Stage.EXTRACTION)
    (claim,) = await world.ledger.claim(
        Stage.ENRICHMENT, streams=1, rows=1, lease=timedelta(seconds=30), worker="slow", max_attempts=5
    )
    turn = turn_uuid("s", "t")
    async with world.database.tenant(HOST) as connection:
        await connection.execute(
            text("select afterturn.end_turns(:host, cast(:turns as uuid[]), cast(:turns as uuid[]))"),
            {"host": HOST, "turns": [turn]},
        )
    await crew.runner(Stage.ENRICHMENT)._work_piece([claim])
    assert len(server.asked) == 1
    assert [content for content, _ in await statements(world)] == ["The user's name is Ana."]


async def test_a_text_that_was_corrected_is_read_once_more(world: World, server: Model, crew_with: MakeCrew) -> None:
    server.says = porto
    await world.append(messages=dialogue(SAID, "Noted."))
    crew = crew_with(server.url)
    await crew.drain()
    [unit] = await world.sql("select unit_id from afterturn.agent_memory_unit_t where content = :said", said=SAID)
    units = Units(world.database, now)
    server.says = lambda _turn: facts(fact("Faro", "We moved house to Faro"))
    for town in ("Faro", "Porto"):
        await units.correct(HOST, "default", unit.unit_id, SAID.replace("Porto", town))
        await crew.drain()
        await crew.drain()
        server.says = porto
    assert len(server.asked) == 3
    assert await statements(world) == [
        ("The user's name is Ana.", VERSION),
        ("The user's city is Porto.", "llm-5:test/model-1"),
    ]
    await projections_hold(world)


async def test_a_turn_without_words_of_a_user_is_not_sent(world: World, server: Model, crew_with: MakeCrew) -> None:
    await world.append(messages=dialogue("  ", "Hello?"))
    await crew_with(server.url).drain()
    assert server.asked == []
    assert await world.statuses(Stage.ENRICHMENT) == ["done"]


async def test_a_row_of_a_version_that_is_not_configured_any_more_ends_skipped(
    world: World, server: Model, crew_with: MakeCrew
) -> None:
    await world.append(messages=dialogue(SAID, "Noted."))
    await crew_with(server.url).drain(Stage.EXTRACTION)
    await Crew(world).drain(Stage.ENRICHMENT)
    assert await world.statuses(Stage.ENRICHMENT) == ["skipped"]


async def read_by_rules(world: World, version: str) -> None:
    """Have the one turn read over again by a version of the rules."""
    turn = turn_uuid("s", "t")
    await world.sql(
        """insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position,
                                           accepted_at)
           select host_id, 'enrichment', :item, :item, bank_id, session_id, turn_id, position, accepted_at
             from afterturn.turn_t where turn_id = :turn""",
        item=reading_id(turn, version),
        turn=turn,
    )
    await Crew(world).drain()


async def test_the_rules_over_history_find_what_is_new_and_repeat_nothing(world: World) -> None:
    await world.append(messages=dialogue(SAID, "Noted."))
    await Crew(world).drain()
    before = await statements(world)
    await read_by_rules(world, VERSION)
    await Crew(world).drain()
    assert await statements(world) == before
    rows = await world.sql("select version, bank_id from afterturn.reading_t")
    assert [tuple(one) for one in rows] == [(VERSION, BANK)]


async def test_what_was_forgotten_no_other_version_brings_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.append(messages=dialogue(SAID, "Noted."))
    await Crew(world).drain()
    [(fact_of_rules,)] = await world.sql(
        "select unit_id from afterturn.agent_memory_unit_t where origin = 'extraction'"
    )
    await Units(world.database, now).forget(HOST, "default", fact_of_rules)
    monkeypatch.setattr("workers.enrichment.VERSION", "rules-99")
    await read_by_rules(world, "rules-99")
    assert await world.statuses(Stage.ENRICHMENT) == ["done"]
    assert await statements(world) == []


async def test_a_message_that_is_corrected_under_newer_rules_repeats_no_fact_of_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr("workers.extraction.stage.derive_events", partial(derive_events, version="rules-0"))
        await world.append(messages=[NewMessage("user", "My name is Ana."), NewMessage("user", "I like rum.")])
        await Crew(world).drain()
    [(unit,)] = await world.sql(
        "select unit_id from afterturn.agent_memory_unit_t where content = :said", said="I like rum."
    )
    await Units(world.database, now).correct(HOST, "default", unit, "I like tea.")
    await Crew(world).drain()
    assert await statements(world) == [("The user's name is Ana.", "rules-0"), ("The user likes tea.", VERSION)]


@pytest.mark.law("L7")
async def test_neither_texts_nor_the_key_are_written_down_about_a_call(
    world: World, server: Model, crew_with: MakeCrew, caplog: pytest.LogCaptureFixture
) -> None:
    await world.append(messages=dialogue("My name is Distinctiveria.", "Noted."))
    server.fault = lambda seen: Response(b"echo " + seen.body + KEY.encode(), status_code=400)
    crew = crew_with(server.url)
    await crew.drain()
    rows = await world.sql("select error_category, error_reason from afterturn.ledger_t where stage = 'enrichment'")
    written = f"{await audited(world)}{rows}{caplog.text}{crew.reader!r}"
    assert "Distinctiveria" not in written
    assert KEY not in written


@each_row("url", ["", "api.openai.com", "http://models.example.com", "https://u:p@models.example.com"])
def test_an_address_that_cannot_be_asked_is_an_error_at_the_start(url: str) -> None:
    with pytest.raises(ValidationError, match="base_url must") as caught:
        EnrichmentSettings(enabled=True, base_url=url)
    assert "base_url must" in str(caught.value)
