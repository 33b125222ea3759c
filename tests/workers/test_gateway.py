"""Deliveries to a Memory Gateway: what is sent, in which order, how often, and what is told of it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from starlette.responses import JSONResponse, PlainTextResponse, Response

from store import identity
from store.ledger.deliveries import DeliveryWriter
from store.ledger.ledger import Claim
from store.ledger.stages import Stage
from store.memory.turns import NewMessage
from store.tenancy.gateway_targets import GatewayTarget
from tests.client.loopback import closed_port, raw_server, silent_server
from tests.patience import PATIENCE_S, until
from tests.workers.conftest import HOST, START, World, dialogue
from tests.workers.gateways import Gateway, gateway
from tests.workers.stages import Crew
from tests.workers.targets import SETTINGS, Clients, move_to
from workers.metrics import STAGE_FAILURES
from workers.settings import GatewayRetry


@pytest.fixture
def server() -> Iterator[Gateway]:
    with gateway() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def target(world: World) -> GatewayTarget:
    """The default bank's gateway; nobody listens there yet."""
    return await world.hand_to(closed_port(), bank="default")


@pytest_asyncio.fixture(loop_scope="session")
async def crew(world: World, target: GatewayTarget, server: Gateway) -> AsyncIterator[Crew]:
    del target
    await move_to(world.database, server.url)
    async with Crew(world) as working:
        yield working


async def deliver(world: World, url: str, retry: GatewayRetry = GatewayRetry.UNSENT, attempts: int = 5) -> None:
    await move_to(world.database, url)
    settings = SETTINGS.model_copy(update={"retry": retry})
    async with Crew(world, settings=settings, max_attempts=attempts) as working:
        await working.drain(Stage.GATEWAY)


@asynccontextmanager
async def crew_at(world: World, url: str, timeout_s: float, **settings: Any) -> AsyncIterator[Crew]:
    """Workers whose patience with the gateway at an address is this long."""
    await move_to(world.database, url)
    told = SETTINGS.model_copy(update=settings)
    async with Crew(world, gateways=Clients(world.database, timeout_s), settings=told) as working:
        yield working


async def audits(world: World) -> list[tuple[str, dict[str, Any]]]:
    rows = await world.sql("select event, payload from afterturn.audit_event_t order by audit_id")
    return [(row.event.removeprefix("memory_gateway_"), row.payload) for row in rows]


async def error(world: World) -> tuple[str, str | None, int]:
    rows = await world.sql("""
        select status, error_category, attempts from afterturn.ledger_t where stage = 'gateway' order by position""")
    return tuple(rows[0])


async def test_a_turn_is_added_once_and_flushed_once(world: World, server: Gateway, crew: Crew) -> None:
    await world.append("s/1".replace("/", "-"), "t", messages=dialogue("Where is Anna?", "In Kyoto."))
    await crew.drain(Stage.GATEWAY)
    await crew.drain(Stage.GATEWAY)
    assert dict(server.added) == {"chat:s-1": [("Where is Anna?", "In Kyoto.")]}
    assert server.flushed == ["chat:s-1"]
    assert await world.statuses(Stage.GATEWAY) == ["flushed"]
    session = str(identity.session_id(identity.bank_id(HOST, "default"), "s-1"))
    assert await audits(world) == [
        ("add_succeeded", {"gateway_session": session, "messages": 2}),
        ("flush_succeeded", {"gateway_session": session}),
    ]


async def test_only_the_prompt_and_the_final_answer_leave(world: World, server: Gateway, crew: Crew) -> None:
    said = [
        NewMessage("system", "be kind", occurred_at=START),
        NewMessage("user", "Look it up.", occurred_at=START),
        NewMessage("user", "Quickly.", occurred_at=START),
        NewMessage("assistant", "Let me look.", occurred_at=START),
        NewMessage("tool", "row 17", occurred_at=START),
        NewMessage("assistant", "It is 42.", occurred_at=START - timedelta(hours=1)),
    ]
    await world.append(messages=said)
    await crew.drain(Stage.GATEWAY)
    assert server.added["chat:s"] == [("Look it up.\n\nQuickly.", "It is 42.")]


