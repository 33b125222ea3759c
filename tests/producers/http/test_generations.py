"""Generations of vectors over the operators' API: each step of a change of the model, and what is refused."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from sqlalchemy import text

from producers.service import generations
from store import identity
from store.ledger.workers import WorkerRegistry
from store.tenancy.operator_keys import OperatorKeys
from tests.generations import forget_generations, make_generation_live
from tests.producers.conftest import NAMED, Tenant, World

AT = "/api/v1/operator/embeddings"
LIVE, DIMENSION = 7, 384
VECTORS = """
    insert into afterturn.unit_vector_t (host_id, bank_id, unit_id, chunk, generation, embedding)
    select host_id, bank_id, unit_id, 0, :generation,
           array_fill(0.5::real, array[cast(:dimension as int)])::public.halfvec
      from afterturn.agent_memory_unit_t where host_id = :host"""
COMPLETE = text("update public.afterturn_generation set complete_at = now(), share = 1 where state = 'building'")


@pytest_asyncio.fixture(loop_scope="session")
async def operator(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """An operator who may not make keys: nothing here tells content."""
    await make_generation_live(world.database, LIVE, DIMENSION, "first")
    token = await OperatorKeys(world.database).create("on call")
    async with world.client({"authorization": f"Bearer {token}"}) as client:
        yield client
    await forget_generations(world.database)


async def ask(client: httpx.AsyncClient, method: str, path: str = "", status: int = 200, **more: Any) -> Any:
    reply = await client.request(method, f"{AT}{path}", **more)
    assert reply.status_code == status, reply.text
    return reply.json()


def states(told: dict[str, Any]) -> dict[str, str]:
    return {one["model"]: one["state"] for one in told["generations"]}


async def test_a_model_is_built_switched_to_rolled_back_and_dropped(world: World, operator: httpx.AsyncClient) -> None:
    first = await ask(operator, "GET")
    assert (states(first), first["model"]) == ({"first": "live"}, NAMED.name)
    built = await ask(operator, "POST", "/build")
    assert states(built) == states(await ask(operator, "POST", "/build")) == {"first": "live", NAMED.name: "building"}
    [new] = [one for one in built["generations"] if one["state"] == "building"]
    assert (new["generation"], new["dimension"], new["share"], new["complete_at"]) == (NAMED.generation, 8, 0, None)
    early = await ask(operator, "POST", "/switch", 409, json={})
    assert early["error"]["code"] == "GENERATION_REFUSED"
    async with world.database.operator() as connection:
        await connection.execute(COMPLETE)
    switched = await ask(operator, "POST", "/switch", json={})
    assert states(switched) == {"first": "retired", NAMED.name: "live"}
    live = await ask(operator, "POST", "/build", 409)
    assert "name another model in `embedding`" in live["error"]["message"]
    assert states(await ask(operator, "POST", "/rollback")) == {"first": "live", NAMED.name: "retired"}
    dropped = await ask(operator, "DELETE", f"/{NAMED.generation}")
    assert states(dropped) == {"first": "live", NAMED.name: "dropping"}


@pytest.mark.parametrize(
    "method,path,status,code",
    [
        ("DELETE", f"/{LIVE}", 409, "GENERATION_REFUSED"),
        ("DELETE", "/12345", 404, "NOT_FOUND"),
        ("DELETE", "/first", 404, "NOT_FOUND"),
        ("POST", "/switch", 409, "GENERATION_REFUSED"),
        ("POST", "/rollback", 409, "GENERATION_REFUSED"),
        ("GET", "/comparison", 409, "GENERATION_REFUSED"),
        ("GET", "/comparison?questions=0", 422, "INVALID_ARGUMENT"),
    ],
)
async def test_what_cannot_be_says_why(
    operator: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    body: dict[str, Any] | None = {} if path == "/switch" else None
    assert (await ask(operator, method, path, status, json=body))["error"]["code"] == code


async def test_workers_say_which_model_their_settings_name(world: World, operator: httpx.AsyncClient) -> None:
    registry = WorkerRegistry(world.database)
    await registry.begin("new:1:1", "0.1.0", ["embedding"], (NAMED.name, NAMED.generation))
    await registry.begin("old:1:1", "0.1.0", ["embedding"], ("first", LIVE))
    await registry.begin("older:1:1", "0.0.9", ["embedding"])
    found = {one["worker"]: (one["model"], one["generation"]) for one in (await ask(operator, "GET"))["workers"]}
    for worker in ("new:1:1", "old:1:1", "older:1:1"):
        await registry.end(worker)
    assert {name: found[name] for name in ("new:1:1", "old:1:1", "older:1:1")} == {
        "new:1:1": (NAMED.name, NAMED.generation),
        "old:1:1": ("first", LIVE),
        "older:1:1": (None, None),
    }


async def compare_all(operator: httpx.AsyncClient) -> list[dict[str, Any]]:
    """Return the pages of a comparison by seven questions a bank, of all banks that there are."""
    pages, cursor = list[dict[str, Any]](), None
    while not pages or cursor is not None:
        params = {"questions": 7} | ({"cursor": cursor} if cursor else {})
        pages.append(await ask(operator, "GET", "/comparison", params=params))
        cursor = pages[-1]["cursor"]
    return pages


async def test_a_comparison_goes_through_every_bank_page_by_page(
    world: World, operator: httpx.AsyncClient, ana: Tenant, turn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(operator, "POST", "/build")
    of_others = await compare_all(operator)
    monkeypatch.setattr(generations, "COMPARING_S", 0.001)
    for bank in ("one", "two"):
        assert (await ana.http.post("/api/v1/turns", json={**turn, "bank": bank})).status_code == 201
    for generation, dimension in ((LIVE, DIMENSION), (NAMED.generation, NAMED.dimensions)):
        vectors = {"generation": generation, "dimension": dimension, "host": identity.host_id(ana.host)}
        await world.sql(VECTORS, **vectors)
    pages = await compare_all(operator)
    assert (pages[0]["live"], pages[0]["compared"]) == ("first", NAMED.name)
    assert len(pages) > 2
    told = {
        name: sum(one[name] for one in pages) - sum(one[name] for one in of_others)
        for name in ("questions", "nearest", "shared", "exact", "found")
    }
    # Two texts a bank, and a question twice where more are asked for than there are; equal vectors are all the same.
    assert told["questions"] == told["nearest"] == told["shared"] == 8
    assert told["exact"] == told["found"] > 8
    wrong = await ask(operator, "GET", "/comparison", 422, params={"cursor": "x"})
    assert wrong["error"]["details"]["problems"][0]["field"] == "cursor"
