"""What a caller forgets is told by no read any more, by whichever interface and in whichever words."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from store.replay import verify_log
from tests.producers.conftest import Tenant, World
from tests.producers.mcp.test_tools import call, client_of
from tests.producers.test_ended_everywhere import (
    MARK,
    Ids,
    list_questions,
    list_reads,
    post,
    quiet,
    say,
    told_by,
    work_through,
)

__all__ = ["quiet"]
Forget = Callable[[World, Tenant, str], Awaitable[Any]]


async def by_mcp(world: World, tenant: Tenant, unit: str) -> None:
    async with client_of(world, tenant) as client:
        await call(client, "memory_forget", id=unit)


async def by_http(_: World, tenant: Tenant, unit: str) -> None:
    assert (await tenant.http.delete(f"/api/v1/units/{unit}")).status_code == 204


async def by_erasure(_: World, tenant: Tenant, unit: str) -> None:
    assert (await tenant.http.delete(f"/api/v1/units/{unit}?erase=true")).is_success


async def by_correction(_: World, tenant: Tenant, unit: str) -> None:
    answer = await tenant.http.patch(f"/api/v1/units/{unit}", json={"content": "It rained."})
    assert answer.status_code == 200


async def describe(tenant: Tenant) -> Ids:
    """Return the ids of the newest fact and of the reflection."""
    units = (await tenant.http.get("/api/v1/units")).json()["units"]
    [reflection, *_] = (await tenant.http.get("/api/v1/reflections")).json()["reflections"]
    fact = next(one["unit_id"] for one in units if one["kind"] == "world")
    return Ids(fact=fact, reflection=reflection["reflection_id"])


@pytest.mark.parametrize("forget", [by_mcp, by_http, by_erasure, by_correction])
async def test_what_was_forgotten_is_told_by_no_read_in_other_words(quiet: World, forget: Forget) -> None:
    tenant = await quiet.tenant()
    said = []
    for nth in range(2):
        said.append(await say(tenant, f"said{nth}", f"I like the island {MARK}."))
        await work_through(quiet)
    await say(tenant, "other", "I like the island Sylt.")
    await work_through(quiet)
    ids = await describe(tenant)
    ids.message, ids.lasting = said[1], said[0]
    reads = {**list_questions(tenant), **list_reads(quiet, tenant, ids)}
    told = await told_by(reads)
    assert {"facts", "reflections", "profile", "prepared turn", "resources", "memory_search"} <= told
    for unit in said:
        await forget(quiet, tenant, unit)
    # A corrected unit itself shows what it said before, until that is erased.
    former = {f"units/{unit}" for unit in said} if forget is by_correction else set[str]()
    assert await told_by(reads) - former == set()
    await work_through(quiet)
    assert await told_by(reads) - former == set()
    await tenant.http.aclose()


@pytest.mark.parametrize("forget", [by_mcp, by_http])
async def test_a_message_is_former_where_its_forgotten_fact_is_asked_for(quiet: World, forget: Forget) -> None:
    tenant = await quiet.tenant()
    said = await say(tenant, "1", "I live in Ghent and my cats are called Mia and Tom.")
    await say(tenant, "2", "I like the sea.")
    await work_through(quiet)

    async def ask(question: str) -> tuple[str, bool]:
        found = await post(tenant, "recall", {"query": question})
        first = found["results"][0]
        marked = "(former)" in found["reference"]["content"].partition("[1]")[2].partition("\n")[0]
        assert marked == first.get("former", False)
        return first["unit_id"], marked

    assert await ask("Where do I live?") == (said, False)
    units = (await tenant.http.get("/api/v1/units")).json()["units"]
    fact = next(one for one in units if one["kind"] == "world" and "Ghent" in one["text"])
    await forget(quiet, tenant, fact["unit_id"])
    for _ in range(2):
        assert await ask("Where do I live?") == (said, True)
        assert await ask("What are my cats called?") == (said, False)
        await work_through(quiet)
    assert "Ghent" not in (await tenant.http.get("/api/v1/profile?user_id=ann")).text
    corrected = await tenant.http.patch(f"/api/v1/units/{said}", json={"content": "I live in Bonn with my cats."})
    assert corrected.status_code == 200
    assert await ask("Where do I live?") == (said, False)
    await work_through(quiet)
    assert (await verify_log(quiet.postgres.owner_url)).equal
    await tenant.http.aclose()


async def test_what_is_forgotten_before_a_worker_reads_it_is_never_drawn(quiet: World) -> None:
    tenant = await quiet.tenant()
    unit = await say(tenant, "1", f"I like the island {MARK}.")
    await by_mcp(quiet, tenant, unit)
    found = await post(tenant, "recall", {"query": "island"})
    assert MARK not in str(found)
    await work_through(quiet)
    assert MARK not in str(await post(tenant, "recall", {"query": "island"}))
    assert MARK not in (await tenant.http.get("/api/v1/profile?user_id=ann")).text
    await tenant.http.aclose()
