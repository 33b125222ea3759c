"""Recall held to tags, to metadata, to one user; and one user's memory across the banks that a key reaches."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from store import identity
from store.ledger.stages import OWN
from tests.producers.conftest import Tenant, World
from workers.recall import RecallWork


async def say(tenant: Tenant, words: str, session: str = "s", **more: Any) -> None:
    body = {"session_id": session, "turn_id": words, "messages": [{"role": "user", "content": words}], **more}
    reply = await tenant.http.post("/api/v1/turns", json=body)
    assert reply.status_code == 201, reply.text


async def recall(tenant: Tenant, query: str = "violin", **asked: Any) -> dict[str, Any]:
    reply = await tenant.http.post("/api/v1/recall", json={"query": query, **asked})
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def found(tenant: Tenant, query: str = "violin", **asked: Any) -> list[str]:
    return [one["text"] for one in (await recall(tenant, query, **asked))["results"]]


async def test_tags_are_kept_with_a_turn_and_hold_a_recall_to_it(ana: Tenant) -> None:
    await say(ana, "violin one", tags=["music", "home", "music"])
    await say(ana, "violin two", tags=["work"], metadata={"source": "chat"})
    await say(ana, "violin three", metadata={"tags": "work"})
    assert set(await found(ana)) == {"violin one", "violin two", "violin three"}
    assert await found(ana, tags=["music"]) == ["violin one"]
    assert set(await found(ana, tags=["home", "work"])) == {"violin one", "violin two", "violin three"}
    assert await found(ana, tags=["musi"]) == []
    body = {"session_id": "s", "turn_id": "x", "messages": [{"role": "user", "content": "x"}]}
    for wrong in ({"tags": "music"}, {"tags": [""]}, {"tags": ["a"], "metadata": {"tags": "b"}}):
        assert (await ana.http.post("/api/v1/turns", json=body | wrong)).status_code == 422


async def test_the_same_turn_with_other_tags_is_another(ana: Tenant) -> None:
    await say(ana, "violin", tags=["music"])
    body = {"session_id": "s", "turn_id": "violin", "messages": [{"role": "user", "content": "violin"}]}
    assert (await ana.http.post("/api/v1/turns", json={**body, "tags": ["music"]})).status_code == 200
    assert (await ana.http.post("/api/v1/turns", json={**body, "tags": ["work"]})).status_code == 409


async def test_metadata_hold_a_recall_to_what_has_all_of_them(ana: Tenant) -> None:
    await say(ana, "violin one", metadata={"source": "chat", "project": "a"})
    await say(ana, "violin two", metadata={"source": "chat", "project": "b"})
    assert set(await found(ana, metadata={"source": "chat"})) == {"violin one", "violin two"}
    assert await found(ana, metadata={"source": "chat", "project": "b"}) == ["violin two"]
    assert await found(ana, metadata={"source": "mail"}) == []
    assert (await ana.http.post("/api/v1/recall", json={"query": "x", "metadata": {"a": 1}})).status_code == 422


async def test_a_user_holds_a_recall_to_what_that_user_said(ana: Tenant) -> None:
    await say(ana, "violin one", user_id="ana")
    await say(ana, "violin two", user_id="bob")
    assert await found(ana, user_id="bob") == ["violin two"]
    assert await found(ana, user_id="nobody") == []


@pytest.mark.law("L6")
async def test_a_users_memory_is_found_across_the_banks_a_key_reaches(world: World) -> None:
    everybody = await world.tenant()
    ana = await world.tenant(everybody.host, user="ana")
    bob = await world.tenant(everybody.host, user="bob")
    held = await world.tenant(everybody.host, banks=["home"])
    await say(everybody, "violin home", bank="home", user_id="ana")
    await say(everybody, "violin work", bank="work", user_id="ana")
    await say(everybody, "violin of somebody else", bank="work", user_id="bob")
    await say(ana, "violin notes", bank="notes")
    across: dict[str, Any] = {"user_id": "ana", "across_banks": True}
    assert set(await found(everybody, **across)) == {"violin home", "violin work", "violin notes"}
    assert set(await found(ana, across_banks=True)) == {"violin home", "violin work", "violin notes"}
    assert await found(held, **across) == ["violin home"]
    assert await found(bob, across_banks=True) == ["violin of somebody else"]
    assert (await bob.http.post("/api/v1/recall", json={"query": "violin", **across})).status_code == 403
    assert await found(await world.tenant(), **across) == []
    reply = (await everybody.http.post("/api/v1/recall", json={"query": "violin", **across, "k": 2})).json()
    assert len(reply["results"]) == 2
    assert {one["bank"] for one in reply["results"]} <= {"home", "work", "~ana/notes"}
    assert reply["freshness"]["pending"] == 4 * len(OWN)


@pytest.mark.law("L6")
async def test_a_job_asks_the_banks_that_its_asker_reached_and_nobody_else_reads_it(world: World) -> None:
    everybody = await world.tenant()
    held = await world.tenant(everybody.host, banks=["home"])
    other = await world.tenant(everybody.host, banks=["work"])
    await say(everybody, "violin home", bank="home", user_id="ana")
    await say(everybody, "violin work", bank="work", user_id="ana")
    body = {"query": "violin", "across_banks": True, "user_id": "ana"}
    for asker, texts in ((held, {"violin home"}), (everybody, {"violin home", "violin work"})):
        job = (await asker.http.post("/api/v1/recall/jobs", json=body)).json()["job_id"]
        work = RecallWork(world.jobs, world.recalls, timedelta(seconds=30), ready)
        await work.answer(identity.host_id(asker.host), UUID(job))
        told = (await asker.http.get(f"/api/v1/recall/jobs/{job}")).json()
        assert (told["status"], {one["text"] for one in told["result"]["results"]}) == ("done", texts)
        assert (await other.http.get(f"/api/v1/recall/jobs/{job}")).status_code == 404
        assert (await other.http.delete(f"/api/v1/recall/jobs/{job}")).status_code == 404
    assert (await held.http.get(f"/api/v1/recall/jobs/{job}")).status_code == 404


async def ready() -> None:
    """Nothing has to be loaded."""


async def test_across_banks_needs_a_user_and_no_session(ana: Tenant) -> None:
    for wrong in ({}, {"user_id": "ana", "session_id": "s"}, {"user_id": "ana", "sources": ["local", "gateway"]}):
        body = {"query": "violin", "across_banks": True, **wrong}
        assert (await ana.http.post("/api/v1/recall", json=body)).status_code == 422
    assert await found(ana, across_banks=True, user_id="ana", max_tokens=5) == []


async def test_across_banks_one_budget_of_tokens_holds_for_all_of_them(ana: Tenant) -> None:
    for bank in ("one", "two", "three", "four"):
        await say(ana, f"violin {bank}", bank=bank, user_id="ana")
    asked: dict[str, Any] = {"user_id": "ana", "across_banks": True}
    whole = await recall(ana, **asked)
    assert len(whole["results"]) == 4
    assert await found(ana, **asked, max_tokens=1) == []
    fewer = await recall(ana, **asked, max_tokens=whole["tokens"] - 1)
    assert len(fewer["results"]) == 3
    assert fewer["tokens"] < whole["tokens"]
    assert len(await found(ana, **asked, max_tokens=whole["tokens"])) == 4


async def test_what_the_agent_has_before_it_is_said_with_the_session_it_is_of(ana: Tenant) -> None:
    await say(ana, "violin one")
    await say(ana, "violin two")
    assert await found(ana, session_id="s", skip_recent=1) == ["violin one"]
    for wrong in ({"skip_recent": 1}, {"session_id": "s", "skip_recent": 65}, {"session_id": "s", "skip_recent": -1}):
        assert (await ana.http.post("/api/v1/recall", json={"query": "x", **wrong})).status_code == 422


async def test_sessions_roles_times_and_scores_hold_a_recall_and_the_answer_says_what_it_is_worth(ana: Tenant) -> None:
    await say(ana, "violin one", "a", occurred_at="2026-01-05T10:00:00Z")
    await say(ana, "violin two", "b", occurred_at="2026-02-05T10:00:00Z")
    assert await found(ana, sessions=["b"]) == ["violin two"]
    assert await found(ana, roles=["assistant"]) == []
    assert await found(ana, **{"from": "2026-02-01T00:00:00Z", "time": "said"}) == ["violin two"]
    assert await found(ana, to="2026-02-01T00:00:00Z") == ["violin one"]
    assert await found(ana, min_score=99) == []
    for wrong in (
        {"from": "2026-02-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
        {"time": "heard"},
        {"roles": ["cook"]},
        {"min_score": -1},
    ):
        assert (await ana.http.post("/api/v1/recall", json={"query": "x", **wrong})).status_code == 422
    known = (await ana.http.post("/api/v1/recall", json={"query": "violin"})).json()
    unknown = (await ana.http.post("/api/v1/recall", json={"query": "violin", "bank": "nowhere"})).json()
    assert (known["bank_known"], unknown["bank_known"]) == (True, False)
    assert known["evidence"]["top"] == known["results"][0]["score"]
    assert unknown["evidence"] == {"top": None, "on_topic": False, "about": None}