async def test_a_turn_without_a_prompt_or_an_answer_is_skipped(world: World, server: Gateway, crew: Crew) -> None:
    await world.append("a", "t", messages=[NewMessage("user", "Hello?")])
    await world.append("b", "t", messages=[NewMessage("assistant", "Hello!")])
    await world.append("c", "t", messages=dialogue("  ", "Yes?"))
    await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["skipped"] * 3
    assert not server.added
    rows = await world.sql("select distinct error_reason from afterturn.ledger_t where stage = 'gateway'")
    assert [row.error_reason for row in rows] == ["the turn has no user text or no final answer"]


async def test_a_turn_of_a_bank_without_a_target_opens_no_delivery(world: World) -> None:
    answer = await world.append(bank="other")
    assert not answer.delivers
    assert await world.statuses(Stage.GATEWAY) == []


@pytest.mark.law("L3")
async def test_turns_of_a_session_arrive_in_their_order_whoever_works(world: World, server: Gateway) -> None:
    for n in range(40):
        await world.append(f"s{n % 4}", f"t{n}", messages=dialogue(f"question {n}", f"answer {n}"))
    await move_to(world.database, server.url)
    crews = [Crew(world) for _ in range(4)]
    workers = [one.runner(Stage.GATEWAY) for one in crews]
    while set(await world.statuses(Stage.GATEWAY)) != {"flushed"}:
        await asyncio.gather(*(one.drain() for one in workers))
    for session in range(4):
        assert server.added[f"chat:s{session}"] == [
            (f"question {n}", f"answer {n}") for n in range(40) if n % 4 == session
        ]
    for one in crews:
        async with one:
            pass


@pytest.mark.law("L9")
@pytest.mark.parametrize(
    "reply,category",
    [
        (Response(status_code=500), "http_error"),
        (Response(status_code=401), "unauthorized"),
        (Response(status_code=429), "http_error"),
        (PlainTextResponse("<html>"), "invalid_json"),
        (JSONResponse([1]), "invalid_response"),
    ],
)
async def test_a_refused_add_is_final_and_not_flushed(
    world: World, server: Gateway, crew: Crew, reply: Response, category: str
) -> None:
    server.fault = lambda _operation, _body: reply
    await world.append()
    await crew.drain(Stage.GATEWAY)
    await world.forget_backoff()
    await crew.drain(Stage.GATEWAY)
    assert await error(world) == ("add_failed", category, 1)
    assert len(server.added["chat:s"]) == 1
    assert server.flushed == []
    event, payload = (await audits(world))[0]
    assert event == "add_failed"
    assert payload["category"] == category
    assert set(payload) <= {"gateway_session", "operation", "category", "http_status"}


@pytest.mark.law("L9")
async def test_an_add_whose_outcome_nobody_knows_is_never_repeated(world: World) -> None:
    await world.append()
    with silent_server() as (url, received):
        await deliver(world, url)
        await world.forget_backoff()
        await deliver(world, url)
    assert len(received) == 1
    assert await error(world) == ("add_unknown", "timeout", 1)
    assert [event for event, _ in await audits(world)] == ["add_unknown"]


@pytest.mark.law("L9")
async def test_a_connection_cut_after_the_request_left_is_unknown_too(world: World) -> None:
    await world.append()
    with raw_server(b"HTTP/1.1 200 OK\r\ncontent-le") as (url, received):
        await deliver(world, url)
        assert len(received) == 1
    assert await error(world) == ("add_unknown", "connection", 1)


