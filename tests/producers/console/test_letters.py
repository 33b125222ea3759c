"""Dead letters of a turn queue in a real browser: found with their reason, retried and dropped by a click."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlencode
from uuid import uuid4

import pytest
import pytest_asyncio
from afterturn_client.publisher import QueueOptions, TurnPublisher
from afterturn_client.turns import Message

from producers.queue.acceptance import QueueIntake, Rejection
from store import identity
from store.tenancy.keys import Grant
from store.tenancy.operator_keys import OperatorKeys
from store.tenancy.quotas import QuotaLimits, Quotas
from store.tenancy.tenants import ensure_host
from tests.patience import until
from tests.producers.conftest import QUEUE, QUEUE_TENANT, Tenant, World
from tests.producers.console.browser import Visitor
from tests.servers import TestValkey
from tests.workers.test_turn_queue import Queue

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]
NEVER = Rejection("INVALID_ARGUMENT", "session_id: must not be blank")


@pytest_asyncio.fixture(loop_scope="session")
async def publishers(world: World) -> AsyncIterator[Tenant]:
    """The tenant of the turn queue, which has no dead letter."""
    tenant = await world.tenant(QUEUE_TENANT)
    await asyncio.to_thread(forget_letters, world)
    yield tenant
    await asyncio.to_thread(forget_letters, world)
    await tenant.http.aclose()


def forget_letters(world: World) -> None:
    world.queue.letters.drop([one.message_id for one in world.queue.letters.iterate()])


async def test_a_dead_letter_is_retried_by_a_click_and_remembered(
    world: World, publishers: Tenant, valkey: TestValkey, visitor: Visitor
) -> None:
    host, loop, turn = identity.host_id(QUEUE_TENANT), asyncio.get_running_loop(), uuid4().hex
    grant = Grant(uuid4(), host, None, write=True)
    intake = QueueIntake(world.memory, grant, 1 << 20, 1, lambda: ensure_host(world.database, QUEUE_TENANT))

    async def accept(raw: bytes, failures: int) -> Rejection | None:
        """Accept on the loop of the API, from that of the worker's threads."""
        done = asyncio.run_coroutine_threadsafe(intake.accept(raw, failures), loop)
        return await asyncio.wrap_future(done)

    async def is_remembered() -> bool:
        return (await publishers.http.get(f"/api/v1/turns/monday/{turn}")).status_code == 200

    queue = Queue(valkey, world.broker.namespace, world.queue.letters)
    quotas = Quotas(world.database, world.clock)
    await quotas.set(QUEUE_TENANT, None, QuotaLimits(max_turns=0))
    try:
        with queue.worker(accept):
            with TurnPublisher(valkey.url, QUEUE, QueueOptions(namespace=queue.namespace, durable=False)) as made:
                made.add_turn("monday", [Message("user", "The boiler is old")], turn_id=turn)
            await until(lambda: len(world.queue.letters.list()) == 1, "the message is a dead letter")
            await quotas.set(QUEUE_TENANT, None, QuotaLimits())
            await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
            await visitor.open("work")
            await visitor.click("Dead letters", role="link")
            row = visitor.page.get_by_role("table", name="Dead letters").get_by_role("row", name="QUOTA_EXCEEDED")
            assert QUEUE_TENANT in await row.inner_text()
            assert "boiler" not in await visitor.page.content()
            await row.get_by_role("button", name="Retry").click()
            await visitor.sees("goes back to the end of its queue")
            await visitor.page.get_by_role("dialog").get_by_role("button", name="Retry").click()
            await visitor.sees("1 changed.")
            await until(is_remembered, "the turn is in the log")
        await visitor.sees("No dead letter matches")
    finally:
        await quotas.set(QUEUE_TENANT, None, QuotaLimits())


@pytest.mark.usefixtures("publishers")
async def test_letters_that_match_are_counted_first_and_then_changed(world: World, visitor: Visitor) -> None:
    async def reject(*names: str) -> None:
        for name in names:
            await asyncio.to_thread(world.queue.letters.put, name, "turns", b"{}", 1, NEVER)

    await reject("1", "2", "3")
    await asyncio.to_thread(
        world.queue.letters.put, "busy", "recalls", b"{}", 1, Rejection("QUOTA_EXCEEDED", "no room")
    )
    await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
    await visitor.open(f"letters?{urlencode({'queue': QUEUE, 'code': 'INVALID_ARGUMENT'})}")
    await visitor.page.get_by_role("table", name="Dead letters").wait_for()
    await visitor.reads_well("letters")
    await visitor.hears("letters")
    await visitor.click("Count")
    await visitor.sees("3 dead letters, 3 of them with their content")
    await visitor.click("Drop all")
    await visitor.sees("3 dead letters match.")
    # What dies after the count was not asked about.
    await reject("4")
    await visitor.page.get_by_role("dialog").get_by_role("button", name="Drop").click()
    await visitor.sees("3 changed.")
    left = await asyncio.to_thread(world.queue.letters.list)
    assert {one.message_id for one in left} == {"busy", "4"}
    # Filters stand there when nothing matches, and in the address.
    await visitor.page.get_by_role("textbox", name="Error code").fill("nothing")
    await visitor.page.keyboard.press("Enter")
    await visitor.sees("No dead letter matches")
    assert "code=nothing" in visitor.page.url
    await visitor.page.get_by_role("link", name="Remove the filter Error code").click()
    await visitor.sees("QUOTA_EXCEEDED: no room")
