"""One suite for both ways to write an agent's memory, and what is each one's own."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest
import pytest_asyncio
from afterturn_client import (
    AfterturnError,
    ApiError,
    InvalidAnswerError,
    InvalidRequestError,
    QuotaExceededError,
    UnauthenticatedError,
    UnreachableError,
)
from afterturn_client.memory_store.direct_pg import DirectPgStore
from afterturn_client.memory_store.opening import WithoutHistory, open_memory_store
from afterturn_client.memory_store.portal import PortalCommandStore
from afterturn_client.memory_store.protocol import MOST_HISTORY, MemoryOwner, MemoryStore, MemoryStoreError
from afterturn_client.memory_store.settings import StoreSettings, WriteMode
from starlette.responses import JSONResponse, Response

from store import identity
from store.replay import ReplayScope, verify_log
from tests.client.loopback import Loopback, closed_port, everything_in
from tests.client.twins import KEY, QUICK, TEXT
from tests.producers.conftest import Tenant, World, world
from tests.seed_tables import platform_database
from tests.servers import TestPostgres
from tests.tables import each_row

__all__ = ["world"]

OWNER = MemoryOwner(uuid4(), uuid4(), uuid4())
COMMANDS = "http://127.0.0.1:8300/portal/command"


@dataclass
class Opened:
    """A store, the store of another agent on the same data, and a way to end a unit behind its back."""

    store: MemoryStore
    other: MemoryStore
    end_unit: Callable[[UUID, UUID], Awaitable[None]]


def portal_store(world: World, tenant: Tenant, **options: Any) -> PortalCommandStore:
    owner = MemoryOwner(identity.host_id(tenant.host))
    return PortalCommandStore(COMMANDS, tenant.token, owner, transport=httpx.ASGITransport(world.app), **options)


async def end_by_command(tenant: Tenant, bank: UUID, unit: UUID) -> None:
    told = {"action": "deleteAgentMemoryUnit", "data": {"bankId": str(bank), "unitId": str(unit)}}
    assert (await tenant.http.post("/api/v1/commands", json=told)).status_code == 200


async def end_by_sql(url: str, bank: UUID, unit: UUID) -> None:
    connection = await asyncpg.connect(url)  # type: ignore[no-untyped-call]  # asyncpg leaves it without
    ended = "update agent_memory_unit_t set active = false where bank_id = $1 and unit_id = $2"
    assert await connection.execute(ended, bank, unit) == "UPDATE 1"
    await connection.close()


@pytest_asyncio.fixture(loop_scope="session")
async def platform(postgres: TestPostgres) -> AsyncIterator[str]:
    async with platform_database(postgres) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="session", params=["portal-command", "direct-pg"])
async def opened(request: pytest.FixtureRequest, world: World, platform: str) -> AsyncIterator[Opened]:
    """Each way to write."""
    if request.param == "portal-command":
        planner = await world.tenant(agent="planner")
        cook = await world.tenant(planner.host, agent="cook")
        made = Opened(portal_store(world, planner), portal_store(world, cook), partial(end_by_command, planner))
    else:
        other = replace(OWNER, agent_def_id=uuid4())
        store, stranger = [await DirectPgStore.open(platform, owner) for owner in (OWNER, other)]
        made = Opened(store, stranger, partial(end_by_sql, platform))
    yield made
    await made.store.aclose()
    await made.other.aclose()


# What holds for both ------------------------------------------------------------------------------------------------


async def test_what_is_retained_is_recalled_at_once_and_an_ended_unit_is_not(opened: Opened) -> None:
    bank, store = uuid4(), opened.store
    await store.ensure_bank(bank)
    await store.ensure_bank(bank)
    first = await store.retain(bank, "User: where is the violin?\nAssistant: In the attic.", metadata={"by": "test"})
    second = await store.retain(bank, "The violin has four strings.", fact_type="world")
    found = {unit.unit_id: unit for unit in await store.recall(bank, "violin")}
    assert found.keys() == {first, second}
    assert (found[first].content, found[first].fact_type, found[first].bank_id) == (
        "User: where is the violin?\nAssistant: In the attic.", "experience", bank,
    )  # fmt: skip
    assert found[second].fact_type == "world"
    assert len(await store.recall(bank, "violin", limit=1)) == 1
    await opened.end_unit(bank, first)
    assert [unit.unit_id for unit in await store.recall(bank, "violin")] == [second]


async def test_the_same_text_retained_twice_is_two_units(opened: Opened) -> None:
    bank = uuid4()
    await opened.store.ensure_bank(bank)
    units = {await opened.store.retain(bank, "The violin is in the attic.") for _ in range(2)}
    assert len(units) == 2


async def test_nothing_of_another_agents_bank_is_seen_or_changed(opened: Opened) -> None:
    bank, session = uuid4(), uuid4()
    await opened.store.ensure_bank(bank)
    await opened.store.retain(bank, "The violin is in the attic.")
    await opened.store.append_history(bank, session, [{"role": "user", "content": "Where is it?"}])
    for write in (
        opened.other.retain(bank, "The violin is sold."),
        opened.other.append_history(bank, session, [{"role": "user", "content": "It is sold."}]),
    ):
        with suppress(MemoryStoreError):
            await write
    assert [unit.content for unit in await opened.store.recall(bank, "violin")] == ["The violin is in the attic."]
    assert "attic" not in str(await opened.other.recall(bank, "violin"))
    assert [one["content"] for one in await opened.store.read_history(bank, session)] == ["Where is it?"]
    assert "Where is it?" not in str(await opened.other.read_history(bank, session))
    elsewhere = uuid4()
    await opened.store.ensure_bank(elsewhere)
    assert await opened.store.recall(elsewhere, "violin") == ()


async def test_a_history_keeps_its_order_and_its_newest_forty_messages(opened: Opened) -> None:
    bank, session, store = uuid4(), uuid4(), opened.store
    await store.ensure_bank(bank)
    assert await store.read_history(bank, session) == ()
    for n in range(0, 44, 2):
        said = [{"role": "user", "content": f"message {n}"}, {"role": "assistant", "content": f"message {n + 1}"}]
        await store.append_history(bank, session, said)
    read = await store.read_history(bank, session)
    assert [one["content"] for one in read] == [f"message {n}" for n in range(44 - MOST_HISTORY, 44)]
    assert [one["role"] for one in read[:2]] == ["user", "assistant"]


async def test_what_one_session_retained_in_the_agents_own_bank_is_recalled_in_the_next(opened: Opened) -> None:
    bank, store = uuid4(), opened.store
    for session in (uuid4(), uuid4()):
        await store.ensure_bank(bank)
        await store.append_history(bank, session, [{"role": "user", "content": f"I am in {session}"}])
        await store.retain(bank, f"The violin of {session} is in the attic.", metadata={"session_id": str(session)})
        assert [one["content"] for one in await store.read_history(bank, session)] == [f"I am in {session}"]
    found = {unit.content for unit in await store.recall(bank, "violin")}
    assert len(found) == 2, found


async def test_a_wrong_fact_type_is_refused_and_the_error_holds_no_text(opened: Opened) -> None:
    bank = uuid4()
    await opened.store.ensure_bank(bank)
    with pytest.raises((ApiError, MemoryStoreError)) as refused:
        await opened.store.retain(bank, TEXT, fact_type="fact")
    assert TEXT not in everything_in(refused.value)
    assert await opened.store.recall(bank, "heron") == ()


async def test_histories_are_left_out_where_the_settings_say_so(opened: Opened) -> None:
    bank, session, store = uuid4(), uuid4(), WithoutHistory(opened.store)
    await store.ensure_bank(bank)
    await store.append_history(bank, session, [{"role": "user", "content": "Where is it?"}])
    assert await store.read_history(bank, session) == await opened.store.read_history(bank, session) == ()
    unit = await store.retain(bank, "The violin is in the attic.")
    assert [one.unit_id for one in await store.recall(bank, "violin")] == [unit]
    assert store.portable == opened.store.portable


# Commands -----------------------------------------------------------------------------------------------------------


@pytest.mark.law("L5")
async def test_what_an_agent_retains_by_command_is_an_event_and_replay_makes_the_same_row(world: World) -> None:
    """The seed's end to end: retain, command, event, replay, recall."""
    planner = await world.tenant(agent="planner")
    store, bank, host = portal_store(world, planner), uuid4(), identity.host_id(planner.host)
    await store.ensure_bank(bank)
    unit = await store.retain(
        bank, "User: where is the violin?\nAssistant: In the attic.", metadata={"session_id": "s"}
    )
    events = await world.sql(
        "select data->>'content' from afterturn.event_store_t where host_id = :host and aggregate_key = :unit"
        " and event_type = 'AgentMemoryUnitRetainedEvent'",
        host=host,
        unit=str(unit),
    )
    assert [row[0] for row in events] == ["User: where is the violin?\nAssistant: In the attic."]
    assert [one.unit_id for one in await store.recall(bank, "violin")] == [unit]
    report = await verify_log(world.postgres.owner_url, ReplayScope(host))
    assert (report.equal, [one.name for one in report.derived if not one.equal]) == (True, [])
    banks = (await planner.http.get("/api/v1/banks")).json()["banks"]
    assert banks == [], "the bank of a session is its runtime's"
    assert store.portable
    await store.aclose()


