"""L6 within a host: banks of the host, of an agent, of a user; and the keys that reach them."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import text

from store import identity
from store.tenancy.banks import Banks
from store.tenancy.spaces import Space
from tests.producers.conftest import Tenant, World

pytestmark = pytest.mark.law("L6")


def said(turn: dict[str, Any], words: str, **more: Any) -> dict[str, Any]:
    return {**turn, "messages": [{"role": "user", "content": words}], **more}


async def found(tenant: Tenant, query: str, **more: Any) -> list[str]:
    reply = await tenant.http.post("/api/v1/recall", json={"query": query, **more})
    assert reply.status_code == 200, reply.text
    return [result["text"] for result in reply.json()["results"]]


def told(reply: httpx.Response) -> tuple[int, Any]:
    body = reply.json() if reply.content else None
    if isinstance(body, dict):
        for name in ("request_id", "took_ms", "position"):
            body.pop(name, None)
    return reply.status_code, body


async def test_two_users_call_a_bank_alike_and_neither_sees_the_others(world: World, turn: dict[str, Any]) -> None:
    ana = await world.tenant(user="ana")
    bob = await world.tenant(ana.host, user="bob")
    for tenant, words in ((ana, "the violin is in the attic"), (bob, "the cello is in the cellar")):
        reply = await tenant.http.post("/api/v1/turns", json=said(turn, words, bank="notes"))
        assert (reply.status_code, reply.json()["duplicate"]) == (201, False)
    assert await found(ana, "violin cello", bank="notes") == ["the violin is in the attic"]
    assert await found(bob, "violin cello", bank="notes") == ["the cello is in the cellar"]
    rows = await world.sql(
        "select bank_name, user_id from afterturn.agent_memory_bank_t where host_id = :host order by 1",
        host=identity.host_id(ana.host),
    )
    assert [tuple(row) for row in rows] == [
        (f"~{name}/notes", identity.user_id(identity.host_id(ana.host), name)) for name in ("ana", "bob")
    ]


async def test_a_batch_looks_each_bank_up_once(
    world: World, turn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, looked_up, resolve = await world.tenant(user="ana"), list[str](), Banks.resolve

    async def noted(self: Banks, host: UUID, space: Space, bank: str) -> str:
        looked_up.append(bank)
        return await resolve(self, host, space, bank)

    monkeypatch.setattr(Banks, "resolve", noted)
    batch = [{**turn, "turn_id": str(n), "bank": bank} for n, bank in enumerate(("notes", "trips", "notes", "trips"))]
    results = (await ana.http.post("/api/v1/turns:batch", json={"turns": batch})).json()["results"]
    assert [one["ok"] for one in results] == [True] * 4
    assert looked_up == ["notes", "trips"]


async def test_a_user_without_banks_is_told_nothing_of_the_bank_a_question_across_banks_names(
    world: World, turn: dict[str, Any]
) -> None:
    ana = await world.tenant(user="ana")
    bob = await world.tenant(ana.host, user="bob")
    await ana.http.post("/api/v1/turns", json=said(turn, "the violin is in the attic", bank="notes"))
    replies = [
        await bob.http.post("/api/v1/recall", json={"query": "violin", "across_banks": True, "bank": bank})
        for bank in ("~ana/notes", "~ana/nothing")
    ]
    freshness = [reply.json()["freshness"] for reply in replies]
    assert freshness[0] == freshness[1]
    assert freshness[0]["position"] == freshness[0]["pending"] == 0


async def test_a_bank_of_another_user_looks_like_one_that_is_not_there(world: World, turn: dict[str, Any]) -> None:
    everybody = await world.tenant()
    bob = await world.tenant(everybody.host, user="bob")
    host = identity.host_id(everybody.host)
    taken = await everybody.http.post("/api/v1/turns", json=said(turn, "the violin is in the attic", bank="secret"))
    assert taken.status_code == 201
    # As an import would: a name that does not tell whose it is.
    await world.sql(
        "update afterturn.agent_memory_bank_t set user_id = :user where host_id = :host and bank_name = 'secret'",
        user=identity.user_id(host, "ana"),
        host=host,
    )
    unit = (await everybody.http.post("/api/v1/recall", json={"query": "violin", "bank": "secret"})).json()
    unit_id = unit["results"][0]["unit_id"]
    job = (await everybody.http.post("/api/v1/recall/jobs", json={"query": "violin", "bank": "secret"})).json()[
        "job_id"
    ]
    for bank, others in (("secret", "nothing"), ("~ana/secret", "~ana/nothing")):
        assert await found(bob, "violin", bank=bank) == []
        for path in (f"/api/v1/units/{unit_id}?bank=", "/api/v1/turns/monday/1?bank="):
            assert told(await bob.http.get(path + bank)) == told(await bob.http.get(path + others))
            assert (await bob.http.get(path + bank)).status_code == 404
        assert (await bob.http.delete(f"/api/v1/units/{unit_id}?bank={bank}")).status_code == 404
        paths = [f"/api/v1/banks/{name}/freshness" for name in (bank, others)]
        assert told(await bob.http.get(paths[0])) == told(await bob.http.get(paths[1]))
    assert (await bob.http.get(f"/api/v1/recall/jobs/{job}")).status_code == 404
    assert (await bob.http.delete(f"/api/v1/recall/jobs/{job}")).status_code == 404
    # Writing succeeds under either name, in a bank of their own: even that tells nothing.
    for bank in ("secret", "nothing"):
        reply = await bob.http.post("/api/v1/turns", json=said(turn, "the cello is in the cellar", bank=bank))
        assert reply.status_code == 201
        assert await found(bob, "violin cello", bank=bank) == ["the cello is in the cellar"]
    assert await found(everybody, "violin cello", bank="secret") == ["the violin is in the attic"]


async def test_a_key_of_a_user_writes_as_that_user_alone(world: World, turn: dict[str, Any]) -> None:
    ana = await world.tenant(user="ana")
    refused = await ana.http.post("/api/v1/turns", json={**turn, "user_id": "bob"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    batch = [{**turn, "user_id": "ana"}, {**turn, "turn_id": "2"}, {**turn, "turn_id": "3", "user_id": "bob"}]
    results = (await ana.http.post("/api/v1/turns:batch", json={"turns": batch})).json()["results"]
    assert [one["ok"] for one in results] == [True, True, False]
    users = await world.sql(
        "select distinct user_id from afterturn.agent_memory_unit_t where host_id = :host",
        host=identity.host_id(ana.host),
    )
    assert [row[0] for row in users] == [identity.user_id(identity.host_id(ana.host), "ana")]
    assert (await ana.http.post("/api/v1/banks", json={"bank": "b", "user_id": "bob"})).status_code == 403


async def test_a_bank_of_the_host_is_shared_with_every_user(world: World, turn: dict[str, Any]) -> None:
    everybody = await world.tenant()
    made = await everybody.http.post("/api/v1/banks", json={"bank": "team"})
    team = {"bank": "team", "scope": "host", "user": None, "agent": None, "language": "auto", "settled": True}
    assert (made.status_code, made.json()) == (201, {"ok": True, **team, "expires_at": None, "created": True})
    assert (await everybody.http.post("/api/v1/banks", json={"bank": "team"})).status_code == 200
    ana, bob = await world.tenant(everybody.host, user="ana"), await world.tenant(everybody.host, user="bob")
    await ana.http.post("/api/v1/turns", json=said(turn, "lunch is at noon", bank="team"))
    assert await found(bob, "lunch", bank="team") == ["lunch is at noon"]


async def test_a_key_without_a_user_reaches_the_banks_of_all_by_their_whole_names(
    world: World, turn: dict[str, Any]
) -> None:
    everybody = await world.tenant()
    made = await everybody.http.post("/api/v1/banks", json={"bank": "notes", "user_id": "ana"})
    assert (made.json()["bank"], made.json()["scope"]) == ("~ana/notes", "user")
    ana, bob = await world.tenant(everybody.host, user="ana"), await world.tenant(everybody.host, user="bob")
    await ana.http.post("/api/v1/turns", json=said(turn, "lunch is at noon", bank="notes"))
    assert await found(everybody, "lunch", bank="~ana/notes") == ["lunch is at noon"]
    assert await found(bob, "lunch", bank="~ana/notes") == []
    listed = [(await t.http.get("/api/v1/banks")).json()["banks"] for t in (everybody, ana, bob)]
    assert [[bank["bank"] for bank in banks] for banks in listed] == [["~ana/notes"], ["~ana/notes"], []]


async def test_a_bank_of_an_agent_is_shared_by_its_users_and_by_no_other_agent(
    world: World, turn: dict[str, Any]
) -> None:
    planner = await world.tenant(agent="planner")
    cook = await world.tenant(planner.host, agent="cook")
    ana = await world.tenant(planner.host, agent="planner", user="ana")
    await planner.http.post("/api/v1/turns", json=said(turn, "lunch is at noon", bank="plans"))
    assert await found(planner, "lunch", bank="plans") == ["lunch is at noon"]
    assert await found(cook, "lunch", bank="plans") == []
    assert await found(cook, "lunch", bank="@planner/plans") == []
    assert await found(ana, "lunch", bank="@planner/plans") == ["lunch is at noon"]
    await ana.http.post("/api/v1/turns", json=said(turn, "dinner is at eight", bank="plans"))
    assert await found(ana, "dinner", bank="plans") == ["dinner is at eight"]
    assert await found(planner, "lunch", bank="@planner/plans") == ["lunch is at noon"]
    [bank] = (await cook.http.get("/api/v1/banks")).json()["banks"] or [None]
    assert bank is None


async def test_a_key_of_a_user_and_of_banks_is_held_to_both(world: World, turn: dict[str, Any]) -> None:
    ana = await world.tenant(user="ana", banks=["notes"])
    assert (await ana.http.post("/api/v1/turns", json={**turn, "bank": "notes"})).status_code == 201
    for bank in ("other", "~ana/other", "~bob/notes"):
        assert (await ana.http.post("/api/v1/turns", json={**turn, "bank": bank})).status_code == 403
        assert (await ana.http.post("/api/v1/recall", json={"query": "x", "bank": bank})).status_code == 403
        assert (await ana.http.post("/api/v1/banks", json={"bank": bank})).status_code == 403
    assert (await ana.http.get("/api/v1/turns/monday/1?bank=~ana/notes")).status_code == 200
    assert [b["bank"] for b in (await ana.http.get("/api/v1/banks")).json()["banks"]] == ["~ana/notes"]


async def test_a_recall_job_belongs_to_the_user_who_asked(world: World, turn: dict[str, Any]) -> None:
    ana = await world.tenant(user="ana")
    bob = await world.tenant(ana.host, user="bob")
    await ana.http.post("/api/v1/turns", json=turn)
    job = (await ana.http.post("/api/v1/recall/jobs", json={"query": "Lisbon"})).json()["job_id"]
    assert (await ana.http.get(f"/api/v1/recall/jobs/{job}")).status_code == 200
    assert told(await bob.http.get(f"/api/v1/recall/jobs/{job}")) == told(
        await bob.http.get(f"/api/v1/recall/jobs/{uuid4()}")
    )


async def test_what_comes_through_the_gateways_door_is_its_users_own(world: World) -> None:
    door = await world.tenant(gateway_user="ana")
    added = await door.http.post(
        "/memories/add",
        json={
            "user_id": "ana",
            "user_key": door.token,
            "session_id": "chat:1",
            "messages": [
                {
                    "sender_id": "ana",
                    "role": "user",
                    "timestamp": 1772366400000,
                    "content": "the violin is in the attic",
                }
            ],
        },
    )
    assert added.status_code == 200, added.text
    ana, bob = await world.tenant(door.host, user="ana"), await world.tenant(door.host, user="bob")
    bank = "gateway:default:default:ana"
    assert await found(ana, "violin", bank=bank) == ["the violin is in the attic"]
    assert await found(bob, "violin", bank=bank) == []


@pytest.mark.parametrize("user", ["ana/bob", "a@b", "~x", "100%", "Jörg", "u" * 128])
async def test_any_name_of_a_user_makes_a_space_of_its_own(world: World, turn: dict[str, Any], user: str) -> None:
    tenant = await world.tenant(user=user)
    assert (await tenant.http.post("/api/v1/turns", json=turn)).status_code == 201
    [bank] = (await tenant.http.get("/api/v1/banks")).json()["banks"]
    assert bank["user"] == str(identity.user_id(identity.host_id(tenant.host), user))


async def test_a_name_too_long_for_its_owners_space_is_refused(world: World, turn: dict[str, Any]) -> None:
    tenant = await world.tenant(user="u" * 128)
    reply = await tenant.http.post("/api/v1/turns", json={**turn, "bank": "b" * 200})
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "INVALID_ARGUMENT")


async def test_the_database_itself_hides_the_banks_of_others(world: World, turn: dict[str, Any]) -> None:
    ana = await world.tenant(user="ana")
    await ana.http.post("/api/v1/turns", json=turn)
    host = identity.host_id(ana.host)

    async def banks(user: UUID | None) -> int:
        async with world.database.scoped(host, user, None) as connection:
            counted = await connection.execute(text("select count(*) from afterturn.agent_memory_bank_t"))
            return int(counted.scalar_one())

    assert await banks(identity.user_id(host, "ana")) == 1
    assert await banks(identity.user_id(host, "bob")) == 0
    assert await banks(None) == 1


async def test_a_banks_language_is_changed_by_who_may_write_to_it(world: World) -> None:
    everybody = await world.tenant()
    ana, bob = await world.tenant(everybody.host, user="ana"), await world.tenant(everybody.host, user="bob")
    reader = await world.tenant(everybody.host, write=False)
    assert (await ana.http.post("/api/v1/banks", json={"bank": "notes"})).json()["language"] == "auto"
    path = "/api/v1/banks/notes"
    assert (await bob.http.patch(path, json={"language": "de"})).status_code == 404
    assert (await reader.http.patch(path, json={"language": "de"})).status_code == 403
    for body in ({}, {"language": "tlh"}, {"language": None}, {"language": "de", "name": "x"}):
        assert (await ana.http.patch(path, json=body)).status_code == 422
    changed = await ana.http.patch(path, json={"language": "de"})
    assert told(changed)[1] | {"user": None} == {
        "ok": True,
        "bank": "~ana/notes",
        "scope": "user",
        "user": None,
        "agent": None,
        "language": "de",
        "settled": False,
        "expires_at": None,
    }
    assert told(await ana.http.patch(path, json={"language": "de"})) == told(changed)
    busy = await ana.http.patch(path, json={"language": "fr"})
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "RESOURCE_BUSY")
    [bank] = (await ana.http.get("/api/v1/banks")).json()["banks"]
    assert (bank["language"], bank["settled"]) == ("de", False)


async def listed(tenant: Tenant) -> list[str]:
    return [one["bank"] for one in (await tenant.http.get("/api/v1/banks")).json()["banks"]]


async def test_an_agent_without_a_user_reaches_its_own_and_shared_banks_and_no_users(
    world: World, turn: dict[str, Any]
) -> None:
    everybody = await world.tenant()
    planner, ana = await world.tenant(everybody.host, agent="planner"), await world.tenant(everybody.host, user="ana")
    both = await world.tenant(everybody.host, user="ana", agent="planner")
    for bank in ("team", "@planner/plans", "~ana/notes", "~ana@planner/steps", "@cook/menus"):
        kept = await everybody.http.post("/api/v1/turns", json=said(turn, f"the violin of {bank}", bank=bank))
        assert kept.status_code == 201
    assert await listed(planner) == ["@planner/plans", "team"]
    assert await listed(ana) == ["team", "~ana/notes", "~ana@planner/steps"]
    assert await listed(both) == ["@planner/plans", "team", "~ana/notes", "~ana@planner/steps"]
    for tenant, foreign in ((planner, ("~ana/notes", "~ana@planner/steps")), (ana, ("@planner/plans", "@cook/menus"))):
        for bank in foreign:
            assert await found(tenant, "violin", bank=bank) == []
            late = said(turn, "the cello", bank=bank, turn_id=f"late {tenant.token}")
            assert (await tenant.http.post("/api/v1/turns", json=late)).status_code == 201
            assert await found(everybody, "cello", bank=bank) == []
    made = await planner.http.post("/api/v1/banks", json={"bank": "diary", "user_id": "ana"})
    assert made.status_code == 403


async def test_a_key_that_names_a_bank_of_others_reaches_it_and_no_other(world: World, turn: dict[str, Any]) -> None:
    everybody = await world.tenant()
    for bank in ("team", "~ana/notes", "~bob/notes"):
        await everybody.http.post("/api/v1/turns", json=said(turn, f"the violin of {bank}", bank=bank))
    planner = await world.tenant(everybody.host, agent="planner", banks=["team", "~ana/notes", "~eve/new"])
    assert await listed(planner) == ["team", "~ana/notes"]
    assert await found(planner, "violin", bank="~ana/notes") == ["the violin of ~ana/notes"]
    kept = await planner.http.post("/api/v1/turns", json=said(turn, "the cello", bank="~eve/new"))
    assert kept.status_code == 201
    assert await found(everybody, "cello", bank="~eve/new") == ["the cello"]
    for bank in ("~bob/notes", "notes"):
        assert (await planner.http.post("/api/v1/recall", json={"query": "violin", "bank": bank})).status_code == 403
    changed = await planner.http.patch("/api/v1/banks/~ana%2Fnotes", json={"language": "de"})
    assert changed.status_code == 403, "what others own it reads and adds to"
