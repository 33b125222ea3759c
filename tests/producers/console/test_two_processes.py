"""The console over two APIs behind a round robin: one session, whichever of them answers."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser

from producers.settings import ApiSettings
from tests.patience import until
from tests.producers.conftest import Tenant, World, build
from tests.producers.console.browser import visit
from tests.producers.console.said import remember
from tests.round_robin import round_robin
from tests.serving import serve

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]


def close_each(app: Any) -> Any:
    """Wrap an application so that each request comes over a connection of its own, and so to the next API."""

    async def closing(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await app(scope, receive, sent)

    return closing


async def test_who_signs_in_at_one_acts_and_signs_out_at_any(world: World, ana: Tenant, browser: Browser) -> None:
    [unit] = await remember(ana, "We meet on Tuesday")
    # Its own caches of keys and sessions, as another process has them.
    other = build(world.postgres, world.broker, settings=ApiSettings())
    async with serve(close_each(world.app)) as first, serve(close_each(other.app)) as second:
        ports = [urlsplit(url).port or 0 for url in (first, second)]
        with round_robin(ports) as balancer:
            async with visit(browser, balancer.url) as visitor:
                await visitor.sign_in(ana.token)
                await visitor.open(f"unit?bank=default&unit_id={unit}")
                await visitor.click("Show content")
                await visitor.click("Correct")
                await visitor.page.get_by_label("New text").fill("We meet on Wednesday")
                await visitor.click("Correct it")
                await visitor.sees("Corrected.")
                balancer.given.clear()
                for _ in range(3):
                    await visitor.open("memory")
                    await visitor.page.get_by_role("link", name="default").wait_for()
                    await visitor.open("people")
                    await visitor.sees("What is known of a person")
                assert set(balancer.given) == set(ports), "both answer"
                half = await visitor.page.evaluate("localStorage.getItem('afterturn.session')")
                cookies: Any = await visitor.page.context.cookies()
                assert await visitor.page.evaluate(ASK, half) == [200] * 4
                await visitor.click("Sign out")
                await visitor.page.get_by_role("button", name="Sign in").wait_for()

                async def is_over() -> bool:
                    # The browser forgot the cookie: whoever kept both halves opens nothing with them.
                    await visitor.page.context.add_cookies(cookies)
                    return bool(await visitor.page.evaluate(ASK, half) == [401] * 4)

                await until(is_over, "no API opens the session any more")
                visitor.forgive("401")
    assert (await ana.http.get(f"/api/v1/units/{unit}")).json()["text"] == "We meet on Wednesday"
    await other.database.close()


#: Asks for the banks as the page's script would with this half of a session, several times.
ASK = """
async (half) => {
    const told = [];
    for (let n = 0; n < 4; n++)
        told.push((await fetch("/api/v1/banks", { headers: { "x-console-session": half } })).status);
    return told;
}"""
