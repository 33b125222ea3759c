"""How it goes now, in a real browser: told by a stream, which goes on behind its last event after a break."""

from contextlib import AsyncExitStack

import pytest
from playwright.async_api import Browser, Request

from store.tenancy.operator_keys import OperatorKeys
from tests.patience import until
from tests.producers.conftest import Tenant, World
from tests.producers.console.browser import Visitor, visit
from tests.producers.console.said import remember
from tests.producers.console.test_console import fail
from tests.producers.http.test_figures import STREAM
from tests.serving import serve

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]
#: Whether a line was drawn on every chart: some of its pixels are of the colour beside its name.
DRAWN = """
() => [...document.querySelectorAll(".chart")].map((chart) => {
    const colour = getComputedStyle(chart.querySelector(".legend .dot")).backgroundColor;
    const wanted = colour.match(/\\d+/g).slice(0, 3).join();
    const canvas = chart.querySelector("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    for (let at = 0; at < data.length; at += 4)
        if (data[at + 3] === 255 && data.slice(at, at + 3).join() === wanted) return true;
    return false;
})"""


def watch_streams(visitor: Visitor) -> list[Request]:
    """Return a list that grows with each stream that the page asks for, and with what it would poll."""
    asked: list[Request] = []
    visitor.page.on("request", lambda one: asked.append(one) if "/operator/" in one.url else None)
    return asked


async def test_figures_come_by_themselves_over_one_stream(world: World, ana: Tenant, visitor: Visitor) -> None:
    await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
    asked = watch_streams(visitor)
    await visitor.open("now")
    await visitor.page.get_by_role("table", name="Queues").wait_for()
    before = await read_undone(visitor)
    await remember(ana, "The boiler is old", "Rosa likes tea")

    async def has_grown() -> bool:
        return await read_undone(visitor) > before and bool((await visitor.page.evaluate(DRAWN))[0])

    await until(has_grown, "the page tells of the turns and draws them")
    assert await visitor.page.locator(".chart canvas").count() == 4
    assert [one.url.rpartition("/api")[2] for one in asked] == [STREAM.removeprefix("/api")]


#: The undone rows that the page tells.
UNDONE = """
() => Number([...document.querySelectorAll(".figures dt")]
    .find((one) => one.textContent === "Undone rows").nextSibling.textContent.replace(/\\D/g, ""))"""


async def read_undone(visitor: Visitor) -> int:
    return int(await visitor.page.evaluate(UNDONE))


async def test_an_alert_that_would_fire_is_told(world: World, ana: Tenant, visitor: Visitor) -> None:
    await fail(world, ana, "The boiler is old")
    await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
    await visitor.open("now")
    alert = visitor.page.get_by_role("table", name="Alerts").get_by_role("row", name="AfterturnDeadLetters")
    await alert.first.wait_for()
    assert "Work of extraction is in quarantine" in await alert.first.inner_text()


async def test_a_stream_goes_on_behind_its_last_event_after_a_break(world: World, browser: Browser) -> None:
    key = await OperatorKeys(world.database).create("on call")
    async with AsyncExitStack() as first:
        url = await first.enter_async_context(serve(world.app))
        async with visit(browser, url) as visitor:
            await visitor.sign_in(key)
            asked = watch_streams(visitor)
            await world.figures.read_now()
            await visitor.open("now")
            await visitor.page.get_by_role("table", name="Queues").wait_for()
            await first.aclose()
            await visitor.page.get_by_role("alert").wait_for()
            assert await visitor.page.get_by_role("table", name="Queues").count() == 1, "what was told stays"
            async with serve(world.app, int(url.rpartition(":")[2])):
                await until(lambda: world.figures.is_watched, "the page watches again")
                await world.figures.read_now()
                await visitor.page.get_by_role("alert").wait_for(state="detached")
                lasts = [one.headers.get("last-event-id") for one in asked]
                await visitor.open("memory")
            assert lasts[0] is None
            assert lasts[-1]
            # What the browser says of connections that were cut is what this test brought about.
            visitor.wrong = [one for one in visitor.wrong if "net::ERR_" not in one]
