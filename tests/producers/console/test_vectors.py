"""A change of the sentence model in a real browser: built, compared, switched to, rolled back, deleted."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from store import identity
from store.tenancy.operator_keys import OperatorKeys
from tests.generations import forget_generations, make_generation_live
from tests.patience import until
from tests.producers.conftest import NAMED, Tenant, World
from tests.producers.console.browser import Visitor
from tests.producers.console.said import remember
from tests.producers.http.test_generations import COMPLETE, DIMENSION, LIVE, VECTORS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]


@pytest_asyncio.fixture(loop_scope="session")
async def generations(world: World) -> AsyncIterator[None]:
    await make_generation_live(world.database, LIVE, DIMENSION, "first")
    yield
    await forget_generations(world.database)


async def press(visitor: Visitor, name: str) -> None:
    await visitor.page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()


async def shows(visitor: Visitor, wanted: dict[str, str]) -> None:
    """Wait until the page tells these states, by model."""

    async def holds() -> bool:
        rows = await visitor.page.get_by_role("table", name="Vectors").locator("tbody tr").all()
        told = {await row.locator("strong").inner_text(): await row.locator(".chip").first.inner_text() for row in rows}
        return told == wanted

    await until(holds, f"the states {wanted}")


@pytest.mark.usefixtures("generations")
async def test_a_model_is_changed_step_by_step(world: World, ana: Tenant, visitor: Visitor) -> None:
    await remember(ana, "The boiler is old", "Rosa likes tea")
    for generation, dimension in ((LIVE, DIMENSION), (NAMED.generation, NAMED.dimensions)):
        await world.sql(VECTORS, generation=generation, dimension=dimension, host=identity.host_id(ana.host))
    await visitor.sign_in(await OperatorKeys(world.database).create("on call"))
    await visitor.open("operate")
    await visitor.click("Vectors", role="link")
    await shows(visitor, {"first": "live"})
    await visitor.click("Build the vectors of this model")
    await visitor.sees("Recall goes on with the live one.")
    await press(visitor, "Build")
    await visitor.sees("The build has begun.")
    await shows(visitor, {"first": "live", NAMED.name: "being built"})
    await visitor.click("Ask 20 questions of each bank")
    await visitor.page.get_by_text("Of the nearest, both have").wait_for()
    await visitor.click("Switch to the built model")
    switch = visitor.page.get_by_role("dialog").get_by_role("button", name="Switch", exact=True)
    assert await switch.is_disabled(), "texts lack a vector: it is forced or not done"
    await press(visitor, "Cancel")
    await visitor.reads_well("vectors")
    await visitor.hears("vectors")
    async with world.database.operator() as connection:
        await connection.execute(COMPLETE)
    await visitor.page.reload()
    await shows(visitor, {"first": "live", NAMED.name: "being built"})
    await visitor.click("Switch to the built model")
    await press(visitor, "Switch")
    await visitor.sees("It is live.")
    await shows(visitor, {"first": "retired", NAMED.name: "live"})
    await visitor.click("Roll back to the model before")
    await press(visitor, "Roll back")
    await shows(visitor, {"first": "live", NAMED.name: "retired"})
    await visitor.click("Delete")
    await visitor.sees("There is no way back to it without a new build.")
    await press(visitor, "Delete")
    await shows(visitor, {"first": "live", NAMED.name: "being deleted"})
