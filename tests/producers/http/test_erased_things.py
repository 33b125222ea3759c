"""L11: single documents, directives and memories are erased for good: from the log, and from the whole database."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from producers.service import units
from tests.producers.conftest import Tenant, World
from tests.store.erasure.dump import dump, lines_with

Json = dict[str, Any]
WORD = "Quorbelswick"
pytestmark = pytest.mark.law("L11")


async def write(tenant: Tenant, path: str, body: Json) -> Json:
    reply = await tenant.http.post(f"/api/v1/{path}", json={"bank": "b", **body})
    assert reply.status_code in (200, 201), reply.text
    told: Json = reply.json()
    return told


async def erase(tenant: Tenant, path: str) -> httpx.Response:
    return await tenant.http.delete(f"/api/v1/{path}", params={"bank": "b", "erase": "true"})


#: Of each kind: the path of its collection, the field of its id, and a body that says so many words of its own.
KINDS: dict[str, tuple[str, str, Json]] = {
    "document": (
        "docs",
        "doc_id",
        {"title": f"T{WORD}", "content": f"{WORD} lives here. " * 400, "metadata": {"m": WORD}},
    ),
    "directive": ("directives", "directive_id", {"name": f"n{WORD}", "content": f"Speak of {WORD}."}),
    "memory": ("memories", "id", {"id": f"m-{WORD}", "title": WORD, "content": f"{WORD} lives in {WORD}ville."}),
}

NAMES = {"document": "doc_id", "directive": "directive_id", "memory": "memory_id"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deleted", [False, True], ids=["living", "deleted before"])
@pytest.mark.parametrize("way", ["DELETE", "erasure"])
async def test_nothing_of_it_is_left_in_the_whole_database(world: World, kind: str, way: str, *, deleted: bool) -> None:
    tenant = await world.tenant()
    path, field, body = KINDS[kind]
    await write(tenant, "memories", {"id": "kept", "content": "The kettle is in the kitchen"})
    thing = (await write(tenant, path, body))[field]
    if kind == "memory":  # an earlier life, and an earlier text of this one, are in the log as well
        assert (await tenant.http.delete(f"/api/v1/memories/{thing}?bank=b")).status_code == 204
        await write(tenant, path, body | {"content": f"{WORD} moved."})
        await write(tenant, path, body | {"content": f"{WORD} moved again."})
    if kind == "directive":
        await write(tenant, path, body | {"content": f"Never speak of {WORD}."})
    if deleted:
        assert (await tenant.http.delete(f"/api/v1/{path}/{thing}?bank=b")).status_code == 204
    if way == "DELETE":
        reply = await erase(tenant, f"{path}/{thing}")
    else:
        reply = await tenant.http.post("/api/v1/erasures", json={"kind": kind, "bank": "b", NAMES[kind]: thing})
    assert reply.status_code == 200, reply.text
    receipt = reply.json()
    assert (receipt["kind"], receipt["status"]) == (kind, "done")
    assert receipt["counts"]["events"] >= 1
    assert lines_with(await dump(world.postgres), WORD) == []
    kept = await tenant.http.get("/api/v1/memories/kept?bank=b")
    assert kept.json()["text"] == "The kettle is in the kitchen"


async def test_what_is_unknown_or_anothers_is_not_found_and_who_may_not_delete_may_not_erase(world: World) -> None:
    keeper = await world.tenant()
    bo, stranger = await world.tenant(keeper.host, user="bo"), await world.tenant()
    for kind, (path, field, body) in KINDS.items():
        thing = (await write(keeper, path, body))[field]
        assert (await erase(bo, f"{path}/{thing}")).status_code == 403, kind
        assert (await erase(stranger, f"{path}/{thing}")).status_code == 404, kind
        unknown = "no-such" if kind == "memory" else "0b7c1f5e-52a7-5a3e-8d51-3f6a1c9b7e20"
        assert (await erase(keeper, f"{path}/{unknown}")).status_code == 404, kind
        wrong = await keeper.http.post("/api/v1/erasures", json={"kind": kind, "bank": "b", "unit_id": thing})
        assert wrong.status_code == 422, kind
    own = (await write(bo, "memories", {"id": "of bo", "content": "Bo likes tea"}))["id"]
    assert (await erase(bo, f"memories/{own}")).status_code == 200


async def test_an_erasure_is_counted_beforehand_and_nothing_changes(world: World) -> None:
    tenant = await world.tenant()
    for turn in ("1", "2"):
        said = {"session_id": "monday", "turn_id": turn, "messages": [{"role": "user", "content": f"{WORD} {turn}"}]}
        await write(tenant, "turns", said)
    target = {"kind": "session", "bank": "b", "session_id": "monday"}
    before = await tenant.http.post("/api/v1/erasures/preview", json=target)
    assert before.status_code == 200, before.text
    seen = (await tenant.http.get("/api/v1/turns", params={"bank": "b", "session_id": "monday"})).json()
    assert [one["turn_id"] for one in seen["turns"]] == ["1", "2"]
    done = (await tenant.http.post("/api/v1/erasures", json=target)).json()
    told = before.json()
    assert told["complete"] is True
    assert (told["counts"], told["target_id"]) == (done["counts"], done["target_id"])
    assert told["counts"]["messages"] == 2
    assert told["elsewhere"] == done["unreached"]["elsewhere"]
    assert (await tenant.http.post("/api/v1/erasures/preview", json=target)).json()["counts"] == {}
    await tenant.http.aclose()


async def test_a_preview_that_takes_longer_than_its_time_says_that_there_is_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "PREVIEW_FOR", timedelta())
    tenant = await world.tenant()
    for turn in range(4):
        said = [{"role": "user", "content": f"{WORD} {turn} {n}"} for n in range(200)]
        await write(tenant, "turns", {"session_id": "monday", "turn_id": str(turn), "messages": said})
    target = {"kind": "bank", "bank": "b"}
    told = (await tenant.http.post("/api/v1/erasures/preview", json=target)).json()
    assert told["complete"] is False
    done = (await tenant.http.post("/api/v1/erasures", json=target)).json()
    assert 0 < told["counts"]["messages"] < done["counts"]["messages"]
    await tenant.http.aclose()


async def test_a_preview_needs_the_rights_of_an_erasure(world: World) -> None:
    tenant = await world.tenant()
    await write(tenant, "memories", {"id": "kept", "content": "The kettle is in the kitchen"})
    reader = await world.tenant(tenant.host, write=False)
    reply = await reader.http.post("/api/v1/erasures/preview", json={"kind": "bank", "bank": "b"})
    assert reply.status_code == 403
    for one in (tenant, reader):
        await one.http.aclose()
