"""A bank in a real browser: a list of each kind that it holds, a document with its chunks, and the bank's end."""

from typing import Any

import pytest

from tests.patience import until
from tests.producers.conftest import Tenant, World
from tests.producers.console.browser import Visitor
from tests.producers.console.said import remember

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]
V1 = "/api/v1"


async def store(tenant: Tenant, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await tenant.http.post(f"{V1}/{path}", json=body)
    assert reply.status_code == 201, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def fill(ana: Tenant) -> None:
    """Store one thing of each kind that a caller can store."""
    await remember(ana, "I live in Ghent. I love the canals.")
    await store(ana, "memories", {"content": "The boiler is from 2009"})
    await store(ana, "docs", {"title": "Boiler manual", "content": "Bleed the radiators each autumn."})
    await store(ana, "directives", {"name": "tone", "content": "Answer briefly.", "priority": 5})


async def test_each_kind_of_thing_has_a_list(ana: Tenant, visitor: Visitor) -> None:
    await fill(ana)
    await visitor.sign_in(ana.token)
    await visitor.open("bank?bank=default")
    await visitor.page.get_by_role("table", name="Sessions").wait_for()
    await visitor.click("Facts", role="link")
    await visitor.sees("Content is hidden")
    await visitor.click("Show content")
    shown = visitor.page.locator("main")
    for tab, text, other in (
        ("Facts", "live", "boiler"),
        ("Single memories", "The boiler is from 2009", "Ghent"),
        ("Directives", "Answer briefly.", "Ghent"),
        ("Units", "I live in Ghent. I love the canals.", "Answer briefly."),
        ("Documents", "Boiler manual", "Ghent"),
    ):
        await visitor.click(tab, role="link")
        await shown.get_by_role("link", name=tab, exact=True).and_(visitor.page.locator("[aria-current]")).wait_for()
        await shown.get_by_text(text).first.wait_for()
        assert await shown.get_by_text(other).count() == 0, tab
    for tab, text in (("Entities", "No entity in this bank"), ("Reflections", "No reflection in this bank")):
        await visitor.click(tab, role="link")
        await visitor.sees(text)


async def test_a_document_leads_to_its_chunks_alone(ana: Tenant, visitor: Visitor) -> None:
    await fill(ana)
    await visitor.sign_in(ana.token)
    await visitor.open("bank?bank=default&view=documents")
    await visitor.click("Show content")
    await visitor.click("Boiler manual", role="link")
    await visitor.sees("Bleed the radiators each autumn.")
    assert await visitor.page.locator(".card.unit").count() == 1
    assert await visitor.page.get_by_text("Ghent").count() == 0
    await visitor.reads_well("document")


async def test_a_bank_is_given_an_end_and_it_is_taken_away(ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "I live in Ghent.")

    async def read_end() -> str | None:
        found: str | None = (await ana.http.get(f"{V1}/bank", params={"bank": "default"})).json()["expires_at"]
        return found

    await visitor.sign_in(ana.token)
    await visitor.open("bank?bank=default")
    for value, told in (("2031-05-01T12:00", "2031-05-01T10:00:00"), ("", None)):
        await visitor.click("End")
        await visitor.sees("no answer shows anything of the bank")
        await visitor.page.get_by_label("Ends at; empty: never").fill(value)
        await visitor.click("Set the end")
        await visitor.sees("The end is set." if value else "The bank never ends.")
        end = await read_end()
        assert end == told if told is None else (end or "").startswith(told)


async def test_a_key_that_reads_only_is_offered_no_end(world: World, ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "I live in Ghent.")
    reader = await world.tenant(ana.host, write=False)
    await visitor.sign_in(reader.token)
    await visitor.open("bank?bank=default")
    await visitor.page.get_by_role("table", name="Sessions").wait_for()
    assert await visitor.page.get_by_role("button", name="End").count() == 0
    await reader.http.aclose()


async def test_what_was_drawn_from_a_message_is_read_when_it_is_opened(ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "I live in Ghent.")
    [turn] = (await ana.http.get(f"{V1}/turns", params={"session_id": "monday"})).json()["turns"]
    asked: list[str] = []
    visitor.page.on("request", lambda one: asked.append(one.url) if "/units/" in one.url else None)
    await visitor.sign_in(ana.token)
    await visitor.open(f"turn?session_id=monday&turn_id={turn['turn_id']}")
    await visitor.click("Show content")
    await visitor.sees("I live in Ghent.")
    assert asked == []
    await visitor.page.get_by_text("Facts drawn from it").click()

    async def is_read() -> bool:
        return len(asked) == 1

    await until(is_read, "the unit is read")
    await visitor.page.locator(".drawn .card, .drawn .quiet").first.wait_for()
