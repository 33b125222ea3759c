"""Lists over HTTP: every row once, in order, whatever is written meanwhile; scoped keys see their own; cursors bind."""

from typing import Any
from uuid import uuid4

import pytest

from store import identity
from tests.producers.conftest import Tenant, World

V1 = "/api/v1"


async def say(tenant: Tenant, session: str, turn: str, *words: str, **more: Any) -> int:
    messages = [{"role": "user" if n % 2 == 0 else "assistant", "content": word} for n, word in enumerate(words)]
    body = {"session_id": session, "turn_id": turn, "messages": messages, **more}
    reply = await tenant.http.post(f"{V1}/turns", json=body)
    assert reply.status_code == 201, reply.text
    return int(reply.json()["position"])


async def get(tenant: Tenant, path: str, status: int = 200, **query: Any) -> dict[str, Any]:
    reply = await tenant.http.get(f"{V1}/{path}", params=query)
    assert reply.status_code == status, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def pages(tenant: Tenant, name: str, **query: Any) -> list[dict[str, Any]]:
    """Read a list to its end, two rows a page."""
    rows: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await get(tenant, name, limit=2, **query, **cursor)
        assert len(page[name]) <= 2
        assert page["has_more"] == (page["cursor"] is not None)
        rows += page[name]
        if not page["has_more"]:
            return rows
        cursor = {"cursor": page["cursor"]}


async def test_every_list_is_read_to_its_end_in_order_and_shows_each_row_once(world: World) -> None:
    tenant = await world.tenant()
    for n in range(5):
        await say(tenant, f"s{n}", "1", f"heron number {n}", user_id=f"user{n}")
        await say(tenant, "long", str(n), f"first of {n}", f"second of {n}")
        directive = {"name": f"rule {n}", "content": "Answer briefly.", "priority": n % 2}
        assert (await tenant.http.post(f"{V1}/directives", json=directive)).status_code == 201
        assert (await tenant.http.post(f"{V1}/docs", json={"content": f"Paper {n}."})).status_code == 201
        assert (await tenant.http.post(f"{V1}/banks", json={"bank": f"bank {n}"})).status_code == 201
    assert [one["session_id"] for one in await pages(tenant, "sessions")] == ["long", "s4", "s3", "s2", "s1", "s0"]
    turns = await pages(tenant, "turns", session_id="long")
    assert [(one["turn_id"], one["messages"]) for one in turns] == [(str(n), 2) for n in range(5)]
    units = [one["unit_id"] for one in await pages(tenant, "units")]
    assert (units, len(units)) == (sorted(set(units)), 5 + 10 + 5)
    users = [one["user"] for one in await pages(tenant, "users")]
    host = identity.host_id(tenant.host)
    assert users == sorted(str(identity.user_id(host, f"user{n}")) for n in range(5))
    names = [one["name"] for one in await pages(tenant, "directives")]
    assert names == ["rule 1", "rule 3", "rule 0", "rule 2", "rule 4"]
    assert len({one["doc_id"] for one in await pages(tenant, "docs")}) == 5
    assert [one["bank"] for one in await pages(tenant, "banks")] == [*(f"bank {n}" for n in range(5)), "default"]
    assert await pages(tenant, "reflections") == []


async def test_units_are_chosen_by_their_origin_document_and_user(world: World) -> None:
    tenant = await world.tenant()
    await say(tenant, "s", "1", "I live in Ghent.", "I love canals.", "I work at Riverside Hospital.", user_id="ana")
    memory = {"content": "The boiler is old", "id": str(uuid4())}
    assert (await tenant.http.post(f"{V1}/memories", json=memory)).status_code == 201
    docs = [(await tenant.http.post(f"{V1}/docs", json={"content": f"Paper {n}."})).json()["doc_id"] for n in range(3)]
    everything = await pages(tenant, "units")
    for origin in ("message", "extraction", "document", "memory"):
        chosen = await pages(tenant, "units", origin=origin)
        assert chosen == [one for one in everything if one["origin"] == origin]
        assert chosen, origin
    [chunk] = await pages(tenant, "units", doc_id=docs[1])
    assert chunk["text"] == "Paper 1."
    assert await pages(tenant, "units", doc_id=docs[1], origin="memory") == []
    cursor = (await get(tenant, "units", limit=1, origin="message"))["cursor"]
    await get(tenant, "units", 422, cursor=cursor)
    await get(tenant, "units", 422, cursor=cursor, origin="extraction")
    await get(tenant, "units", 422, origin="reflection")
    await say(tenant, "s", "2", "I live in Porto.", user_id="ben")
    of_ben = await pages(tenant, "units", user_id="ben")
    assert {(one["turn_id"], one["origin"]) for one in of_ben} == {("2", "message"), ("2", "extraction")}
    assert {one["turn_id"] for one in await pages(tenant, "units", user_id="ana")} == {"1"}
    assert await pages(tenant, "units", user_id="nobody") == []
    cursor = (await get(tenant, "units", limit=1, user_id="ben"))["cursor"]
    await get(tenant, "units", 422, cursor=cursor, user_id="ana")
    await get(tenant, "units", 422, user_id="")


