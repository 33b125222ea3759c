"""Every call at a door is noted: who, for what, how long, how it ended; and no call waits for it."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from producers.auditing import BATCH, CallRecorder
from store import identity
from store.call_audit import NOBODY, Call, CallAudit, Door, Sought
from tests.patience import PATIENCE_S
from tests.producers.conftest import Tenant, World

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LARGE = {"content-length": str(1 << 40)}


def call(n: int = 0) -> Call:
    return Call(NOON, Door.HTTP, f"GET /{n}", 1.0)


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("afterturn_calls_audited_total", {"outcome": outcome}) or 0.0


async def noted(world: World, host: str | None = None, **sought: Any) -> list[Call]:
    assert await world.recorder.flush()
    wanted = Sought(host=identity.host_id(host) if host else NOBODY, **sought)
    found, _ = await CallAudit(world.database).read(wanted, 100)
    return [one.call for one in found]


async def test_a_call_is_noted_with_its_key_operation_time_and_result(
    world: World, ana: Tenant, turn: dict[str, Any]
) -> None:
    before = datetime.now(UTC)
    reply = await ana.http.post("/api/v1/turns", json=turn)
    [call] = await noted(world, ana.host)
    [key] = await world.keys.list(ana.host)
    assert (call.door, call.operation, call.key_id) == (Door.HTTP, "POST /api/v1/turns", key.key_id)
    assert (call.status, call.code) == (201, None)
    assert call.request_id == UUID(reply.headers["x-request-id"])
    assert 0 < call.took_ms < 60_000
    assert before <= call.at <= datetime.now(UTC)


async def test_a_refused_call_is_noted_with_its_code(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    await ana.http.post("/api/v1/turns", json={**turn, "messages": [{"role": "user", "content": "other"}]})
    await ana.http.get("/api/v1/turns/monday/unheard-of")
    codes = [(call.status, call.code) for call in await noted(world, ana.host)]
    assert codes == [(404, "NOT_FOUND"), (409, "TURN_CONFLICT"), (201, None)]
    assert len(await noted(world, ana.host, refused=True)) == 2


async def test_a_call_without_a_good_key_belongs_to_nobody(world: World, turn: dict[str, Any]) -> None:
    async with world.client({"authorization": "Bearer at_wrong"}) as stranger:
        reply = await stranger.post("/api/v1/turns", json=turn)
    call = next(c for c in await noted(world) if c.request_id == UUID(reply.headers["x-request-id"]))
    assert (call.host_id, call.key_id, call.status, call.code) == (NOBODY, None, 401, "UNAUTHENTICATED")


@pytest.mark.parametrize(
    "asked,headers,note",
    [
        ("POST /api/v1/turns", LARGE, (Door.HTTP, "POST unrouted", 413, "PAYLOAD_TOO_LARGE")),
        ("POST /memories/add", LARGE, (Door.GATEWAY, "POST unrouted", 413, "PAYLOAD_TOO_LARGE")),
        ("GET /api/v1/freshness", {"host": "evil.test"}, (Door.HTTP, "GET unrouted", 403, "PERMISSION_DENIED")),
        ("GET /api/v1/nothing", {}, (Door.HTTP, "GET unrouted", 404, "NOT_FOUND")),
        ("PUT /api/v1/turns", {}, (Door.HTTP, "PUT /api/v1/turns", 405, "METHOD_NOT_ALLOWED")),
    ],
)
async def test_what_is_refused_before_a_route_takes_it_is_noted_at_its_door(
    world: World, asked: str, headers: dict[str, str], note: tuple[Door, str, int, str]
) -> None:
    async with world.client() as stranger:
        reply = await stranger.request(*asked.split(), headers=headers)
    [call] = [c for c in await noted(world) if c.request_id == UUID(reply.headers["x-request-id"])]
    assert (call.door, call.operation, call.status, call.code) == note
    assert call.host_id == NOBODY


async def test_the_gateways_door_is_noted_as_its_own(world: World) -> None:
    user = await world.tenant(gateway_user="ana")
    body = {"user_id": "ana", "user_key": user.token, "session_id": "chat:1", "app_id": "a", "project_id": "p"}
    await user.http.post("/memories/flush", json=body)
    [call] = await noted(world, user.host)
    assert (call.door, call.operation, call.status) == (Door.GATEWAY, "POST /memories/flush", 200)


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
    written: list[Call] = []
    away = True

    async def write(calls: Sequence[Call]) -> None:
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
    written: list[Call] = []

    async def write(calls: Sequence[Call]) -> None:
        written.extend(calls)

    recorder = CallRecorder(write, lambda: NOON, pause_s=60.0)
    async with recorder.writing():
        recorder.note(call())
    assert written == [call()]


async def test_a_batch_that_is_being_written_when_a_process_stops_is_written_once() -> None:
    written: list[Call] = []
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def write(calls: Sequence[Call]) -> None:
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

    async def write(calls: Sequence[Call]) -> None:
        assert calls
        written.set()

    recorder = CallRecorder(write, lambda: NOON, pause_s=0.01)
    async with recorder.writing():
        recorder.note(call())
        await asyncio.wait_for(written.wait(), PATIENCE_S)


async def _never(_calls: Sequence[Call]) -> None:
    raise AssertionError
