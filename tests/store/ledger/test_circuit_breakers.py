"""Gates before somebody else's service: when they shut, who looks whether it is back, how fast they let through."""

import asyncio
import itertools
from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy import text

from store.database import Database
from store.database_gauges import read_database_sample
from store.ledger.circuit_breakers import Gate, GatePolicy, gate_name

POLICY = GatePolicy(threshold=3, cooldown_s=60.0)


@pytest.fixture
def name() -> str:
    return gate_name("test", uuid4().hex)


def gates(database: Database, name: str, policy: GatePolicy = POLICY, count: int = 2) -> list[Gate]:
    """The same gate as several processes see it; none believes anything for long."""
    return [Gate(database, name, policy, clock=_Leaping()) for _ in range(count)]


class _Leaping:
    """A clock on which everything believed is old at once."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1000.0
        return self.now


async def cool(database: Database, name: str) -> None:
    async with database.call() as connection:
        await connection.execute(
            text("update public.afterturn_gate set shut_until = clock_timestamp() where gate = :gate"), {"gate": name}
        )


async def fail(gate: Gate, times: int) -> None:
    for _ in range(times):
        await gate.report(well=False)


async def test_a_gate_shuts_after_failures_in_a_row_for_all_processes(database: Database, name: str) -> None:
    one, other = gates(database, name)
    await fail(one, 2)
    assert (await other.enter()).granted
    await fail(other, 1)
    for gate in (one, other):
        passage = await gate.enter()
        assert not passage.granted
        assert 30 < passage.wait_s <= 60
        assert gate.failing


async def test_calls_that_begin_together_ask_once_where_there_is_no_rate(
    database: Database, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, lend = itertools.count(), database.call
    monkeypatch.setattr(database, "call", lambda: (next(asked), lend())[1])
    gate = Gate(database, name, POLICY, clock=lambda: 0.0)
    passages = await asyncio.gather(*(gate.enter() for _ in range(8)))
    assert [passage.granted for passage in passages] == [True] * 8
    assert next(asked) == 1


async def test_an_open_breaker_of_a_gateway_is_counted_until_it_closes_or_nobody_tries(database: Database) -> None:
    async def count_open() -> int:
        return (await read_database_sample(database, breaker_failures=POLICY.threshold)).open_breakers

    before, gateway = await count_open(), gate_name("gateway", uuid4().hex)
    [gate] = gates(database, gateway, count=1)
    await fail(gate, 2)
    assert await count_open() == before
    await fail(gate, 1)
    assert await count_open() == before + 1
    await fail(gates(database, gate_name("model", uuid4().hex), count=1)[0], 3)
    await cool(database, gateway)
    assert await count_open() == before + 1
    await gate.report(well=True)
    assert await count_open() == before
    await fail(gate, 3)
    async with database.call() as connection:
        await connection.execute(
            text("update public.afterturn_gate set shut_until = now() - interval '5 minutes' where gate = :gate"),
            {"gate": gateway},
        )
    assert await count_open() == before


async def test_a_success_between_failures_keeps_the_gate_open(database: Database, name: str) -> None:
    one, _ = gates(database, name)
    await fail(one, 2)
    await one.enter()
    await one.report(well=True)
    await fail(one, 2)
    assert (await one.enter()).granted


async def test_when_the_time_is_over_one_caller_alone_looks(database: Database, name: str) -> None:
    one, other = gates(database, name)
    await fail(one, 3)
    await cool(database, name)
    passages = await asyncio.gather(*(gate.enter() for gate in (one, other) * 4))
    assert [passage.probing for passage in passages if passage.granted] == [True]
    assert all(passage.wait_s > 30 for passage in passages if not passage.granted)


async def test_a_look_that_goes_well_opens_the_gate_and_one_that_fails_shuts_it(database: Database, name: str) -> None:
    one, other = gates(database, name)
    await fail(one, 3)
    await cool(database, name)
    assert (await one.enter()).probing
    await one.report(well=False)
    assert not (await other.enter()).granted
    await cool(database, name)
    assert (await other.enter()).probing
    await other.report(well=True)
    passage = await one.enter()
    assert (passage.granted, passage.probing, passage.failures) == (True, False, 0)


async def test_a_pause_the_service_asked_for_is_kept_by_all_and_is_no_failure(database: Database, name: str) -> None:
    one, other = gates(database, name)
    await one.report(well=True, pause_s=20.0)
    passage = await other.enter()
    assert not passage.granted
    assert 0 < passage.wait_s <= 20
    await cool(database, name)
    assert not (await other.enter()).probing


async def test_a_rate_lets_a_burst_through_and_then_one_at_a_time(database: Database, name: str) -> None:
    one, other = gates(database, name, GatePolicy(rate=0.005, burst=4.0))
    passages = [await gate.enter(patience_s=500.0) for gate in (one, other) * 5]
    waits = [passage.wait_s for passage in passages if passage.granted]
    assert waits[:4] == [0.0] * 4
    assert 6 <= len(waits) <= 8, "what comes within the patience is lent, the rest is refused"
    assert waits == sorted(waits)
    assert waits[-1] <= 500.0
    assert all(passage.wait_s > 500.0 for passage in passages if not passage.granted)


async def test_gates_of_other_services_know_nothing_of_it(database: Database, name: str) -> None:
    one, _ = gates(database, name)
    await fail(one, 3)
    elsewhere = Gate(database, gate_name("test", "elsewhere", uuid4().hex), POLICY)
    assert (await elsewhere.enter()).granted


async def test_an_open_gate_without_a_rate_is_not_asked_for_every_call(database: Database, name: str) -> None:
    now = 0.0
    gate = Gate(database, name, POLICY, clock=lambda: now)
    other = Gate(database, name, replace(POLICY, threshold=1))
    await gate.enter()
    await other.report(well=False)
    assert (await gate.enter()).granted
    now = 2.0
    assert not (await gate.enter()).granted
    assert gate.at_most(16) == 0
    now = 70.0
    assert gate.at_most(16) == 16, "three failures are its own threshold"


def test_a_name_tells_address_and_user_apart_and_shows_neither() -> None:
    names = {gate_name("gateway", *pair) for pair in (("ab", "c"), ("a", "bc"), ("ab", "d"))}
    assert len(names) == 3
    assert all(len(name) == len("gateway:") + 32 for name in names)
