"""Deliveries under anything that can happen to a worker and to a gateway: never twice, in order, and told as it was."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

import httpx
import hypothesis.strategies as st
import orjson
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from store.errors import LeaseLost
from store.ledger.deliveries import DeliveryWriter
from store.ledger.ledger import Claim, Outcome
from store.ledger.stages import Stage
from tests.examples import examples
from tests.patience import until
from tests.servers import TestPostgres
from tests.workers.conftest import World, dialogue, open_world, turn_uuid
from tests.workers.loops import LoopThread, loop_thread
from tests.workers.stages import retry_policy
from tests.workers.targets import SETTINGS, Clients
from tests.workers.test_ledger_machine import TABLES, jump
from workers.gateway import GatewayStage

SESSIONS = ("a", "b")
UNDONE = {"pending", "running", "adding", "added", "flushing"}
#: Where a worker may be stopped: before and after each thing it does for a delivery.
PLACES = tuple(
    f"{when} {what}"
    for what in ("step adding", "call add", "step flushing", "call flush", "end")
    for when in ("before", "after")
)
#: What a gateway may do with a call; only the last two leave it undone for certain.
ANSWERS = ("ok", "ok", "cut", "500", "garbage", "refused", "429")
STOPPED = """
    select l.turn_id, l.session_id, l.status,
           array(select a.event from afterturn.audit_event_t a where a.turn_id = l.turn_id) as events
      from afterturn.ledger_t l where l.stage = 'gateway' order by l.position"""


class Killed(BaseException):
    """The process is gone: whatever would have come after this does not come."""


@dataclass
class Fate:
    """What happens to one worker: killed or put to sleep at a place, or neither; how the gateway answers it."""

    place: str = ""
    kills: bool = False
    answers: Mapping[str, str] = field(default_factory=dict)
    asleep: asyncio.Event = field(default_factory=asyncio.Event)
    awake: asyncio.Event = field(default_factory=asyncio.Event)

    async def at(self, place: str) -> None:
        if place != self.place:
            return
        if self.kills:
            raise Killed
        self.asleep.set()
        await self.awake.wait()

    @asynccontextmanager
    async def around(self, what: str) -> AsyncIterator[None]:
        await self.at(f"before {what}")
        yield
        await self.at(f"after {what}")


#: That of the worker who calls.
FATE: ContextVar[Fate] = ContextVar("fate")


@dataclass
class Recording(httpx.AsyncBaseTransport):
    """A gateway that notes each call, then answers as the caller's fate says; `added` are texts, `flushed` sessions."""

    added: list[tuple[str, str]] = field(default_factory=list)
    flushed: Counter[str] = field(default_factory=Counter)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        operation, body = request.url.path.rpartition("/")[2], orjson.loads(await request.aread())
        fate = FATE.get()
        async with fate.around(f"call {operation}"):
            answer = fate.answers.get(operation, "ok")
            if answer == "refused":
                raise httpx.ConnectError("refused")
            if answer != "429":
                self._take(operation, body)
        if answer == "cut":
            raise httpx.ReadError("cut")
        told: dict[str, Any] = {"500": {"status_code": 500}, "garbage": {"status_code": 200, "text": "?"}}
        told["429"] = {"status_code": 429, "headers": {"retry-after": "1"}}
        return httpx.Response(**told.get(answer, {"status_code": 200, "json": {}}))

    def _take(self, operation: str, body: Mapping[str, Any]) -> None:
        session = body["session_id"].removeprefix("chat:default/")
        if operation == "add":
            self.added.append((session, body["messages"][0]["content"]))
        else:
            self.flushed[session] += 1


class Stopped(DeliveryWriter):
    """Deliveries of a worker that may be stopped around each write."""

    def __init__(self, world: World, fate: Fate) -> None:
        super().__init__(world.database)
        self._fate = fate

    async def step(self, claim: Claim, item: UUID, status: str, *told: Any) -> None:
        async with self._fate.around(f"step {status}"):
            await super().step(claim, item, status, *told)

    async def end(self, claim: Claim, outcome: Outcome, *told: Any) -> None:
        async with self._fate.around("end"):
            await super().end(claim, outcome, *told)


@dataclass(frozen=True)
class Bench:
    """Where a machine runs: a database that is emptied before each run."""

    world: World
    loop: LoopThread
    gateway: Recording
    clients: Clients


