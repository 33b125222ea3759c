"""A gateway that fails is left alone, one that asks for time gets it, and no turn pays for either."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
import pytest_asyncio
from starlette.responses import Response

from deploy.components.gateways import create_gateway_recall
from producers.service.gateway_recall import GatewayQuestion
from store.ledger.circuit_breakers import Gate, GatePolicy
from store.ledger.ledger import Claim
from store.ledger.stages import Stage
from store.tenancy.gateway_targets import GatewayTargets
from tests.client.loopback import closed_port, silence
from tests.workers.conftest import HOST, World, dialogue, now
from tests.workers.gateways import Gateway, gateway
from tests.workers.stages import Crew
from tests.workers.targets import SETTINGS, Clients, move_to
from workers.stage_work import ClaimSize, StageWork, Worked

MakeCrew = Callable[..., Awaitable[Crew]]


@pytest.fixture
def server() -> Iterator[Gateway]:
    with gateway() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def crew_at(world: World) -> AsyncIterator[MakeCrew]:
    """Workers of one target, whose gateway is at a URL: each has clients and a sight of the gate of its own."""
    clients = []
    await world.hand_to(closed_port(), bank="default")

    async def make(url: str, policy: GatePolicy | None = None) -> Crew:
        await move_to(world.database, url)
        clients.append(Clients(world.database, policy=policy or GatePolicy(threshold=3, cooldown_s=60.0)))
        return Crew(world, gateways=clients[-1])

    yield make
    for one in clients:
        await one.aclose()


async def ledger(world: World) -> list[tuple[str, int, float]]:
    """Status, attempts and seconds to wait of every turn, in order."""
    rows = await world.sql("""
        select status, attempts, greatest(0, extract(epoch from next_attempt_at - now()))::float8 as wait
          from afterturn.ledger_t where stage = 'gateway' order by position""")
    return [tuple(row) for row in rows]


async def conversations(world: World, count: int) -> None:
    for n in range(count):
        await world.append(f"s{n}", "t", messages=dialogue(f"question {n}", f"answer {n}"))


@dataclass
class Counted:
    """A stage of which it is counted how many claims it is given."""

    inner: StageWork
    claims: int = 0

    @property
    def stage(self) -> Stage:
        return self.inner.stage

    @property
    def claim_size(self) -> ClaimSize:
        return self.inner.claim_size

    async def work(self, claims: Sequence[Claim]) -> Worked:
        self.claims += len(claims)
        return await self.inner.work(claims)


async def gate(crew: Crew) -> Gate:
    """The gate before the one target, as these workers see it."""
    [target] = await GatewayTargets(crew.world.database).sealed()
    assert crew.gateways is not None
    return crew.gateways.gate(target)


async def come_back(world: World) -> None:
    await world.forget_backoff()
    await world.sql("update public.afterturn_gate set shut_until = clock_timestamp()")


async def test_a_gateway_that_fails_is_left_alone_and_the_turns_wait_untried(
    world: World, server: Gateway, crew_at: MakeCrew
) -> None:
    server.fault = lambda _operation, _body: Response(status_code=500)
    await conversations(world, 3)
    crew = await crew_at(server.url)
    await crew.drain(Stage.GATEWAY)
    assert [row[:2] for row in await ledger(world)] == [("add_failed", 1)] * 3
    await conversations(world, 10)
    await crew.drain(Stage.GATEWAY)
    await (await crew_at(server.url)).drain(Stage.GATEWAY)
    rows = (await ledger(world))[3:]
    assert [row[:2] for row in rows] == [("pending", 0)] * 7, "ten sessions, of which three turns were there before"
    assert len(server.added) == 3
    assert all(30 < wait < 65 or wait == 0 for _, _, wait in rows)


async def test_one_turn_looks_whether_the_gateway_is_back_and_then_all_go(
    world: World, server: Gateway, crew_at: MakeCrew
) -> None:
    server.fault = lambda _operation, _body: Response(status_code=500)
    await conversations(world, 3)
    crews = [await crew_at(server.url) for _ in range(2)]
    await crews[0].drain(Stage.GATEWAY)
    for n in range(8):
        await world.append(f"later {n}", "t", messages=dialogue(f"question {n}", f"answer {n}"))
    await come_back(world)
    await asyncio.gather(*(crew.drain(Stage.GATEWAY) for crew in crews))
    assert len(server.added) == 4, "one looked, and failed"
    server.fault = lambda _operation, _body: None
    for _ in range(3):
        await come_back(world)
        await asyncio.gather(*[(await crew_at(server.url)).drain(Stage.GATEWAY) for _ in range(2)])
    statuses = await world.statuses(Stage.GATEWAY)
    assert (statuses.count("add_failed"), statuses.count("flushed")) == (4, 7)


async def test_a_gateway_that_is_away_for_long_costs_no_turn_its_attempts(
    world: World, server: Gateway, crew_at: MakeCrew
) -> None:
    await conversations(world, 4)
    crew = await crew_at(closed_port())
    for _ in range(12):
        await crew.drain(Stage.GATEWAY)
        await come_back(world)
    rows = await ledger(world)
    assert {status for status, _, _ in rows} == {"pending"}
    assert sum(attempts for _, attempts, _ in rows) <= 3, "only those that shut the gate were attempts"
    for _ in range(2):
        await come_back(world)
        await (await crew_at(server.url)).drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["flushed"] * 4


@pytest.mark.law("L3")
async def test_turns_keep_their_order_while_the_gateway_comes_and_goes(
    world: World, server: Gateway, crew_at: MakeCrew
) -> None:
    for n in range(12):
        await world.append(f"s{n % 2}", f"t{n}", messages=dialogue(f"question {n}", f"answer {n}"))
    away = closed_port()
    for turn in range(40):
        url = away if turn % 3 else server.url
        await (await crew_at(url, GatePolicy(threshold=2, cooldown_s=60.0))).drain(Stage.GATEWAY)
        await come_back(world)
        if set(await world.statuses(Stage.GATEWAY)) == {"flushed"}:
            break
    for session in range(2):
        asked = [user for user, _ in server.added[f"chat:s{session}"]]
        assert asked == [f"question {n}" for n in range(12) if n % 2 == session]


@pytest.mark.law("L9")
async def test_an_unknown_outcome_while_looking_is_not_repeated(
    world: World, server: Gateway, crew_at: MakeCrew
) -> None:
    await conversations(world, 1)
    crew = await crew_at(server.url, GatePolicy(threshold=1, cooldown_s=60.0))
    await (await gate(crew)).report(well=False)
    await come_back(world)
    with silence() as server.fault:
        await (await crew_at(server.url, GatePolicy(threshold=1, cooldown_s=60.0))).drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["add_unknown"]
    server.fault = lambda _operation, _body: None
    await come_back(world)
    await (await crew_at(server.url)).drain(Stage.GATEWAY)
    assert len(server.added["chat:s0"]) == 1


async def test_a_flush_waits_too_when_the_gateway_goes_away_after_the_add(
    world: World, server: Gateway, crew_at: MakeCrew
) -> None:
    await conversations(world, 1)
    await world.sql("update afterturn.ledger_t set status = 'added' where stage = 'gateway'")
    crew = await crew_at(server.url, GatePolicy(threshold=1, cooldown_s=60.0))
    await (await gate(await crew_at(server.url, GatePolicy(threshold=1, cooldown_s=60.0)))).report(well=False)
    await crew.drain(Stage.GATEWAY)
    assert [row[:2] for row in await ledger(world)] == [("added", 0)]
    await come_back(world)
    await (await crew_at(server.url)).drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["flushed"]
    assert not server.added
    assert server.flushed == ["chat:s0"]


async def test_a_429_makes_every_worker_wait_as_long_as_it_says(
    world: World, server: Gateway, crew_at: MakeCrew
) -> None:
    server.fault = lambda _operation, _body: Response(status_code=429, headers={"retry-after": "120"})
    await conversations(world, 1)
    await (await crew_at(server.url)).drain(Stage.GATEWAY)
    await world.append("another", "t", messages=dialogue("question", "answer"))
    await (await crew_at(server.url)).drain(Stage.GATEWAY)
    assert list(server.added) == ["chat:s0"]
    rows = await ledger(world)
    assert [row[:2] for row in rows] == [("pending", 0), ("pending", 0)]
    assert all(60 < wait < 125 for _, _, wait in rows)


async def test_a_rate_is_kept_by_all_workers_together(world: World, server: Gateway, crew_at: MakeCrew) -> None:
    await conversations(world, 12)
    policy = GatePolicy(rate=8.0, burst=2.0)
    begun = time.monotonic()
    await asyncio.gather(*[(await crew_at(server.url, policy)).drain(Stage.GATEWAY) for _ in range(3)])
    assert await world.statuses(Stage.GATEWAY) == ["flushed"] * 12
    assert time.monotonic() - begun >= (12 - 2) / 8.0 - 0.1


async def test_what_would_wait_long_for_its_turn_is_put_off_and_not_counted(
    world: World, server: Gateway, crew_at: MakeCrew
) -> None:
    await conversations(world, 3)
    crew = await crew_at(server.url, GatePolicy(rate=0.05, burst=1.0))
    crew.clock = lambda: now() + timedelta(hours=1)  # the wait is counted by the database's
    await crew.drain(Stage.GATEWAY)
    rows = await ledger(world)
    assert sorted(row[:2] for row in rows) == [("flushed", 1), ("pending", 0), ("pending", 0)]
    assert all(row[2] < 60 for row in rows)


async def test_each_target_has_a_gate_of_its_own_though_the_address_is_one(world: World) -> None:
    url = closed_port()
    targets = [await world.hand_to(url, bank=bank, project=bank) for bank in ("a", "b")]
    policy = GatePolicy(threshold=1, cooldown_s=60.0)
    here, there = Clients(world.database, policy=policy), Clients(world.database, policy=policy)
    await here.gate(targets[0]).report(well=False)
    assert not (await there.gate(targets[0]).enter()).granted
    assert (await there.gate(targets[1]).enter()).granted


async def test_what_waits_for_a_gateway_that_is_shut_off_is_not_claimed_turn_by_turn(
    world: World, server: Gateway, crew_at: MakeCrew
) -> None:
    """All that is ready waits with the first one, and the turns of another target go on."""
    crew = await crew_at(server.url, GatePolicy(threshold=1, cooldown_s=60.0))
    await (await gate(crew)).report(well=False)
    await world.hand_to(server.url, bank="other", project="other")
    await conversations(world, 30)
    await world.append("t", "t", bank="other")
    counted = Counted(crew.work(Stage.GATEWAY))
    await crew.runner(Stage.GATEWAY, counted).drain()
    assert list(server.added) == ["chat:t"]
    waits = await world.sql("""
        select attempts, next_attempt_at > now() + interval '30 seconds' as late from afterturn.ledger_t
         where stage = 'gateway' and status = 'pending'""")
    assert [tuple(row) for row in waits] == [(0, True)] * 30
    assert counted.claims <= SETTINGS.at_once + 1


async def test_recalls_that_a_gateway_is_too_slow_for_keep_no_turn_from_it(world: World, server: Gateway) -> None:
    target = await world.hand_to(server.url, bank="default")
    settings = SETTINGS.model_copy(update={"breaker_failures": 1})
    recall = create_gateway_recall(settings, world.database, 1.0)
    question = GatewayQuestion(HOST, "default", "s0", "Where is Anna?", 3, target.target_id)
    answering = server.server.answer
    with silence() as nothing_said:
        server.server.answer = lambda seen: nothing_said(seen) or Response()
        assert [(await recall.find(question)).category for _ in range(2)] == ["timeout", "circuit_open"]
    server.server.answer = answering
    await recall.close()
    await conversations(world, 1)
    policy = GatePolicy(threshold=1)
    async with Crew(world, gateways=Clients(world.database, policy=policy)) as crew:
        await crew.drain(Stage.GATEWAY)
    assert await world.statuses(Stage.GATEWAY) == ["flushed"]