async def test_a_command_is_sent_in_the_portals_wire_form_with_a_key_of_its_own(server: Loopback) -> None:
    store = PortalCommandStore(f"{server.url}/portal/command", KEY, OWNER, retry=QUICK)
    bank, unit = uuid4(), uuid4()
    server.answers(Response(status_code=503), JSONResponse({"bankId": str(bank), "unitId": str(unit)}))
    assert await store.retain(bank, TEXT, metadata={"session_id": "s"}) == unit
    first, again = server.seen
    assert (first.method, first.path, first.headers["authorization"]) == ("POST", "/portal/command", f"Bearer {KEY}")
    data = {"hostId": str(OWNER.host_id), "bankId": str(bank), "content": TEXT, "factType": "experience"}
    assert first.json == {
        "host": "lightapi.net",
        "service": "genai",
        "action": "retainAgentMemoryUnit",
        "version": "0.1.0",
        "data": {**data, "metadata": {"session_id": "s"}},
    }
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"]
    server.reset()
    server.answers(JSONResponse({"unitId": str(unit)}))
    await store.retain(bank, TEXT)
    assert server.seen[0].headers["idempotency-key"] != first.headers["idempotency-key"]
    await store.aclose()


@pytest.mark.parametrize(
    "answer, error",
    [
        ({"statusCode": 401, "code": "ERR10000", "message": TEXT, "unitId": str(uuid4())}, ApiError),
        ({"code": "QUOTA_EXCEEDED"}, QuotaExceededError),
        ({"statusCode": 401}, UnauthenticatedError),
        ({"unitId": "none"}, InvalidAnswerError),
        ({}, InvalidAnswerError),
        ([], InvalidAnswerError),
    ],
)
async def test_an_error_under_the_status_200_is_an_error(
    server: Loopback, answer: object, error: type[Exception]
) -> None:
    store = PortalCommandStore(f"{server.url}/portal/command", KEY, OWNER, retry=QUICK)
    server.answers(JSONResponse(answer))
    with pytest.raises(error) as refused:
        await store.retain(uuid4(), TEXT)
    assert not {TEXT, KEY} & {text for text in (TEXT, KEY) if text in everything_in(refused.value)}
    assert len(server.seen) == 1
    await store.aclose()


