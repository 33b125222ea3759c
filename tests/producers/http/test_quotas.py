"""A quota on the wire: 429 with Retry-After at every interface that writes, and nothing of what was said."""

from datetime import UTC, datetime
from typing import Any

from store.identity import host_id
from store.tenancy.quotas import QuotaLimits, Quotas
from tests.producers.conftest import Tenant, World


async def limit(world: World, tenant: Tenant, **limits: int) -> None:
    await Quotas(world.database, lambda: datetime.now(UTC)).set(tenant.host, None, QuotaLimits(**limits))


async def test_a_full_host_is_told_which_limit_it_met(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    await limit(world, ana, max_turns=1, max_banks=1)
    assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
    full = await ana.http.post("/api/v1/turns", json={**turn, "turn_id": "2"})
    error = full.json()["error"]
    assert (full.status_code, error["code"], error["retryable"]) == (429, "QUOTA_EXCEEDED", False)
    assert error["details"] == {"limit": "max_turns", "scope": "host", "allowed": 1}
    assert error["message"] == (
        "the quota of this tenant is used up: max_turns is 1; erase something, or ask the operator for more"
    )
    assert int(full.headers["retry-after"]) > 0
    assert "Lisbon" not in full.text
    batch = await ana.http.post("/api/v1/turns:batch", json={"turns": [turn, {**turn, "turn_id": "2"}]})
    first, second = batch.json()["results"]
    assert (first["duplicate"], second["error"]["code"]) == (True, "QUOTA_EXCEEDED")
    bank = await ana.http.post("/api/v1/banks", json={"bank": "another"})
    assert (bank.status_code, bank.json()["error"]["details"]["limit"]) == (429, "max_banks")


async def test_too_many_turns_in_a_minute_may_come_again_later(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    await limit(world, ana, turns_per_minute=0)
    reply = await ana.http.post("/api/v1/turns", json=turn)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["retryable"]) == (429, "RATE_LIMITED", True)
    assert 1 <= int(reply.headers["retry-after"]) <= 60
    assert error["message"].endswith(f"turns_per_minute is 0; try again in {reply.headers['retry-after']} s")


async def test_the_gateways_door_has_the_same_quota_and_says_what_it_kept(world: World) -> None:
    door = await world.tenant(gateway_user="ana")
    said = [("user", "We fly to Lisbon"), ("assistant", "Noted")]
    messages = [{"sender_id": "ana", "role": role, "timestamp": 1772366400000, "content": text} for role, text in said]
    body = {"user_id": "ana", "user_key": door.token, "session_id": "chat:1", "messages": messages}
    for kept in (0, 1):
        await limit(world, door, max_turns=kept)
        error = (await door.http.post("/memories/add", json=body)).json()["error"]
        assert error["code"] == "QUOTA_EXCEEDED"
        assert error["details"] == {"limit": "max_turns", "scope": "host", "allowed": kept, "message_count": kept}
    await limit(world, door, max_turns=2)
    assert (await door.http.post("/memories/add", json=body)).json()["data"]["message_count"] == 2
    [held] = await world.sql("select turns from afterturn.quota_t where host_id = :host", host=host_id(door.host))
    assert held.turns == 2