@pytest.mark.law("L3")
async def test_what_was_never_sent_is_tried_again_in_its_place(world: World, server: Gateway) -> None:
    await world.append("s", "t1", messages=dialogue("one", "1"))
    await world.append("s", "t2", messages=dialogue("two", "2"))
    await deliver(world, closed_port())
    rows = await world.sql("select attempts from afterturn.ledger_t where stage = 'gateway' order by position")
    assert [row.attempts for row in rows] == [1, 0], "nothing overtakes the head of a session that waits"
    await deliver(world, server.url)
    assert not server.added
    await world.forget_backoff()
    await deliver(world, server.url)
    assert server.added["chat:s"] == [("one", "1"), ("two", "2")]


async def test_with_retry_never_an_unsent_add_is_final(world: World) -> None:
    await world.append()
    await deliver(world, closed_port(), GatewayRetry.NEVER)
    assert await error(world) == ("add_failed", "connection", 1)


async def test_attempts_at_a_gateway_that_is_away_come_to_an_end(world: World) -> None:
    await world.append()
    for _ in range(4):
        await deliver(world, closed_port(), attempts=3)
        await world.forget_backoff()
    assert await error(world) == ("add_failed", "connection", 3)
    assert [event for event, _ in await audits(world)] == ["attempt_failed", "attempt_failed", "add_failed"]


async def test_a_429_that_says_when_is_followed_and_is_no_attempt(world: World, server: Gateway, crew: Crew) -> None:
    """However often the gateway asks for time, at the add and at the flush."""
    calls: list[str] = []

    def busy(operation: str, _body: dict[str, Any]) -> Response | None:
        calls.append(operation)
        return Response(status_code=429, headers={"retry-after": "120"}) if calls.count(operation) < 7 else None

    server.fault = busy
    await world.append()
    await crew.drain(Stage.GATEWAY)
    rows = await world.sql("""
        select attempts, extract(epoch from next_attempt_at - now()) as wait from afterturn.ledger_t
         where stage = 'gateway'""")
    assert (rows[0].attempts, 100 < rows[0].wait < 130) == (0, True)
    for _ in range(12):
        await world.forget_backoff()
        await world.sql("update public.afterturn_gate set shut_until = clock_timestamp()")
        await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["flushed"]
    assert calls == ["add"] * 7 + ["flush"] * 7
    assert [event for event, _ in await audits(world)] == ["add_succeeded", "flush_succeeded"]


async def test_a_failed_turn_does_not_stop_the_next(world: World, server: Gateway, crew: Crew) -> None:
    server.fault = lambda operation, body: (
        Response(status_code=500) if operation == "add" and body["messages"][0]["content"] == "bad" else None
    )
    await world.append("s", "t1", messages=dialogue("bad", "1"))
    await world.append("s", "t2", messages=dialogue("good", "2"))
    await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["add_failed", "flushed"]


async def test_a_flush_that_fails_keeps_the_add(world: World, server: Gateway, crew: Crew) -> None:
    server.fault = lambda operation, _body: Response(status_code=503) if operation == "flush" else None
    await world.append()
    await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["flush_failed"]
    event, payload = (await audits(world))[-1]
    assert (event, payload["add_succeeded"], payload["http_status"]) == ("flush_failed", True, 503)


async def crash_in(world: World, status: str) -> None:
    """A worker claims the turn, commits a status and dies."""
    claims: list[Claim] = await world.ledger.claim(
        Stage.GATEWAY, streams=1, rows=1, lease=timedelta(seconds=30), worker="dead", max_attempts=5
    )
    await DeliveryWriter(world.database).step(claims[0], claims[0].rows[0].item_id, status)
    await world.expire_leases()


@pytest.mark.law("L9")
async def test_a_turn_whose_worker_died_while_adding_is_unknown_and_not_sent_again(
    world: World, server: Gateway, crew: Crew
) -> None:
    await world.append("s", "t1")
    await crash_in(world, "adding")
    await world.append("s", "t2", messages=dialogue("next", "yes"))
    await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["add_unknown", "flushed"]
    assert server.added["chat:s"] == [("next", "yes")]
    assert (await audits(world))[0][0] == "add_unknown"