@each_row(
    "status, body",
    [
        (status, body)
        for status in (400, 401, 403, 404, 409, 422, 429, 500, 503)
        for body in (TEXT, f'{{"statusCode": 400, "code": "ERR1", "message": "{TEXT}"}}')
    ],
)
async def test_the_body_of_an_error_is_not_in_what_is_raised(server: Loopback, status: int, body: str) -> None:
    store = PortalCommandStore(f"{server.url}/portal/command", KEY, OWNER, retry=QUICK)
    server.answers(Response(body, status_code=status))
    with pytest.raises(AfterturnError) as refused:
        await store.retain(uuid4(), TEXT)
    assert not {TEXT, KEY} & {text for text in (TEXT, KEY) if text in everything_in(refused.value)}
    await store.aclose()


async def test_a_history_is_begun_once_appended_to_and_never_compacted(server: Loopback) -> None:
    store = PortalCommandStore(f"{server.url}/portal/command", KEY, OWNER, retry=QUICK)
    missing = JSONResponse({"error": {"code": "NOT_FOUND", "message": "no such session"}}, 404)
    done = JSONResponse({"bankId": str(uuid4())})
    server.answers(missing, done, done, done)
    bank, session, said = uuid4(), uuid4(), [{"role": "user", "content": "Where is it?"}]
    for _ in range(2):
        await store.append_history(bank, session, said)
    append = "appendAgentSessionHistory"
    assert [one.json["action"] for one in server.seen] == [append, "createAgentSessionHistory", append, append]
    assert [one.json["data"]["messages"] for one in server.seen] == [said, [], said, said]
    await store.aclose()


async def test_what_nothing_is_near_to_is_not_recalled(world: World) -> None:
    planner = await world.tenant(agent="planner")
    store, bank = portal_store(world, planner), uuid4()
    await store.ensure_bank(bank)
    await store.retain(bank, "The violin is in the attic.")
    assert [one.content for one in await store.recall(bank, "Where is the violin?")] == ["The violin is in the attic."]
    assert await store.recall(bank, "Grimpenmire mooring fees") == ()
    await store.aclose()


async def test_a_portal_that_promises_a_bank_and_has_none_is_found_out(server: Loopback) -> None:
    store = PortalCommandStore(f"{server.url}/portal/command", KEY, OWNER, retry=QUICK)
    server.answers(JSONResponse({"bankId": str(uuid4())}), Response(status_code=404))
    with pytest.raises(MemoryStoreError, match="not readable"):
        await store.ensure_bank(uuid4())
    await store.aclose()


