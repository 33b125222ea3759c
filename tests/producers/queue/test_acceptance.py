"""What a turn queue hands over: accepted once however often it comes, in the name of the queue's tenant."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from afterturn_client.envelopes import RECALL, TURN, TURN_ITEMS, wrap_event

from deploy.settings import Settings
from deploy.worker.turn_queues import build_queue_grant
from producers.queue.acceptance import QueueIntake, Rejection, TryAgain
from producers.service.recall_coordinator import RecallCoordinator
from store import identity
from store.erasure import Erasures, ErasureTarget, Kind
from store.tenancy.keys import Grant
from store.tenancy.tenants import ensure_host
from tests.producers.conftest import Tenant, World
from tests.producers.mcp.test_tools import count_events


def message(text: str, **more: Any) -> bytes:
    said = [{"role": "user", "content": text}]
    return wrap_event(TURN, {"bank": "b", "session_id": "s", "turn_id": "1", "messages": said, **more}, "x").body


def intake_of(world: World, tenant: Tenant) -> QueueIntake:
    grant = Grant(uuid4(), identity.host_id(tenant.host), None, write=True)
    return QueueIntake(world.memory, grant, 1 << 20, 3, lambda: ensure_host(world.database, tenant.host))


@pytest.mark.law("L2")
async def test_a_message_that_is_delivered_again_is_one_turn_and_another_body_is_rejected(
    world: World, ana: Tenant
) -> None:
    intake = intake_of(world, ana)
    assert await intake.accept(message("once"), 0) is None
    events = await count_events(world, ana)
    assert events > 0
    assert await intake.accept(message("once"), 1) is None
    assert await count_events(world, ana) == events
    rejection = await intake.accept(message("zq41 heron"), 0)
    assert isinstance(rejection, Rejection)
    assert (rejection.code, "zq41" in rejection.message) == ("TURN_CONFLICT", False)


@pytest.mark.law("L6")
async def test_a_message_that_names_another_tenant_is_the_queues_own_turn(world: World, ana: Tenant) -> None:
    other = await world.tenant()
    forged = json.loads(message("mine", tenant=other.host, host=other.host))
    forged["args"][0] |= {"tenant": other.host, "host": other.host}
    assert await intake_of(world, ana).accept(json.dumps(forged).encode(), 0) is None
    assert (await count_events(world, ana) > 0, await count_events(world, other)) == (True, 0)
    await other.http.aclose()


async def test_a_turn_of_items_is_stored_and_nobody_asks_how_fresh_its_bank_is(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(*_arguments: object) -> None:
        raise AssertionError

    monkeypatch.setattr(RecallCoordinator, "freshness", asked)
    items = [{"type": "message", "role": "user", "content": "hello"}]
    body = {"project": "b", "session_id": "s", "turn_id": "1", "input_items": items, "output_items": items}
    assert await intake_of(world, ana).accept(wrap_event(TURN_ITEMS, body, "x").body, 0) is None
    assert await count_events(world, ana) > 0


@pytest.mark.law("L1")
async def test_an_outage_uses_up_no_attempt_and_never_rejects(world: World, ana: Tenant) -> None:
    assert await is_counted(world, ana, OSError(), 0) is False
    assert await is_counted(world, ana, OSError(), 99) is False


async def test_an_unexpected_error_is_rejected_when_its_attempts_are_used_up(world: World, ana: Tenant) -> None:
    assert await is_counted(world, ana, RuntimeError(), 1) is True
    assert await is_counted(world, ana, RuntimeError(), 2) is None


async def is_counted(world: World, tenant: Tenant, error: Exception, failures: int) -> bool | None:
    """Return whether a failure counts that has the message tried again; None if it is rejected."""

    async def fail() -> None:
        raise error

    intake = intake_of(world, tenant)
    intake.ensure_tenant = fail
    try:
        assert isinstance(await intake.accept(message("hello"), failures), Rejection)
    except TryAgain as again:
        return again.counts
    return None


@pytest.mark.law("L6")
async def test_a_publisher_reaches_no_private_bank_without_the_right(world: World, ana: Tenant) -> None:
    settings = {"queue": {"tenants": {"plain": ana.host, "trusted": ana.host}, "private_banks": ["trusted"]}}
    chosen = Settings.model_validate(settings)
    plain, trusted = intake_of(world, ana), intake_of(world, ana)
    plain.grant, trusted.grant = (build_queue_grant(chosen, name, ana.host) for name in ("plain", "trusted"))
    said = [{"type": "message", "role": "user", "content": "hello"}]
    for bank in ("~ann/notes", "@planner/notes"):
        items = {"bank": bank, "session_id": "s", "turn_id": "1", "input_items": said}
        for raw in (
            message("hello", bank=bank, user_id="ann"),
            wrap_event(TURN_ITEMS, items, "x").body,
            wrap_event(RECALL, {"bank": bank, "query": "hello"}, "x").body,
        ):
            rejection = await plain.accept(raw, 0)
            assert isinstance(rejection, Rejection)
            assert (rejection.code, "queue.private_banks" in rejection.message) == ("PERMISSION_DENIED", True)
        assert await trusted.accept(message("hello", bank=bank, user_id="ann"), 0) is None
    shared = message("hello", bank="b", user_id="ann")
    assert await plain.accept(shared, 0) is None
    across = wrap_event(RECALL, {"query": "hello", "user_id": "ann", "across_banks": True}, "x")
    assert await plain.accept(across.body, 0) is None
    host = identity.host_id(ana.host)
    job = await world.memory.recalls.recall_job(Grant(uuid4(), host, None, write=True), UUID(across.event_id))
    assert set(job.banks) == {"b"}


@pytest.mark.law("L7")
@pytest.mark.parametrize("at", ["the turn", "a message", "its metadata"])
async def test_names_that_a_publisher_chose_are_in_no_rejection(world: World, ana: Tenant, at: str) -> None:
    said: dict[str, Any] = {"role": "user", "content": "hello"}
    more: dict[str, Any] = {}
    match at:
        case "the turn":
            more = {"zq41 heron": 1, "zq41.heron": 1}
        case "a message":
            said["zq41 heron"] = 1
        case _:
            more = {"metadata": {"zq41 heron": 1}}
    data = {"bank": "b", "session_id": "s", "turn_id": "1", "messages": [said], **more}
    rejection = await intake_of(world, ana).accept(wrap_event(TURN, data, "x").body, 0)
    assert isinstance(rejection, Rejection)
    assert rejection.code == "INVALID_ARGUMENT"
    assert ("zq41" in str(rejection), "heron" in str(rejection), "?" in rejection.message) == (False, False, True)


@pytest.mark.law("L7")
async def test_a_message_of_many_values_is_refused_before_it_is_parsed(world: World, ana: Tenant) -> None:
    rejection = await intake_of(world, ana).accept(b"[" + b"[]," * 300_000 + b"[]]", 0)
    assert isinstance(rejection, Rejection)
    assert "JSON values" in rejection.message


@pytest.mark.law("L11")
async def test_what_was_published_before_its_user_was_erased_is_rejected_and_what_comes_after_is_accepted(
    world: World, ana: Tenant
) -> None:
    host, intake = identity.host_id(ana.host), intake_of(world, ana)
    assert await intake.accept(message("hello", user_id="ann"), 0) is None
    waiting = message("zq41 heron", user_id="ann", turn_id="2")
    undated = json.loads(message("zq41 heron", user_id="ann", turn_id="3"))
    question = wrap_event(RECALL, {"bank": "b", "query": "zq41", "user_id": "ann"}, "x").body
    del undated["message_timestamp"]
    erasures = Erasures(world.database, world.clock)
    await erasures.run(host, await erasures.request(host, ErasureTarget(Kind.USER, name="ann")))
    for late in (waiting, json.dumps(undated).encode(), question):
        rejection = await intake.accept(late, 0)
        assert isinstance(rejection, Rejection)
        assert rejection.code == "ERASED"
    assert await intake.accept(message("of another", user_id="bo", turn_id="4"), 0) is None
    assert await intake.accept(message("ann came back", user_id="ann", turn_id="5"), 0) is None


@pytest.mark.parametrize("kind", [TURN, TURN_ITEMS])
@pytest.mark.parametrize(
    "times,expected",
    [
        (("2026-03-02T09:30:00Z", None), "2026-03-02T09:30:00"),
        (("2026-03-02T09:30:00Z", "2023-05-24T10:00:00Z"), "2023-05-24T10:00:00"),
        (("2999-01-01T00:00:00Z", None), "20"),  # a clock ahead: today
        (("yesterday", None), "20"),
    ],
)
async def test_a_turn_that_waited_in_a_queue_has_the_time_when_it_was_published(
    world: World, ana: Tenant, kind: str, times: tuple[str, str | None], expected: str
) -> None:
    time, own = times
    said = [{"role": "user", "content": "I was in Porto yesterday."}]
    data: dict[str, Any] = {"bank": "b", "session_id": "s", "turn_id": "1"}
    data |= {"messages": said} if kind == TURN else {"input_items": said}
    data |= {"occurred_at": own} if own else {}
    intake = intake_of(world, ana)
    for at in (time, "2026-05-05T00:00:00Z"):  # published again later, it is the same turn
        envelope = json.loads(wrap_event(kind, data, "x").body)
        envelope["args"][0]["time"] = at
        assert await intake.accept(json.dumps(envelope).encode(), 0) is None
    units = (await ana.http.get("/api/v1/units", params={"bank": "b"})).json()["units"]
    [unit] = [one for one in units if one["origin"] == "message"]
    assert unit["occurred_at"].startswith(expected)
    assert unit["occurred_at"] < "2100"
