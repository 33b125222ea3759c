"""The plugin over our own store: the contract kit, and what the issue promises beyond it."""

from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from producers.contract_kit.catalog import CASES
from store.identity import host_id
from tests.patience import PATIENCE_S
from tests.producers.conftest import Tenant, World
from tests.producers.contract_kit.judging import judge
from tests.producers.plugin.kept import parts_of, serving


@pytest_asyncio.fixture(loop_scope="session")
async def plugin(world: World, ana: Tenant) -> AsyncIterator[httpx.AsyncClient]:
    """The plugin of a tenant of its own."""
    parts = parts_of(world.database, world.notifier, world.clock)
    async with (
        serving(parts, host_id(ana.host)) as url,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client,
    ):
        yield client


async def test_every_case_of_the_kit_that_needs_no_outage_passes(plugin: httpx.AsyncClient) -> None:
    report = await judge(str(plugin.base_url))
    assert not report.failed, [(one.case.id, one.findings) for one in report.failed]
    assert report.counts() == {"passed": len(CASES) - 3, "failed": 0, "skipped": 3}