async def test_what_is_written_meanwhile_shifts_no_page(world: World) -> None:
    tenant = await world.tenant()
    for n in range(4):
        await say(tenant, f"s{n}", "1", f"heron number {n}")
    first = await get(tenant, "sessions", limit=2)
    await say(tenant, "late", "1", "a heron that came late")
    second = await get(tenant, "sessions", limit=2, cursor=first["cursor"])
    assert [one["session_id"] for one in (*first["sessions"], *second["sessions"])] == ["s3", "s2", "s1", "s0"]


async def test_a_turn_is_shown_with_its_messages_and_what_was_forgotten_is_in_no_list(world: World) -> None:
    tenant = await world.tenant()
    await say(tenant, "s", "1", "the heron kept the blue ledger", "so it did", user_id="ana")
    shown = await get(tenant, "turns/s/1")
    assert [one["content"] for one in shown["messages"]] == ["the heron kept the blue ledger", "so it did"]
    for one in shown["messages"]:
        await tenant.http.delete(f"{V1}/units/{one['unit_id']}")
    assert (await get(tenant, "turns/s/1"))["messages"] == []
    assert (await get(tenant, "turns", session_id="s"))["turns"] == []
    assert (await get(tenant, "units"))["units"] == (await get(tenant, "users"))["users"] == []


@pytest.mark.law("L6")
async def test_a_scoped_key_lists_its_own_alone(world: World) -> None:
    everybody = await world.tenant()
    ana = await world.tenant(everybody.host, user="ana")
    bob = await world.tenant(everybody.host, user="bob")
    narrow = await world.tenant(everybody.host, banks=["open"])
    await say(ana, "s", "1", "the heron kept the blue ledger", bank="notes")
    await say(everybody, "s", "1", "nothing to see", bank="open", user_id="carl")
    host = identity.host_id(everybody.host)
    ids = {name: str(identity.user_id(host, name)) for name in ("ana", "bob", "carl")}
    for key, seen in ((ana, ["ana"]), (bob, ["bob"]), (narrow, ["carl"]), (everybody, ["ana", "carl"])):
        users = [one["user"] for one in (await get(key, "users"))["users"]]
        assert users == sorted(ids[name] for name in seen)
    names = {one["user"]: one["name"] for one in (await get(everybody, "users"))["users"]}
    assert names == {ids["ana"]: "ana", ids["carl"]: "carl"}
    for bank in ("notes", "~ana/notes"):
        for name in ("sessions", "units", "turns"):
            place: dict[str, Any] = {"bank": bank, **({"session_id": "s"} if name == "turns" else {})}
            assert (await get(bob, name, **place))[name] == []
            assert len((await get(ana, name, **place))[name]) == 1


@pytest.mark.law("L6")
async def test_a_cursor_opens_only_the_list_that_gave_it(world: World) -> None:
    tenant, other = await world.tenant(), await world.tenant()
    for key in (tenant, other):
        for n in range(2):
            await say(key, f"s{n}", "1", "a heron")
            await say(key, f"s{n}", "1", "a heron", bank="second")
    cursor = (await get(tenant, "sessions", limit=1))["cursor"]
    assert "s1" not in cursor
    assert len((await get(tenant, "sessions", cursor=cursor))["sessions"]) == 1
    await get(other, "sessions", 422, cursor=cursor)
    await get(tenant, "sessions", 422, cursor=cursor, bank="second")
    await get(tenant, "units", 422, cursor=cursor)
    for broken in ("x", "é", cursor[:-4], "WyIiLCIxIl0="):
        answer = await get(tenant, "sessions", 422, cursor=broken)
        assert answer["error"]["code"] == "INVALID_ARGUMENT"
