"""A browser for all tests of the console, the API that it visits, and a person at a page."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, BrowserContext

from store.concurrent_calls import run_meanwhile
from tests.producers.conftest import World
from tests.producers.console.browser import Visitor, open_browser, open_page, open_profile
from tests.serving import serve


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with open_browser() as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def url(world: World) -> AsyncIterator[str]:
    ending = asyncio.Event()
    async with run_meanwhile(world.figures.run(ending), "figures"), serve(world.app) as served:
        yield served
        # Streams that are watched end before the server waits for them.
        ending.set()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def profile(browser: Browser) -> AsyncIterator[BrowserContext]:
    """One for all tests: the files of the console are fetched and compiled once."""
    async with open_profile(browser) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(profile: BrowserContext, url: str) -> AsyncIterator[Visitor]:
    async with open_page(profile, url) as one:
        yield one
