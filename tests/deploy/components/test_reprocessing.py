"""Something better is run over history: all of it, once, no more at a time than workers take."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from starlette.responses import JSONResponse

from deploy.cli.extract import Reembedding, Reextraction
from deploy.components.reprocessing import Reprocessing, ReprocessingProgress, ReprocessingScope, reprocess_turns
from store.ledger.stages import Stage
from store.text.rules import VERSION
from tests.servers import TestPostgres
from tests.workers.conftest import BANK, HOST, World, dialogue, open_world
from tests.workers.models import Model, fact, facts, model, reader
from tests.workers.stages import Crew, KnownEmbedder

SAID = "My name is Ana. We moved house to Porto in May."
LLM = "llm-5:test/model-1"


@pytest.fixture
def server() -> Iterator[Model]:
    with model() as running:
        running.says = lambda _turn: facts(fact("Porto", "We moved house to Porto"))
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def world(fresh_database: TestPostgres) -> AsyncIterator[World]:
    opened = await open_world(fresh_database)
    yield opened
    await opened.database.close()


@pytest_asyncio.fixture(loop_scope="session")
async def crew(world: World, server: Model) -> AsyncIterator[Crew]:
    """Workers whose turns a model reads."""
    made = reader(server.url)
    yield Crew(world, reader=made)
    await made.close()


async def history(world: World, count: int, bank: str = "default") -> None:
    for n in range(count):
        await world.append(f"s{n}", messages=dialogue(SAID, "Noted."), bank=bank)


async def over(
    world: World, course: Reprocessing, crew: Crew, scope: ReprocessingScope | None = None, **more: Any
) -> ReprocessingProgress:
    """Run over history while a worker works, until both are through."""
    limits = {"ahead": 100, "timeout_s": 120.0, **more}
    running = asyncio.ensure_future(
        reprocess_turns(world.database, course, scope or ReprocessingScope(), say=lambda _line: None, **limits)
    )
    while not running.done():
        await crew.drain()
        await asyncio.sleep(0.02)
    return await running


async def test_every_turn_is_read_once_by_a_new_version(world: World, server: Model, crew: Crew) -> None:
    await history(world, 5)
    await Crew(world).drain()
    done = await over(world, Reextraction(LLM), crew)
    assert (done.turns, done.opened, done.left) == (5, 5, 0)
    assert len(server.asked) == 5
    again = await over(world, Reextraction(LLM), crew)
    assert (again.turns, again.opened, again.left) == (0, 0, 0)
    assert len(server.asked) == 5
    rows = await world.sql("select count(*) as n from afterturn.agent_memory_unit_t where metadata->>'value' = 'Porto'")
    assert rows[0].n == 5


async def test_what_was_begun_goes_on_where_it_was(world: World, server: Model, crew: Crew) -> None:
    await history(world, 6)
    await Crew(world).drain()
    cut = await reprocess_turns(
        world.database, Reextraction(LLM), ReprocessingScope(), ahead=2, timeout_s=0.0, say=lambda _line: None
    )
    assert cut.left == 6
    done = await over(world, Reextraction(LLM), crew)
    assert (done.left, len(server.asked)) == (0, 6)


async def test_turns_whose_ledger_rows_are_gone_are_not_read_again(world: World, server: Model, crew: Crew) -> None:
    await history(world, 2)
    await crew.drain()
    await world.sql("delete from afterturn.ledger_t where stage = 'enrichment'")
    assert (await over(world, Reextraction(LLM), crew)).turns == 0
    assert len(server.asked) == 2


async def test_one_bank_alone_can_be_named(world: World) -> None:
    await history(world, 2)
    await history(world, 3, bank="other")
    crew = Crew(world)
    await crew.drain()
    assert (await over(world, Reextraction(VERSION), crew, ReprocessingScope(HOST, BANK))).turns == 2
    assert (await over(world, Reextraction(VERSION), crew)).turns == 3


async def test_another_sentence_model_embeds_what_is_there(world: World) -> None:
    await history(world, 3)
    await Crew(world).drain()
    crew = Crew(world, KnownEmbedder(generation=7))
    done = await over(world, Reembedding(7), crew)
    assert (done.turns, done.left) == (4, 0), "three turns, and a reflection on them"
    rows = await world.sql("""
        select generation, count(*) as n from afterturn.unit_vector_t group by 1 order by 1""")
    assert [tuple(row) for row in rows] == [(1, 10), (7, 10)], "two messages and a fact of each turn"
    assert set(await world.statuses(Stage.EMBEDDING)) == {"done"}


async def test_a_refused_turn_is_not_asked_for_again(world: World, server: Model, crew: Crew) -> None:
    await history(world, 1)
    server.fault = lambda _seen: JSONResponse({"output": [{"type": "refusal"}]})
    await crew.drain()
    assert (await over(world, Reextraction(LLM), crew)).turns == 0
    assert len(server.asked) == 1
