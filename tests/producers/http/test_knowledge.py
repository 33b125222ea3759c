"""Documents, directives, links and reflections over HTTP: what no turn says, and no table stays empty without."""

import hashlib
from typing import Any
from uuid import uuid4

import pytest

from store.identity import host_id
from store.ledger.stages import OWN
from tests.producers.conftest import Tenant, World

TEXT = "The boiler is serviced in May.\n\nIts key hangs behind the green door.\n\n" + "Nothing to tell. " * 80


async def add(tenant: Tenant, **body: Any) -> Any:
    return await tenant.http.post("/api/v1/docs", json=body)


async def test_a_document_becomes_units_that_are_found_at_once(world: World, ana: Tenant) -> None:
    added = await add(ana, content=TEXT, title="house.md", metadata={"room": "cellar"})
    assert added.status_code == 201
    told = added.json()
    assert (told["ok"], told["duplicate"]) == (True, False)
    assert told["units"] > 1
    found = (await ana.http.post("/api/v1/recall", json={"query": "Where is the key of the boiler?"})).json()
    best = found["results"][0]
    assert "behind the green door" in best["text"]
    assert (best["kind"], found["freshness"]["position"]) == ("world", told["position"])
    unit = (await ana.http.get(f"/api/v1/units/{best['unit_id']}")).json()
    assert (unit["origin"], unit["metadata"]) == ("document", {"room": "cellar"})
    rows = await world.sql(
        "select stage, status from afterturn.ledger_t where turn_id = :doc order by 1", doc=told["doc_id"]
    )
    assert [tuple(row) for row in rows] == [(stage, "pending") for stage in sorted(OWN)]


@pytest.mark.parametrize("named_by", [{"content": TEXT}, {"content_hash": "0f" * 32}])
async def test_title_metadata_and_time_of_a_document_are_kept(ana: Tenant, named_by: dict[str, str]) -> None:
    told = {"title": "house.md", "metadata": {"room": "cellar"}, "occurred_at": "2024-05-03T12:00:00+02:00"}
    doc = (await add(ana, **named_by, **told)).json()["doc_id"]
    shown = (await ana.http.get(f"/api/v1/docs/{doc}")).json()
    assert (shown["title"], shown["metadata"]) == ("house.md", {"room": "cellar"})
    assert shown["occurred_at"] == "2024-05-03T10:00:00+00:00"
    assert (await ana.http.get("/api/v1/docs")).json() == {"docs": [shown], "cursor": None, "has_more": False}


async def test_documents_are_listed_page_by_page_the_newest_first(ana: Tenant) -> None:
    ids = [(await add(ana, bank="papers", content=f"paper {n}", title=f"{n}.md")).json()["doc_id"] for n in range(5)]
    await ana.http.delete(f"/api/v1/docs/{ids.pop()}?bank=papers")
    found, cursor, pages = list[str](), "", 0
    while pages == 0 or cursor:
        query = {"bank": "papers", "limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = (await ana.http.get("/api/v1/docs", params=query)).json()
        found += [one["doc_id"] for one in page["docs"]]
        assert page["has_more"] is (page["cursor"] is not None)
        cursor, pages = page["cursor"], pages + 1
        if pages == 1:
            ids.append((await add(ana, bank="papers", content="added between two pages")).json()["doc_id"])
    assert (found, pages) == (ids[3::-1], 2)
    assert (await ana.http.get("/api/v1/docs", params={"bank": "other"})).json()["docs"] == []


@pytest.mark.parametrize("cursor", ["", "x", "1.x", "-9.0", f"{10**30}.{'0' * 32}", f"1.{'0' * 31}", "\u0661.0"])
async def test_what_is_no_cursor_is_refused(ana: Tenant, cursor: str) -> None:
    reply = await ana.http.get("/api/v1/docs", params={"cursor": cursor})
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "INVALID_ARGUMENT")


async def test_the_same_content_again_is_the_same_document(world: World, ana: Tenant) -> None:
    first = (await add(ana, content=TEXT)).json()
    again = await add(ana, content=TEXT, title="another name")
    assert again.status_code == 200
    assert again.json() == first | {"duplicate": True}
    rows = await world.sql(
        "select content_hash, original_text from afterturn.agent_memory_doc_t where doc_id = :doc", doc=first["doc_id"]
    )
    assert [tuple(row) for row in rows] == [(hashlib.sha256(TEXT.encode()).hexdigest(), TEXT)]