class DeliveryMachine(RuleBasedStateMachine):
    """Workers deliver turns of two sessions; they die or sleep at any place, and the gateway does what it likes."""

    bench: ClassVar[Bench]

    def __init__(self) -> None:
        super().__init__()
        self.world, self.run = self.bench.world, self.bench.loop.run
        self.gateway = self.bench.gateway
        self.gateway.added.clear()
        self.gateway.flushed.clear()
        self.sleeping: list[tuple[asyncio.Task[None], Fate]] = []
        self.turns: dict[UUID, tuple[str, str]] = {}
        self.ended: dict[UUID, str] = {}
        self.run(self.world.sql(f"truncate {TABLES} cascade"))
        self.run(self.world.hand_to("http://gateway.test"))
        for session in SESSIONS * 2:
            self.append(session)

    @rule(session=st.sampled_from(SESSIONS))
    def append(self, session: str) -> None:
        text = f"turn {len(self.turns)}"
        self.run(self.world.append(session, text, messages=dialogue(text)))
        self.turns[turn_uuid(session, text)] = session, text

    @rule(add=st.sampled_from(ANSWERS), flush=st.sampled_from(ANSWERS))
    def work(self, add: str, flush: str) -> None:
        self.run(self._work(answers={"add": add, "flush": flush}))

    @rule(place=st.sampled_from(PLACES), over=st.booleans())
    def work_and_die(self, place: str, over: bool) -> None:  # noqa: FBT001 - hypothesis passes by name
        """Kill a worker somewhere; perhaps others see at once that its lease is over."""
        self.run(self._work(place, kills=True))
        if over:
            self.clock_jumps(2)

    @rule(place=st.sampled_from(PLACES), over=st.booleans())
    def work_and_sleep(self, place: str, over: bool) -> None:  # noqa: FBT001 - hypothesis passes by name
        """Stop a worker somewhere; perhaps others take over while it sleeps."""
        self.run(self._work(place))
        if over:
            self.clock_jumps(2)
            self.run(self._work())

    @precondition(lambda self: self.sleeping)
    @rule(data=st.data())
    def wake(self, data: st.DataObject) -> None:
        """Let one go on that slept, perhaps past its lease."""
        number = data.draw(st.integers(0, len(self.sleeping) - 1))
        self.run(self._wake(number))

    @rule(hours=st.sampled_from((-2, 2)))
    def clock_jumps(self, hours: int) -> None:
        """Let leases and pauses end, or last."""
        self.run(jump(self.world, timedelta(hours=hours)))

    @invariant()
    def nothing_is_sent_twice_and_all_is_told_as_it_was(self) -> None:
        self.run(self._check())

    def teardown(self) -> None:
        """Whatever happened, every turn comes to an end with a gateway that is well."""
        self.run(self._drained())

    async def _work(self, place: str = "", *, kills: bool = False, answers: Mapping[str, str] | None = None) -> int:
        claims = await self.world.ledger.claim(
            Stage.GATEWAY, streams=1, rows=1, lease=timedelta(hours=1), worker="w", max_attempts=3
        )
        for claim in claims:
            fate = Fate(place, kills, answers or {})
            task = asyncio.ensure_future(self._deliver(claim, fate))
            asleep = asyncio.ensure_future(fate.asleep.wait())
            await asyncio.wait({task, asleep}, return_when=asyncio.FIRST_COMPLETED)
            if asleep.done():
                self.sleeping.append((task, fate))
            else:
                asleep.cancel()
                await task
        return len(claims)

    async def _deliver(self, claim: Claim, fate: Fate) -> None:
        FATE.set(fate)
        deliveries = Stopped(self.world, fate)
        stage = GatewayStage(
            self.world.database, deliveries, self.bench.clients, SETTINGS, retry_policy(3), lambda: 0.0
        )
        with suppress(Killed, LeaseLost):
            await stage.work([claim])

    async def _wake(self, number: int) -> None:
        task, fate = self.sleeping.pop(number)
        fate.awake.set()
        await task

    async def _check(self) -> None:
        rows = await self.world.sql(STOPPED)
        added = Counter(self.gateway.added)
        for row in rows:
            sent, events = added[self.turns[row.turn_id]], Counter(row.events)
            assert sent <= (row.status not in {"pending", "running", "dead"}), row
            # Of what may be repeated, every failed attempt is told; of the rest, each thing once.
            assert max((n for event, n in events.items() if event != "attempt_failed"), default=0) <= 1, row
            confirmed = row.status in {"added", "flushing", "flushed", "flush_failed"}
            assert events["memory_gateway_add_succeeded"] == confirmed <= sent, row
            assert events["memory_gateway_flush_succeeded"] == (row.status == "flushed"), row
            assert events["memory_gateway_add_unknown"] == (row.status == "add_unknown"), row
            assert self.ended.get(row.turn_id, row.status) == row.status, row
            if row.status not in UNDONE:
                self.ended[row.turn_id] = row.status
        self._check_sessions({self.turns[row.turn_id]: row.status for row in rows})

    def _check_sessions(self, statuses: Mapping[tuple[str, str], str]) -> None:
        """An add whose outcome nobody knows may arrive late; nobody can call it back."""
        order: defaultdict[str, list[int]] = defaultdict(list)
        for session, text in self.gateway.added:
            if statuses[session, text] != "add_unknown":
                order[session].append(int(text.removeprefix("turn ")))
        assert all(texts == sorted(texts) for texts in order.values()), order
        assert self.gateway.flushed <= Counter(session for session, _ in self.gateway.added)

    async def _drained(self) -> None:
        while self.sleeping:
            await self._wake(0)

        async def all_ended() -> bool:
            await jump(self.world, timedelta(hours=2))
            while await self._work():
                pass
            return not UNDONE & {row.status for row in await self.world.sql(STOPPED)}

        # A gateway that asked for a second gets it by a clock that does not jump.
        await until(all_ended, "each delivery ends")
        await self._check()


@pytest.fixture
def bench(servers: tuple[TestPostgres, object]) -> Iterator[Bench]:
    with loop_thread() as loop:
        database = loop.run(servers[0].create("delivery_machine"))
        world = loop.run(open_world(database))
        gateway = Recording()
        clients = Clients(world.database, transport=gateway)
        yield Bench(world, loop, gateway, clients)
        loop.run(clients.aclose())
        loop.run(world.database.close())
        loop.run(database.drop())


@pytest.mark.law("L9")
def test_whatever_happens_to_workers_and_gateway_a_delivery_is_made_once_at_most_and_told_as_it_was(
    bench: Bench,
) -> None:
    DeliveryMachine.bench = bench
    run_state_machine_as_test(
        DeliveryMachine,
        settings=settings(
            max_examples=examples(5),
            stateful_step_count=40,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
