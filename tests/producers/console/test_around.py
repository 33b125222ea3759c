"""Around one entity in a real browser: the graph and the list say the same, and either is worked by keyboard."""

from urllib.parse import urlencode

import pytest

from tests.producers.conftest import Tenant, World
from tests.producers.console.browser import Visitor
from tests.producers.http.test_commands import BANK, do
from tests.producers.http.test_graph import count, fill

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]
POISON = "<img src=x onerror=alert(1)> \u202e"
AROUND = f"around?{urlencode({'bank': BANK, 'name': 'Lea Roth'})}"


async def test_an_entity_is_reached_by_keyboard_in_the_graph_and_in_the_list(
    world: World, ana: Tenant, visitor: Visitor
) -> None:
    units, entities = await fill(world, ana)
    made = (await do(ana, "createAgentMemoryEntity", canonicalName=POISON))["entityId"]
    await do(ana, "linkAgentMemoryUnitEntity", unitId=units[0], entityId=made)
    await count(world, ana)
    await visitor.sign_in(ana.token)
    await visitor.open(AROUND)
    await visitor.click("Show content")
    await visitor.page.get_by_role("heading", name="Lea Roth").wait_for()
    rows = visitor.page.get_by_role("table", name="Entities around it").get_by_role("row")
    assert await rows.count() == len(entities) + 1
    graph = visitor.page.get_by_role("group", name="Graph of 6 entities")
    assert await graph.get_by_role("link").count() == 6
    assert await graph.locator("line").count() == 15
    assert len({await node.get_attribute("cx") for node in await graph.locator("circle").all()}) > 3
    await graph.get_by_role("link", name="Mia Falk, 5 mentions").focus()
    await visitor.page.keyboard.press("Enter")
    await visitor.page.get_by_role("heading", name="Mia Falk").wait_for()
    await visitor.page.get_by_role("table", name="Entities around it").get_by_role("link", name="Pia Weiss").click()
    await visitor.page.get_by_role("heading", name="Pia Weiss").wait_for()
    await visitor.open(f"around?{urlencode({'bank': BANK, 'name': 'Nobody'})}")
    await visitor.sees("No entity has this name")
    visitor.forgive("404")


async def test_the_graph_is_readable_for_everyone(world: World, ana: Tenant, visitor: Visitor) -> None:
    await fill(world, ana)
    await visitor.sign_in(ana.token)
    await visitor.open(AROUND)
    await visitor.click("Show content")
    await visitor.sees("Units with both")
    await visitor.reads_well()
