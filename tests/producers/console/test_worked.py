"""What workers make of a turn, in a real browser: its way through the stages, a person's history, a fact's source."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from producers.settings import ApiSettings
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage
from store.memory.turns import TurnStore
from tests.generations import make_live
from tests.producers.conftest import World, broker_of, build
from tests.producers.console.browser import Visitor, visit
from tests.producers.words import WordEmbedder
from tests.servers import TestPostgres, TestValkey
from tests.serving import serve
from tests.workers.conftest import World as Workers
from tests.workers.conftest import now
from tests.workers.stages import Crew

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]


@pytest_asyncio.fixture(loop_scope="session")
async def quiet(fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[World]:
    """An API whose stages have nobody else's work."""
    made = build(fresh_database, broker_of(valkey.url, f"worked-{uuid4().hex}"), settings=ApiSettings())
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def crew(quiet: World) -> Crew:
    await make_live(quiet.database, WordEmbedder())
    workers = Workers(quiet.postgres, quiet.database, Ledger(quiet.database), TurnStore(quiet.database, now))
    return Crew(workers, embedder=WordEmbedder())  # type: ignore[arg-type]  # the API's own


@pytest_asyncio.fixture(loop_scope="session")
async def guest(quiet: World, browser: Browser) -> AsyncIterator[Visitor]:
    async with serve(quiet.app) as url, visit(browser, url) as visitor:
        yield visitor


def say(turn: str, text: str, day: int) -> dict[str, Any]:
    message = {"role": "user", "name": "Ana Lima", "content": text}
    return {"session_id": "monday", "turn_id": turn, "occurred_at": f"2026-03-0{day}T12:00:00Z", "messages": [message]}


async def test_a_turn_is_watched_through_all_stages(quiet: World, crew: Crew, guest: Visitor) -> None:
    ana = await quiet.tenant()
    assert (await ana.http.post("/api/v1/turns", json=say("1", "I live in Porto.", 1))).status_code == 201
    await guest.sign_in(ana.token)
    await guest.open("turn?session_id=monday&turn_id=1")
    await guest.click("Show content")
    await guest.sees("Watching until every stage is done")
    stages = guest.page.get_by_role("region", name="Stages").get_by_role("listitem")
    for stage in (Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION):
        chip = stages.filter(has_text=stage.value).locator(".chip")
        assert await chip.inner_text() == "pending"
        await crew.drain(stage)
        # By itself: nobody loads the page anew.
        await stages.filter(has_text=stage.value).filter(has_text="done").wait_for()
    await guest.sees("Where this turn is in the pipeline.")
    await guest.page.get_by_text("Facts drawn from it").click()
    await guest.page.locator(".drawn .card").filter(has_text="Porto").first.wait_for()
    await ana.http.aclose()


async def test_a_person_is_shown_with_sources_and_history(quiet: World, crew: Crew, guest: Visitor) -> None:
    ana = await quiet.tenant()
    for day, text in enumerate(("I live in Porto.", "I moved to Lisbon."), 1):
        assert (await ana.http.post("/api/v1/turns", json=say(str(day), text, day))).status_code == 201
    await crew.drain()
    await guest.sign_in(ana.token)
    await guest.open("people")
    await guest.page.get_by_label("A name as it is said").fill("ana lima")
    await guest.click("Look")
    await guest.click("Show content")
    await guest.sees("Names: Ana Lima")
    facts = guest.page.locator(".rows article")
    assert await facts.count() == 1, "what was replaced stands below what holds"
    assert "Lisbon" in await facts.inner_text()
    await facts.get_by_text("Before (1)").click()
    assert "Porto" in await facts.locator(".history").inner_text()
    await guest.reads_well("person")
    # The fact leads to the message that it was drawn from, and that back to the fact.
    await facts.get_by_role("link", name="Drawn from").click()
    await guest.page.locator(".unit-whole").filter(has_text="I moved to Lisbon.").wait_for()
    await guest.page.locator(".columns a.card.unit").filter(has_text="Lisbon").first.wait_for()
    await guest.sees("People and things")
    await ana.http.aclose()
