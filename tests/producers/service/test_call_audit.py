"""Every call of an interface is audited: caller, operation, duration, status; and no call waits for that."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from afterturn_client.contract.operators import Call
from prometheus_client import REGISTRY
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from producers.service.auditing import BATCH, SUM_EVERY_S, SUMMED_UP, CallRecorder
from store import identity
from store.tenancy.call_audit import NO_HOST, AuditedCall, CallAudit, CallFilter, Interface
from tests.patience import PATIENCE_S
from tests.producers.conftest import Tenant, World

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SOME_HOST = UUID(int=7)
LARGE = {"content-length": str(1 << 40)}


def call(n: int = 0, host: UUID = SOME_HOST, **more: Any) -> AuditedCall:
    return AuditedCall(NOON, Interface.HTTP, f"GET /{n}", 1.0, host, **more)


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("afterturn_calls_audited_total", {"outcome": outcome}) or 0.0


async def noted(world: World, host: str | None = None, **calls: Any) -> tuple[Call, ...]:
    assert await world.recorder.flush()
    wanted = CallFilter(host=identity.host_id(host) if host else NO_HOST, **calls)
    found = await CallAudit(world.database).read(wanted, 10_000)
    assert not found.has_more
    return found.calls


async def test_a_call_is_noted_with_its_key_operation_time_and_result(
    world: World, ana: Tenant, turn: dict[str, Any]
) -> None:
    before = datetime.now(UTC)
    reply = await ana.http.post("/api/v1/turns", json=turn)
    [call] = await noted(world, ana.host)
    [key] = await world.keys.list(ana.host)
    assert (call.door, call.operation, call.key_id) == (Interface.HTTP, "POST /api/v1/turns", key.key_id)
    assert (call.status, call.code) == (201, None)
    assert call.request_id == reply.headers["x-request-id"]
    assert 0 < call.took_ms < 60_000
    assert before <= call.at <= datetime.now(UTC)


async def test_a_refused_call_is_noted_with_its_code(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    await ana.http.post("/api/v1/turns", json={**turn, "messages": [{"role": "user", "content": "other"}]})
    await ana.http.get("/api/v1/turns/monday/unheard-of")
    codes = [(call.status, call.code) for call in await noted(world, ana.host)]
    assert codes == [(404, "NOT_FOUND"), (409, "TURN_CONFLICT"), (201, None)]
    assert len(await noted(world, ana.host, refused=True)) == 2


async def summed_up(world: World) -> Counter[tuple[Interface, int | None, str | None]]:
    """Return how many calls without a valid key are on record, by interface, status and code."""
    world.recorder._sum_at = float("-inf")
    found: Counter[tuple[Interface, int | None, str | None]] = Counter()
    for one in await noted(world):
        if one.key_id is not None:  # an operator's, who has no tenant either
            continue
        assert (one.operation, one.request_id) == (SUMMED_UP, None)
        found[Interface(one.door), one.status, one.code] += one.rows or 0
    return found


async def test_calls_without_a_valid_key_are_one_row_however_many_they_are(world: World, turn: dict[str, Any]) -> None:
    before, rows = await summed_up(world), len(await noted(world))
    counter = {"door": "http", "status": "401"}
    counted_before = REGISTRY.get_sample_value("afterturn_unauthenticated_calls_total", counter) or 0.0
    async with world.client({"authorization": "Bearer at_wrong"}) as stranger:
        for _ in range(20):
            assert (await stranger.post("/api/v1/turns", json=turn)).status_code == 401
    after = await summed_up(world) - before
    assert after == {(Interface.HTTP, 401, "UNAUTHENTICATED"): 20}
    assert len(await noted(world)) == rows + 1
    assert REGISTRY.get_sample_value("afterturn_unauthenticated_calls_total", counter) == counted_before + 20


async def test_calls_without_a_valid_key_are_summed_up_once_a_minute_and_push_no_other_call_out() -> None:
    written: list[AuditedCall] = []
    now = [0.0]

    async def write(calls: Sequence[AuditedCall]) -> None:
        written.extend(calls)

    recorder = CallRecorder(write, lambda: NOON, limit=10, now=lambda: now[0])
    refused = call(host=NO_HOST, status=401, code="UNAUTHENTICATED")
    for _ in range(100_000):
        recorder.note(refused)
    recorder.note(call(1))
    for expected in ([1, 100_000], [], [1]):
        assert await recorder.flush()
        assert [one.rows or 1 for one in written] == expected
        written.clear()
        if expected:
            recorder.note(refused)
        else:
            now[0] += SUM_EVERY_S


@pytest.mark.parametrize(
    "asked,headers,refusal",
    [
        ("POST /api/v1/turns", LARGE, (Interface.HTTP, 413, "PAYLOAD_TOO_LARGE")),
        ("POST /memories/add", LARGE, (Interface.GATEWAY, 413, "PAYLOAD_TOO_LARGE")),
        ("GET /api/v1/freshness", {"host": "evil.test"}, (Interface.HTTP, 403, "PERMISSION_DENIED")),
        ("GET /api/v1/nothing", {}, (Interface.HTTP, 404, "NOT_FOUND")),
        ("PUT /api/v1/turns", {}, (Interface.HTTP, 405, "METHOD_NOT_ALLOWED")),
    ],
)
async def test_what_is_refused_before_a_route_takes_it_is_counted_at_its_interface(
    world: World, asked: str, headers: dict[str, str], refusal: tuple[Interface, int, str]
) -> None:
    before = await summed_up(world)
    async with world.client() as stranger:
        await stranger.request(*asked.split(), headers=headers)
    assert await summed_up(world) - before == {refusal: 1}


async def test_the_gateways_door_is_noted_as_its_own(world: World) -> None:
    user = await world.tenant(gateway_user="ana")
    body = {"user_id": "ana", "user_key": user.token, "session_id": "chat:1", "app_id": "a", "project_id": "p"}
    await user.http.post("/memories/flush", json=body)
    [call] = await noted(world, user.host)
    assert (call.door, call.operation, call.status) == (Interface.GATEWAY, "POST /memories/flush", 200)


async def test_health_and_metrics_are_not_noted(world: World) -> None:
    before = len(await noted(world))
    async with world.client() as machine:
        for path in ("/health/live", "/health/ready", "/metrics", "/nowhere"):
            await machine.get(path)
    assert len(await noted(world)) == before


@pytest.mark.law("L6")
async def test_a_tenant_reads_the_calls_of_its_own_keys_and_rewrites_none(
    world: World, ana: Tenant, turn: dict[str, Any]
) -> None:
    other = await world.tenant()
    for tenant in (ana, other):
        await tenant.http.post("/api/v1/turns", json=turn)
    await world.recorder.flush()
    host = identity.host_id(ana.host)
    async with world.database.tenant(host) as connection:
        rows = await connection.execute(text("select distinct host_id from afterturn.call_audit_t"))
        assert list(rows.scalars()) == [host]
    for statement in ("delete from afterturn.call_audit_t", "update afterturn.call_audit_t set status = 200"):
        async with world.database.tenant(host) as connection:
            with pytest.raises(ProgrammingError):
                await connection.execute(text(statement))


async def test_what_comes_too_fast_is_dropped_and_counted_and_nobody_waits() -> None:
    recorder = CallRecorder(_never, lambda: NOON, limit=10)
    before = counted("dropped")
    for n in range(1000):
        recorder.note(call(n))
    assert counted("dropped") - before == 990


async def test_notes_wait_while_the_database_is_away_and_are_written_once_in_order() -> None:
    written: list[AuditedCall] = []
    away = True

    async def write(calls: Sequence[AuditedCall]) -> None:
        if away:
            raise ConnectionError
        written.extend(calls)

    recorder = CallRecorder(write, lambda: NOON)
    for n in range(BATCH + 5):
        recorder.note(call(n))
    assert not await recorder.flush()
    away = False
    assert await recorder.flush()
    assert [one.operation for one in written] == [f"GET /{n}" for n in range(BATCH + 5)]


async def test_a_process_that_stops_writes_what_is_left() -> None:
    written: list[AuditedCall] = []

    async def write(calls: Sequence[AuditedCall]) -> None:
        written.extend(calls)

    recorder = CallRecorder(write, lambda: NOON, pause_s=60.0)
    async with recorder.writing():
        recorder.note(call())
    assert written == [call()]


async def test_a_batch_that_is_being_written_when_a_process_stops_is_written_once() -> None:
    written: list[AuditedCall] = []
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def write(calls: Sequence[AuditedCall]) -> None:
        written.extend(calls)
        begun.set()
        await may_end.wait()

    recorder = CallRecorder(write, lambda: NOON, pause_s=0.0)
    async with recorder.writing():
        recorder.note(call())
        await begun.wait()
        asyncio.get_running_loop().call_soon(may_end.set)
    assert written == [call()]


async def test_notes_are_written_while_calls_come() -> None:
    written = asyncio.Event()

    async def write(calls: Sequence[AuditedCall]) -> None:
        assert calls
        written.set()

    recorder = CallRecorder(write, lambda: NOON, pause_s=0.01)
    async with recorder.writing():
        recorder.note(call())
        await asyncio.wait_for(written.wait(), PATIENCE_S)


async def _never(_calls: Sequence[AuditedCall]) -> None:
    raise AssertionError
