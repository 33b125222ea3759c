"""Single memories over HTTP: found at once, replaced by their id, ended, and another's are left alone."""

from typing import Any

from tests.producers.conftest import Tenant, World

PATH = "/api/v1/memories"


async def recalled(tenant: Tenant, query: str) -> list[str]:
    answer = await tenant.http.post("/api/v1/recall", json={"query": query})
    return [one["text"] for one in answer.json()["results"]]


async def keep(tenant: Tenant, status: int, content: str, **more: Any) -> dict[str, Any]:
    answer = await tenant.http.post(PATH, json={"content": content, **more})
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_a_memory_is_recalled_at_once_says_only_its_last_text_and_ends(ana: Tenant) -> None:
    first = await keep(ana, 201, "The boiler is serviced in May", id="boiler", metadata={"room": "cellar"})
    assert await recalled(ana, "When is the boiler serviced?") == ["The boiler is serviced in May"]
    second = await keep(ana, 200, "The boiler is serviced in June", id="boiler")
    assert (second["unit_id"], second["created"], second["changed"]) == (first["unit_id"], False, True)
    assert await recalled(ana, "boiler serviced May") == ["The boiler is serviced in June"]
    shown = (await ana.http.get(f"{PATH}/boiler")).json()
    assert (shown["text"], shown["turn_id"], shown["origin"], shown["metadata"]) == (
        "The boiler is serviced in June",
        "boiler",
        "memory",
        {},
    )
    assert (await ana.http.delete(f"{PATH}/boiler")).status_code == 204
    assert await recalled(ana, "boiler") == []
    assert (await ana.http.delete(f"{PATH}/boiler")).status_code == 404
    assert (await ana.http.get(f"/api/v1/units/{first['unit_id']}")).status_code == 404


async def test_without_an_id_the_same_text_is_the_same_memory(ana: Tenant) -> None:
    first = await keep(ana, 201, "Trains leave at seven")
    assert await keep(ana, 200, "Trains leave at seven") == {**first, "created": False, "changed": False}
    assert (await ana.http.get(f"{PATH}/{first['id']}")).json()["unit_id"] == first["unit_id"]


async def test_a_key_replaces_and_ends_in_shared_banks_what_it_wrote_and_nothing_else(
    world: World, ana: Tenant
) -> None:
    ida, bob = await world.tenant(ana.host, user="ida"), await world.tenant(ana.host, user="bob")
    await ana.http.post("/api/v1/banks", json={"bank": "team"})
    await keep(ida, 201, "The code is on the board", id="code", bank="team")
    await keep(ida, 200, "The code is on the door", id="code", bank="team")
    await keep(bob, 403, "The code is mine", id="code", bank="team")
    await keep(ida, 403, "Pinned for all", bank="team", pinned=True)
    assert (await bob.http.delete(f"{PATH}/code", params={"bank": "team"})).status_code == 403
    assert (await bob.http.get(f"{PATH}/code", params={"bank": "team"})).json()["text"] == "The code is on the door"
    assert (await ida.http.delete(f"{PATH}/code", params={"bank": "team"})).status_code == 204
    await keep(bob, 201, "The code is 1", id="code", bank="team")


async def test_what_is_no_memory_is_refused(ana: Tenant) -> None:
    for broken in ({"content": " "}, {"content": "x", "id": "a/b"}, {"content": "x", "kind": "y"}, {"id": "x"}):
        assert (await ana.http.post(PATH, json=broken)).status_code == 422
    await keep(ana, 413, "x" * 300_000)