async def test_a_forgotten_document_takes_its_units_along_and_may_come_back(ana: Tenant) -> None:
    first = (await add(ana, content=TEXT)).json()
    path = f"/api/v1/docs/{first['doc_id']}"
    assert (await ana.http.get(path)).json()["units"] == first["units"]
    assert (await ana.http.delete(path)).status_code == 204
    assert (await ana.http.get(path)).status_code == 404
    assert (await ana.http.delete(path)).status_code == 404
    assert (await ana.http.post("/api/v1/recall", json={"query": "green door"})).json()["results"] == []
    again = await add(ana, content=TEXT)
    assert (again.status_code, again.json()["doc_id"] != first["doc_id"]) == (201, True)
    assert (await add(ana, content=TEXT)).json()["doc_id"] == again.json()["doc_id"]


async def test_turns_name_the_file_they_were_read_from(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    digest = hashlib.sha256(b"a file").hexdigest()
    registered = await add(ana, content_hash=digest, title="chat.json")
    assert registered.status_code == 201
    assert (await add(ana, content_hash=digest)).json() == registered.json() | {"duplicate": True}
    doc = registered.json()["doc_id"]
    assert (await ana.http.post("/api/v1/turns", json={**turn, "doc_id": doc})).status_code == 201
    assert (await ana.http.post("/api/v1/turns", json=turn)).json()["duplicate"] is True
    shown = (await ana.http.get(f"/api/v1/docs/{doc}")).json()
    assert (shown["doc_id"], shown["content_hash"], shown["title"], shown["units"]) == (doc, digest, "chat.json", 2)
    rows = await world.sql("select count(*) as n from afterturn.agent_memory_unit_t where doc_id = :doc", doc=doc)
    assert rows[0].n == 2


async def test_a_turn_of_a_document_that_is_not_there_is_refused_alone(ana: Tenant, turn: dict[str, Any]) -> None:
    batch = {"turns": [{**turn, "doc_id": str(uuid4())}, {**turn, "turn_id": "2"}]}
    results = (await ana.http.post("/api/v1/turns:batch", json=batch)).json()["results"]
    assert [one["ok"] for one in results] == [False, True]
    assert results[0]["error"]["code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": "  "},
        {"content": "x", "content_hash": "0" * 64},
        {"content_hash": "nothing"},
        {"content": "x", "unknown": 1},
        {"content": "x", "bank": ""},
    ],
)
async def test_what_is_no_document_is_refused(ana: Tenant, body: dict[str, Any]) -> None:
    answer = await add(ana, **body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID_ARGUMENT")


async def test_a_documents_metadata_have_the_limit_of_a_turns(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    large = {f"k{n}": "x" * 1024 for n in range(768)}
    answer = await add(ana, content=TEXT, metadata=large)
    refused = await ana.http.post("/api/v1/turns", json={**turn, "metadata": large})
    assert answer.status_code == refused.status_code == 413
    assert answer.json()["error"]["details"] == refused.json()["error"]["details"]
    assert answer.json()["error"]["details"]["limit_bytes"] == 16_384
    written = await world.sql("select 1 from afterturn.event_store_t where host_id = :host", host=host_id(ana.host))
    assert written == []


async def test_what_a_document_is_written_as_does_not_grow_with_its_units(world: World, ana: Tenant) -> None:
    text = "\n\n".join(f"Room {n} has a lamp. {'Nothing else. ' * 50}" for n in range(300))
    assert (await add(ana, content=text, metadata={"k": "x" * 16_000})).json()["units"] >= 300
    [row] = await world.sql(
        "select sum(octet_length(data::text)) as n from afterturn.event_store_t where host_id = :host",
        host=host_id(ana.host),
    )
    # The text twice, whole and in its units, the metadata once, and half a kilobyte around each event.
    assert row.n < 2 * len(text) + 16_384 + 301 * 600


async def test_units_are_found_by_the_metadata_of_their_document(ana: Tenant) -> None:
    await add(ana, content="The boiler is blue.", metadata={"room": "cellar", "tags": "heat"})
    await add(ana, content="The boiler is red.", metadata={"room": "attic"})

    async def texts(**filters: Any) -> list[str]:
        answer = await ana.http.post("/api/v1/recall", json={"query": "boiler", **filters})
        return sorted(one["text"] for one in answer.json()["results"])

    assert await texts(metadata={"room": "cellar"}) == ["The boiler is blue."]
    assert await texts(tags=["heat"]) == ["The boiler is blue."]
    assert await texts(metadata={"room": "hall"}) == []
    assert await texts() == ["The boiler is blue.", "The boiler is red."]


async def test_a_directive_is_known_by_its_name(world: World, ana: Tenant) -> None:
    tone = {"name": "tone", "content": "Be brief."}
    first = await ana.http.post("/api/v1/directives", json=tone)
    assert (first.status_code, first.json()["changed"]) == (201, True)
    assert (await ana.http.post("/api/v1/directives", json=tone)).json()["changed"] is False
    changed = await ana.http.post("/api/v1/directives", json={**tone, "content": "Be kind.", "priority": 3})
    assert changed.json()["directive_id"] == first.json()["directive_id"]
    await ana.http.post("/api/v1/directives", json={"name": "language", "content": "German", "priority": 1})
    listed = (await ana.http.get("/api/v1/directives")).json()["directives"]
    assert [(one["name"], one["content"]) for one in listed] == [("tone", "Be kind."), ("language", "German")]
    path = f"/api/v1/directives/{first.json()['directive_id']}"
    assert [(await ana.http.delete(path)).status_code for _ in range(2)] == [204, 404]
    assert (await ana.http.post("/api/v1/directives", json=tone)).json()["changed"] is True
    rows = await world.sql(
        "select event_type from afterturn.event_store_t where aggregate_key = :one order by position",
        one=first.json()["directive_id"],
    )
    assert [row.event_type.removeprefix("AgentMemoryDirective") for row in rows] == [
        "CreatedEvent",
        "UpdatedEvent",
        "DeletedEvent",
        "CreatedEvent",
    ]


async def test_units_are_linked_by_command(ana: Tenant, turn: dict[str, Any]) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    found = (await ana.http.post("/api/v1/recall", json={"query": "Lisbon hotel", "k": 10})).json()["results"]
    units = [one["unit_id"] for one in found]
    link = {"from_unit_id": units[0], "to_unit_id": units[1], "link_type": "causes", "weight": 0.5}
    answers = [await ana.http.post("/api/v1/links", json=link) for _ in range(2)]
    assert [(one.status_code, one.json()["changed"]) for one in answers] == [(201, True), (200, False)]
    assert (await ana.http.post("/api/v1/links", json={**link, "weight": 1.0})).json()["changed"] is True
    foreign = await ana.http.post("/api/v1/links", json={**link, "to_unit_id": str(uuid4())})
    assert foreign.status_code == 404
    for wrong in ({"link_type": "likes"}, {"weight": 2}, {"to_unit_id": "x"}):
        assert (await ana.http.post("/api/v1/links", json={**link, **wrong})).status_code == 422


async def test_a_key_of_another_bank_or_host_reaches_nothing_of_it(world: World, ana: Tenant) -> None:
    doc = (await add(ana, content=TEXT, bank="cellar")).json()["doc_id"]
    await ana.http.post("/api/v1/directives", json={"name": "tone", "content": "Be brief.", "bank": "cellar"})
    stranger = await world.tenant()
    assert (await stranger.http.get(f"/api/v1/docs/{doc}?bank=cellar")).status_code == 404
    assert (await stranger.http.get("/api/v1/directives?bank=cellar")).json()["directives"] == []
    scoped = await world.tenant(ana.host, banks=["attic"])
    for path in (
        f"/api/v1/docs/{doc}?bank=cellar",
        "/api/v1/directives?bank=cellar",
        "/api/v1/reflections?bank=cellar",
    ):
        assert (await scoped.http.get(path)).status_code == 403
    reader = await world.tenant(ana.host, write=False)
    assert (await add(reader, content="x")).status_code == 403
    assert (await reader.http.get("/api/v1/reflections?bank=cellar")).json()["reflections"] == []