async def test_a_turn_whose_worker_died_after_adding_is_only_flushed(world: World, server: Gateway, crew: Crew) -> None:
    await world.append()
    await crash_in(world, "added")
    await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["flushed"]
    assert not server.added
    assert server.flushed == ["chat:s"]


@pytest.mark.law("L9")
async def test_a_turn_whose_worker_died_while_flushing_is_not_flushed_again(
    world: World, server: Gateway, crew: Crew
) -> None:
    await world.append()
    await crash_in(world, "flushing")
    await crew.drain(Stage.GATEWAY)
    assert await error(world) == ("flush_failed", "unknown", 2)
    assert server.flushed == []


@pytest.mark.law("L9")
async def test_an_accident_after_sending_never_makes_the_turn_look_unsent(
    world: World, server: Gateway, crew: Crew
) -> None:
    """The audit table is taken away while the add is under way."""
    await world.append()
    await world.sql("revoke insert on afterturn.audit_event_t from afterturn_app")
    failures = STAGE_FAILURES.labels("gateway", "gateway")._value
    before = failures.get()
    draining = asyncio.ensure_future(crew.drain(Stage.GATEWAY))
    await until(lambda: failures.get() > before, "what became of the add cannot be written down")
    await world.sql("grant insert on afterturn.audit_event_t to afterturn_app")
    await draining
    await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["add_unknown"]
    assert len(server.added["chat:s"]) == 1


async def test_being_told_to_stop_cuts_a_hanging_call_and_leaves_it_unknown(world: World) -> None:
    await world.append()
    with raw_server(b"", linger_s=600.0) as (url, received):
        async with crew_at(world, url, 600.0, stop_seconds=0.0) as crew:
            runner = crew.runner(Stage.GATEWAY)
            draining = asyncio.ensure_future(runner.drain())
            await until(lambda: len(received) == 1, "the call is under way")
            async with asyncio.timeout(PATIENCE_S):
                await runner.stop(grace_s=0.2)
                await draining
    assert await world.sql("select 1 from afterturn.claim_t") == []
    await Crew(world).drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["add_unknown"]


async def test_being_told_to_stop_lets_a_call_end_that_takes_no_longer_than_it_may(
    world: World, server: Gateway
) -> None:
    await world.append()
    called, may_answer = threading.Event(), threading.Event()

    def slow(_operation: str, _body: dict[str, Any]) -> None:
        called.set()
        may_answer.wait(PATIENCE_S)

    server.fault = slow
    async with crew_at(world, server.url, PATIENCE_S, stop_seconds=PATIENCE_S) as crew:
        runner = crew.runner(Stage.GATEWAY)
        draining = asyncio.ensure_future(runner.drain())
        await until(called.is_set, "the call is under way")
        stopping = asyncio.ensure_future(runner.stop(grace_s=0.0))
        await asyncio.sleep(0.05)
        may_answer.set()
        await asyncio.gather(stopping, draining)
    assert await world.statuses(Stage.GATEWAY) == ["flushed"]


async def test_a_worker_has_no_more_turns_under_way_than_it_is_told(world: World) -> None:
    """Whoever kills it leaves that many outcomes unknown."""
    for session in "abc":
        await world.append(session)
    with raw_server(b"", linger_s=600.0) as (url, _received):
        async with crew_at(world, url, 600.0, at_once=2, stop_seconds=0.0) as crew:
            runner = crew.runner(Stage.GATEWAY)
            draining = asyncio.ensure_future(runner.drain())

            async def two_are_under_way() -> bool:
                return (await world.statuses(Stage.GATEWAY)).count("adding") == 2

            await until(two_are_under_way, "as many calls as may be are under way")
            async with asyncio.timeout(PATIENCE_S):
                await runner.stop(grace_s=0.0)
                await draining
    rows = await world.sql("select status, attempts from afterturn.ledger_t where stage = 'gateway' order by position")
    assert [tuple(row) for row in rows] == [("adding", 1), ("adding", 1), ("pending", 0)]
