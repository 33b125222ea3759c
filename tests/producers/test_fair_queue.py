"""Fair scheduling: while another tenant has work none gets more than its share, and a tenant alone is not held back."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis.strategies import data, integers, lists, sampled_from

from producers import fair_queue
from producers.errors import Overloaded
from producers.fair_queue import (
    ACTIVE_S,
    BYTES_A_UNIT,
    CURRENT,
    DEMAND_S,
    LESS_BUSY,
    RECALL_WEIGHT,
    UNITS_WAITING,
    FairQueue,
    QueuedCall,
    Slot,
    weight_of,
)
from producers.settings import ApiSettings, FairnessSettings
from store.identity import host_id
from tests.patience import PATIENCE_S, until
from tests.producers.conftest import broker_of, build
from tests.servers import TestPostgres, TestValkey

ANA, BEN, EVE = (UUID(int=n) for n in range(1, 4))
SMALL = FairnessSettings(units=8, share=4, wait_seconds=0.05, queue_calls=20)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Crowd:
    """Tenants that make calls; `started` are those that were let in, in order."""

    def __init__(self, settings: FairnessSettings = FairnessSettings()) -> None:  # noqa: B008 - frozen
        self.clock = Clock()
        self.queue = FairQueue(settings, self.clock)
        self.started: list[QueuedCall] = []
        self.running: list[QueuedCall] = []

    def call(self, host: UUID, weight: int = 1) -> QueuedCall:
        made = QueuedCall(host, weight, lambda: None)
        made.start = lambda: self._begin(made)
        self.queue.offer(made)
        return made

    def _begin(self, call: QueuedCall) -> None:
        self.started.append(call)
        self.running.append(call)

    def end(self, call: QueuedCall) -> None:
        self.running.remove(call)
        self.queue.withdraw(call)

    def units(self, host: UUID) -> int:
        share = self.queue.settings.share
        return sum(min(call.weight, share) for call in self.running if call.host == host)


def test_a_tenant_alone_has_all_units_and_a_thousand_calls_in_a_row_start_at_once() -> None:
    crowd = Crowd()
    for _ in range(1000):
        assert crowd.call(ANA).running
        crowd.end(crowd.running[0])
    writers = [crowd.call(ANA, weight_of(20_000)) for _ in range(16)]
    assert all(one.running for one in writers)
    assert crowd.units(ANA) == crowd.queue.settings.units


def test_another_tenants_call_starts_at_once_however_much_one_has_under_way_and_waiting() -> None:
    crowd = Crowd()
    for _ in range(200):
        crowd.call(ANA, RECALL_WEIGHT)
    assert crowd.units(ANA) == crowd.queue.settings.units
    assert [crowd.call(BEN, RECALL_WEIGHT).running for _ in range(2)] == [True, True]


def test_while_another_tenant_is_active_a_tenant_comes_down_to_its_share_and_grows_again_after_it() -> None:
    crowd = Crowd()
    for _ in range(200):
        crowd.call(ANA, RECALL_WEIGHT)
    crowd.clock.now += 0.1
    ben = crowd.call(BEN)
    for _ in range(20):
        crowd.end(next(call for call in crowd.running if call.host == ANA))
    assert crowd.units(ANA) == crowd.queue.settings.share
    crowd.end(ben)
    crowd.end(next(call for call in crowd.running if call.host == ANA))
    assert crowd.units(ANA) == crowd.queue.settings.share
    crowd.clock.now += ACTIVE_S
    crowd.end(next(call for call in crowd.running if call.host == ANA))
    assert crowd.units(ANA) == crowd.queue.settings.units


def test_who_asks_for_more_than_the_others_has_a_share_and_who_asks_for_less_has_three() -> None:
    crowd = Crowd()
    for _ in range(200):
        crowd.call(ANA, RECALL_WEIGHT)
    for _ in range(5):
        crowd.call(BEN, RECALL_WEIGHT)
    assert crowd.units(BEN) == LESS_BUSY * crowd.queue.settings.share
    for _ in range(20):
        crowd.end(next(call for call in crowd.running if call.host == ANA))
    assert crowd.units(ANA) == crowd.queue.settings.share
    # Ben asks for more than Ana now, and is the one who has a single share.
    for _ in range(250):
        crowd.call(BEN, RECALL_WEIGHT)
    for _ in range(20):
        crowd.end(next(call for call in crowd.running if call.host == BEN))
    assert crowd.units(BEN) == crowd.queue.settings.share
    crowd.end(next(call for call in crowd.running if call.host == ANA))
    assert crowd.units(ANA) == LESS_BUSY * crowd.queue.settings.share


def test_a_few_calls_that_take_long_are_no_smaller_demand_than_many_that_soon_end() -> None:
    """Ana starts 4 calls, which go on; Ben, whose 10 calls a second end at once, is not held back for their number."""
    crowd = Crowd()
    for _ in range(4):
        crowd.call(ANA, RECALL_WEIGHT)
    for _ in range(10):
        crowd.end(crowd.call(BEN, RECALL_WEIGHT))
        crowd.clock.now += 0.1
    limits = crowd.queue._compute_limits()
    assert (limits[ANA], limits[BEN]) == (crowd.queue.settings.share, LESS_BUSY * crowd.queue.settings.share)


def test_a_large_answer_is_work_of_its_tenant() -> None:
    crowd = Crowd()
    slot = Slot(crowd.queue, ANA, RECALL_WEIGHT)
    crowd.queue.offer(slot._call)
    for _ in range(6):
        crowd.call(BEN, RECALL_WEIGHT)
    assert crowd.units(BEN) == crowd.queue.settings.share
    slot.charge(2**22)
    crowd.end(crowd.running[-1])
    assert crowd.units(BEN) == LESS_BUSY * crowd.queue.settings.share


def test_what_was_asked_for_fades() -> None:
    crowd = Crowd()
    for _ in range(30):
        crowd.end(crowd.call(ANA, RECALL_WEIGHT))
    crowd.clock.now += 5 * DEMAND_S
    calls = [crowd.call(host, RECALL_WEIGHT) for host in (BEN, BEN, BEN, ANA, ANA)]
    assert [call.running for call in calls] == [True] * 5


def test_a_heavy_call_counts_a_share_and_is_not_overtaken_by_light_ones_for_ever() -> None:
    crowd = Crowd(SMALL)
    crowd.call(ANA, 4)
    crowd.call(BEN, 4)
    heavy = crowd.call(EVE, 1000)
    others = [uuid4() for _ in range(30)]
    light = [crowd.call(host) for host in others]
    assert not heavy.running
    assert not any(one.running for one in light)
    crowd.end(crowd.running[0])
    assert heavy.running
    assert crowd.units(EVE) == 4


def test_a_queue_that_is_full_refuses_its_own_tenant_alone() -> None:
    crowd = Crowd(SMALL)
    crowd.call(BEN)
    for _ in range(4 + SMALL.queue_calls):
        crowd.call(ANA)
    with pytest.raises(Overloaded, match=r"20 of its calls wait already \(fairness\.queue_calls\)"):
        crowd.call(ANA)
    assert crowd.call(BEN).running


def test_large_bodies_fill_a_queue_before_many_of_them_fill_the_memory() -> None:
    crowd = Crowd(FairnessSettings(queue_calls=100_000))
    crowd.call(BEN)
    largest = weight_of(ApiSettings().max_request_bytes)
    with pytest.raises(Overloaded):
        for _ in range(10_000):
            crowd.call(ANA, largest)
    waiting = sum(call.weight for call in crowd.queue._tenants[ANA].waiting)
    assert UNITS_WAITING - largest < waiting <= UNITS_WAITING


def test_tenants_that_are_gone_are_forgotten() -> None:
    crowd = Crowd()
    for _ in range(50):
        crowd.end(crowd.call(uuid4()))
        crowd.clock.now += 2 * ACTIVE_S
    assert len(crowd.queue._tenants) == 1


@given(lists(integers(0, 4), min_size=1, max_size=120), data())
def test_whatever_comes_and_ends_shares_are_kept_order_is_kept_and_no_room_is_left_empty(
    steps: list[int], more: Any
) -> None:
    crowd, hosts = Crowd(SMALL), [ANA, BEN, EVE]
    made: dict[UUID, list[QueuedCall]] = {host: [] for host in hosts}
    for step in steps:
        before = {host: crowd.units(host) for host in hosts}
        if step < 3:
            host = hosts[step]
            if len(crowd.queue._find_tenant(host).waiting) < SMALL.queue_calls:
                made[host].append(crowd.call(host, more.draw(sampled_from([1, 2, 4, 9]))))
        elif step == 3 and crowd.running:
            crowd.end(more.draw(sampled_from(crowd.running)))
        else:
            crowd.clock.now += 0.4
        for host in hosts:
            units = crowd.units(host)
            assert units <= SMALL.units
            if crowd.queue.is_contended(host):
                assert units <= max(2 * SMALL.share, before[host])
            started = [call for call in crowd.started if call.host == host]
            assert started == made[host][: len(started)]
    # Whatever is left comes to its end, and nothing waits while there is room for it.
    while crowd.running:
        crowd.end(crowd.running[0])
    assert len(crowd.started) == sum(map(len, made.values()))


async def test_a_call_over_its_share_begins_when_another_of_its_tenant_ends() -> None:
    queue = FairQueue(FairnessSettings(units=8, share=4))
    ben, first, second = Slot(queue, BEN, 1), Slot(queue, ANA, 4), Slot(queue, ANA, 4)
    await ben.take()
    await first.take()
    waiting = asyncio.create_task(second.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    first.give_back()
    await asyncio.wait_for(waiting, PATIENCE_S)
    second.give_back()
    second.give_back()
    assert queue._tenants[ANA].running == 0


async def test_a_call_that_waited_its_time_is_refused_and_leaves_no_trace() -> None:
    queue = FairQueue(SMALL)
    await Slot(queue, BEN, 1).take()
    await Slot(queue, ANA, 4).take()
    with pytest.raises(Overloaded, match=r"fairness\.wait_seconds"):
        await Slot(queue, ANA, 1).take()
    assert not queue._tenants[ANA].waiting
    assert queue._tenants[ANA].units_waiting == 0


async def test_a_tenant_alone_is_never_refused_for_the_time_it_waits() -> None:
    queue = FairQueue(SMALL)
    first = Slot(queue, ANA, 4), Slot(queue, ANA, 4)
    for one in first:
        await one.take()
    waiting = asyncio.create_task(Slot(queue, ANA, 1).take())
    await asyncio.sleep(5 * SMALL.wait_seconds)
    assert not waiting.done()
    first[0].give_back()
    await asyncio.wait_for(waiting, PATIENCE_S)


async def test_a_call_that_is_cancelled_while_it_waits_waits_no_more() -> None:
    queue = FairQueue(FairnessSettings(units=8, share=4))
    await Slot(queue, BEN, 1).take()
    await Slot(queue, ANA, 4).take()
    waiting = asyncio.create_task(Slot(queue, ANA, 1).take())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not queue._tenants[ANA].waiting


async def test_who_sleeps_holds_no_slot() -> None:
    queue = FairQueue(FairnessSettings(units=8, share=4))
    slot = Slot(queue, ANA, 4)
    await slot.take()
    CURRENT.set(slot)
    sleeping = asyncio.create_task(fair_queue.sleep_without_slot(0.02))
    await until(lambda: queue._tenants[ANA].running == 0, "the slot is given back")
    await sleeping
    assert queue._tenants[ANA].running == 4
    fair_queue.give_back()
    assert queue._tenants[ANA].running == 0


async def test_without_a_slot_a_sleep_is_a_sleep() -> None:
    CURRENT.set(None)
    fair_queue.give_back()
    await fair_queue.sleep_without_slot(0)


def busy(queue: FairQueue, host: UUID, weight: int) -> Callable[[], None]:
    """Have a tenant work; returns what ends it."""
    call = QueuedCall(host, weight, lambda: None)
    queue.offer(call)
    assert call.running
    return lambda: queue.withdraw(call)


async def test_over_http_a_call_over_its_share_is_refused_with_retry_after_and_others_are_served(
    postgres: TestPostgres, valkey: TestValkey, turn: dict[str, Any]
) -> None:
    fair = FairQueue(SMALL)
    world = build(postgres, broker_of(valkey.url, f"fair-{uuid4().hex}"), settings=ApiSettings(), fair=fair)
    ana, ben = await world.tenant(), await world.tenant()
    end = busy(fair, host_id(ana.host), 4), busy(fair, host_id(ben.host), 1)
    for path, body in (("recall", {"query": "who?"}), ("turns", turn)):
        refused = await ana.http.post(f"/api/v1/{path}", json=body)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        error = refused.json()["error"]
        assert (error["code"], error["retryable"]) == ("RATE_LIMITED", True)
        assert "fairness.wait_seconds" in error["message"]
    assert (await ben.http.post("/api/v1/turns", json=turn)).status_code == 201
    end[0]()
    assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
    end[1]()
    assert not any(tenant.running or tenant.waiting for tenant in fair._tenants.values())
    for tenant in (ana, ben):
        await tenant.http.aclose()
    await world.close()


async def test_over_http_a_recall_weighs_no_less_than_its_body(postgres: TestPostgres, valkey: TestValkey) -> None:
    fair = FairQueue(FairnessSettings(), lambda: 0.0)
    world = build(postgres, broker_of(valkey.url, f"fair-{uuid4().hex}"), settings=ApiSettings(), fair=fair)
    ana = await world.tenant()
    for size, weight in ((10, RECALL_WEIGHT), (20 * BYTES_A_UNIT, weight_of(20 * BYTES_A_UNIT))):
        fair._tenants.clear()
        refused = await ana.http.post("/api/v1/recall", json={"query": "who?", "unknown": "x" * size})
        assert refused.status_code == 422
        assert weight <= fair._tenants[host_id(ana.host)].served < weight + 1
    await ana.http.aclose()
    await world.close()


async def test_over_http_texts_that_were_read_for_a_short_answer_are_work_of_its_tenant(
    postgres: TestPostgres, valkey: TestValkey
) -> None:
    fair = FairQueue(FairnessSettings(), lambda: 0.0)
    world = build(postgres, broker_of(valkey.url, f"fair-{uuid4().hex}"), settings=ApiSettings(), fair=fair)
    ana = await world.tenant()
    long = ("Ana met Boris in Porto. " * 11_000)[:256_000]
    for turn_id in ("1", "2"):
        messages = [{"role": "user", "content": f"{turn_id} {long}"}]
        body = {"session_id": "s", "turn_id": turn_id, "messages": messages}
        assert (await ana.http.post("/api/v1/turns", json=body)).status_code == 201
    said = [{"type": "message", "role": "user", "content": "Whom did Ana meet?"}]
    before = {"session_id": "s", "turn_id": "3", "current_input": said, "max_input_tok": 200}
    # The session's history is read beside the recall's texts.
    for path, asked, texts in (
        ("recall", {"query": "Whom did Ana meet?", "max_tokens": 200}, 2),
        ("turns/before", {**before, "min_position": 1}, 4),
    ):
        fair._tenants.clear()
        answer = await ana.http.post(f"/api/v1/{path}", json=asked)
        assert answer.is_success, answer.text
        assert len(answer.content) < BYTES_A_UNIT
        assert fair._tenants[host_id(ana.host)].served > texts * len(long) / BYTES_A_UNIT
    await ana.http.aclose()
    await world.close()


async def test_over_http_calls_that_wait_for_a_position_or_a_job_hold_no_slot(
    postgres: TestPostgres, valkey: TestValkey, turn: dict[str, Any]
) -> None:
    fair = FairQueue(FairnessSettings(units=8, share=4))
    world = build(postgres, broker_of(valkey.url, f"fair-{uuid4().hex}"), settings=ApiSettings(), fair=fair)
    ana, ben = await world.tenant(), await world.tenant()
    end = busy(fair, host_id(ben.host), 1)
    position = (await ana.http.post("/api/v1/turns", json=turn)).json()["position"]
    job = (await ana.http.post("/api/v1/recall/jobs", json={"query": "who?"})).json()["job_id"]
    waits = [f"/api/v1/freshness?bank=default&position={position}&wait_ms=10000"] * 6
    waits += [f"/api/v1/recall/jobs/{job}?wait_ms=10000"] * 6

    async def wait_again_and_again(path: str) -> None:
        while (reply := await ana.http.get(path)).is_success:
            pass
        raise AssertionError(reply.text)

    waiting = [asyncio.create_task(wait_again_and_again(path)) for path in waits]
    tenant = fair._tenants[host_id(ana.host)]
    most = 0
    for n in range(20):
        await asyncio.sleep(0.01)
        assert (await ana.http.post("/api/v1/turns", json={**turn, "turn_id": f"while waiting {n}"})).status_code == 201
        most = max(most, tenant.running)
    assert most <= fair.settings.share
    assert not any(one.done() for one in waiting)
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    end()
    for one_tenant in (ana, ben):
        await one_tenant.http.aclose()
    await world.close()