async def test_commands_go_to_another_machine_over_https_alone() -> None:
    with pytest.raises(InvalidRequestError, match="https"):
        PortalCommandStore("http://memory.example/portal/command", KEY, OWNER)
    away = PortalCommandStore(closed_port() + "/portal/command", KEY, OWNER, retry=QUICK)
    with pytest.raises(UnreachableError):
        await away.retain(uuid4(), TEXT)
    await away.aclose()


# Direct writes ------------------------------------------------------------------------------------------------------


async def test_direct_writes_into_a_database_of_afterturn_are_refused_with_the_reason(postgres: TestPostgres) -> None:
    for url in (postgres.superuser_url, postgres.app_url):
        with pytest.raises(MemoryStoreError, match=r"event log.*Use portal-command"):
            await DirectPgStore.open(url.replace("+asyncpg", ""), OWNER)
    paths = "?options=-c%20search_path%3Dhindsight%2Cafterturn"
    with pytest.raises(MemoryStoreError, match="event log"):
        await DirectPgStore.open(postgres.superuser_url.replace("+asyncpg", "") + paths, OWNER)


async def test_direct_writes_need_the_platforms_tables_agent_and_user(postgres: TestPostgres, platform: str) -> None:
    elsewhere = postgres.named("template1").superuser_url.replace("+asyncpg", "")
    with pytest.raises(MemoryStoreError, match="has not the platform's tables"):
        await DirectPgStore.open(elsewhere, OWNER)
    with pytest.raises(InvalidRequestError, match="agent and user"):
        await DirectPgStore.open(platform, MemoryOwner(OWNER.host_id))
    with pytest.raises(UnreachableError):
        await DirectPgStore.open(closed_port().replace("http://", "postgresql://nobody@") + "/x", OWNER)


async def test_an_inactive_bank_and_another_agents_are_refused(platform: str) -> None:
    bank = uuid4()
    store = await DirectPgStore.open(platform, OWNER)
    other = await DirectPgStore.open(platform, replace(OWNER, user_id=uuid4()))
    await store.ensure_bank(bank)
    with pytest.raises(MemoryStoreError, match="another agent's or user's"):
        await other.ensure_bank(bank)
    with pytest.raises(MemoryStoreError):
        await other.retain(bank, TEXT)
    connection = await asyncpg.connect(platform)  # type: ignore[no-untyped-call]  # asyncpg leaves it without
    await connection.execute("update agent_memory_bank_t set active = false where bank_id = $1", bank)
    await connection.close()
    with pytest.raises(MemoryStoreError, match="inactive"):
        await store.ensure_bank(bank)
    with pytest.raises(MemoryStoreError):
        await store.retain(bank, TEXT)
    await store.aclose()
    await other.aclose()


async def test_vectors_rank_what_is_recalled_and_one_of_zeros_is_refused(platform: str) -> None:
    async def embed(text: str) -> list[float]:
        return [float("violin" in text), float("cello" in text), *([0.0] * 382)]

    bank = uuid4()
    plain = await DirectPgStore.open(platform, OWNER)
    store = await DirectPgStore.open(platform, OWNER, embed=embed)
    await store.ensure_bank(bank)
    violin, cello = await store.retain(bank, "a violin"), await store.retain(bank, "a cello")
    later = await plain.retain(bank, "a letter")
    assert [unit.unit_id for unit in await store.recall(bank, "the violin?")] == [violin, cello, later]
    assert [unit.unit_id for unit in await plain.recall(bank, "the violin?")] == [later, cello, violin]
    with pytest.raises(InvalidRequestError, match="zeros"):
        await store.recall(bank, "neither of them")
    await store.aclose()
    await plain.aclose()


# Settings -----------------------------------------------------------------------------------------------------------


async def test_a_store_is_opened_as_the_settings_say(platform: str) -> None:
    direct = StoreSettings(WriteMode.DIRECT_PG, allow_direct_pg=True, retain_session_history=False)
    store = await open_memory_store(direct, OWNER, database_url=platform)
    assert (type(store), store.portable) == (WithoutHistory, False)
    await store.aclose()
    portal = await open_memory_store(StoreSettings(command_url=COMMANDS), OWNER, token=KEY)
    assert (type(portal), portal.portable) == (PortalCommandStore, True)
    assert KEY not in repr(portal)
    await portal.aclose()
    with pytest.raises(InvalidRequestError, match="permission"):
        await open_memory_store(replace(direct, allow_direct_pg=False), OWNER, database_url=platform)
    with pytest.raises(InvalidRequestError, match="token"):
        await open_memory_store(StoreSettings(command_url=COMMANDS), OWNER)
