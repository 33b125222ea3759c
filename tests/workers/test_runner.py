"""Claim, work, finish: what happens when workers are slow, wrong, killed, or several."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from numpy.typing import NDArray
from prometheus_client import REGISTRY
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.derived.unit_vectors import insert_vectors
from store.errors import LeaseLost, ResourceBusy
from store.ledger.ledger import Claim, Outcome, close_claim
from store.ledger.stages import Stage
from store.memory.turns import NewTurn, TurnStore
from tests.patience import PATIENCE_S, until
from tests.servers import TestPostgres
from tests.workers.conftest import HOST, World, dialogue, now, open_world, settings_of
from tests.workers.stages import Crew, KnownEmbedder
from workers.errors import Permanent, Transient
from workers.stage_work import ClaimSize, Worked

Hook = Callable[[Claim], Awaitable[None]]
FEW = ClaimSize(streams=4, rows=3)


async def nothing(_claim: Claim) -> None:
    return


@dataclass
class Recorder:
    """A stage that notes whose turn it was; `before` happens before its transaction."""

    database: Database
    stage: Stage = Stage.EXTRACTION
    claim_size: ClaimSize = FEW
    before: Hook = nothing
    finished: dict[UUID, list[int]] = field(default_factory=lambda: defaultdict(list))
    begun: int = 0
    late: int = 0

    async def work(self, claims: Sequence[Claim]) -> Worked:
        claim = claims[0]
        self.begun += 1
        await self.before(claim)
        outcomes = [Outcome(row.item_id) for row in claim.rows]
        try:
            async with self.database.tenant(claim.host_id) as connection:
                await close_claim(connection, claim, outcomes)
        except LeaseLost:
            self.late += 1
            raise
        self.finished[claim.stream_id] += [row.position for row in claim.rows]
        return Worked(outcomes)


async def add_tenant(world: World) -> UUID:
    other = uuid4()
    await world.sql("insert into afterturn.host_t (host_id, name) values (:host, 'other')", host=other)
    return other


def failing(error: Exception) -> Hook:
    async def fail(_claim: Claim) -> None:
        raise error

    return fail


async def rows(world: World, stage: str = "extraction") -> list[tuple[str, int, str | None, str | None]]:
    found = await world.sql(
        "select status, attempts, error_category, error_reason from afterturn.ledger_t"
        " where stage = :stage order by position",
        stage=stage,
    )
    return [tuple(row) for row in found]


@pytest.mark.law("L3")
async def test_two_workers_see_each_session_in_order_and_each_turn_once(world: World) -> None:
    expected: dict[str, list[int]] = defaultdict(list)
    for n in range(48):
        expected[f"s{n % 6}"].append((await world.append(f"s{n % 6}", f"t{n}")).position)

    async def dawdle(_claim: Claim) -> None:
        await asyncio.sleep(0.002)

    recorder = Recorder(world.database, before=dawdle)
    crew = Crew(world)
    workers = [crew.runner(Stage.EXTRACTION, recorder) for _ in range(2)]

    async def all_done() -> bool:
        await asyncio.gather(*(one.drain() for one in workers))
        return set(await world.statuses(Stage.EXTRACTION)) == {"done"}

    await until(all_done, "every turn is done")
    assert sorted(recorder.finished.values()) == sorted(expected.values())


async def test_a_full_claim_rings_before_it_works_so_that_others_join(world: World) -> None:
    for n in range(4):
        await world.append(f"s{n}", "t")
    crew = Crew(world)
    notified: list[int] = []

    async def count(_claim: Claim) -> None:
        notified.append(len(crew.notified))

    await crew.runner(Stage.EXTRACTION, Recorder(world.database, before=count)).drain()
    assert notified == [1, 1, 1, 1]


async def test_a_notification_while_a_drain_runs_makes_it_look_again(world: World) -> None:
    await world.append("s", "t0")
    crew = Crew(world)

    async def more(_claim: Claim) -> None:
        if recorder.begun == 1:
            await world.append("s", "t1")
            await runner.drain()

    recorder = Recorder(world.database, before=more)
    runner = crew.runner(Stage.EXTRACTION, recorder)
    await asyncio.gather(*(runner.drain() for _ in range(5)))
    assert await world.statuses(Stage.EXTRACTION) == ["done", "done"]


async def test_a_session_whose_turn_takes_long_keeps_no_other_waiting(world: World) -> None:
    slow = (await world.append("slow", "t")).position
    for n in range(6):
        await world.append("quick", f"t{n}")
    may_end = asyncio.Event()

    async def take_long(claim: Claim) -> None:
        if claim.rows[0].position == slow:
            await may_end.wait()

    recorder = Recorder(world.database, claim_size=ClaimSize(streams=2, rows=1), before=take_long)
    draining = asyncio.ensure_future(Crew(world).runner(Stage.EXTRACTION, recorder).drain())

    async def quick_is_done() -> bool:
        return [status for status, *_ in await rows(world)] == ["running", *["done"] * 6]

    await until(quick_is_done, "the other session is through")
    may_end.set()
    await draining
    assert set(await world.statuses(Stage.EXTRACTION)) == {"done"}


@pytest.mark.parametrize("at_once", [None, 1])
async def test_long_work_of_one_tenant_in_all_the_room_keeps_no_other_tenant_waiting(
    world: World, at_once: int | None
) -> None:
    other, may_end = await add_tenant(world), asyncio.Event()
    for n in range(8):
        await world.append(f"long {n}")

    async def take_long(claim: Claim) -> None:
        if claim.host_id == HOST:
            await may_end.wait()

    recorder = Recorder(world.database, claim_size=ClaimSize(streams=2, rows=1, at_once=at_once), before=take_long)
    runner = Crew(world).runner(Stage.EXTRACTION, recorder)
    draining = asyncio.ensure_future(runner.drain())
    await until(lambda: recorder.begun == (at_once or 2), "long work is in every place")
    await world.turns.append(other, [NewTurn("default", "s", "t", dialogue())])
    await runner.drain()

    async def others_is_done() -> bool:
        found = await world.sql(
            "select status from afterturn.ledger_t where stage = 'extraction' and host_id = :host", host=other
        )
        return [row.status for row in found] == ["done"]

    await until(others_is_done, "the other tenant's turn is through")
    assert "done" not in [status for status, *_ in (await rows(world))[:8]]
    may_end.set()
    await draining
    await runner.stop(grace_s=PATIENCE_S)
    assert set(await world.statuses(Stage.EXTRACTION)) == {"done"}


async def test_a_notification_is_answered_while_its_work_goes_on(world: World) -> None:
    await world.append()
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def take_long(_claim: Claim) -> None:
        begun.set()
        await may_end.wait()

    runner = Crew(world).runner(Stage.EXTRACTION, Recorder(world.database, before=take_long))
    runner.notification_wait_s = 0.0
    await runner.drain()
    await begun.wait()
    may_end.set()
    await runner.stop(grace_s=PATIENCE_S)
    assert await world.statuses(Stage.EXTRACTION) == ["done"]


@pytest.mark.parametrize("ahead", [timedelta(), timedelta(hours=1), timedelta(hours=-1)])
async def test_an_accident_is_told_by_its_class_alone_and_tried_again_soon_whatever_a_workers_clock_says(
    world: World, ahead: timedelta
) -> None:
    await world.append()
    crew = Crew(world, clock=lambda: now() + ahead)
    recorder = Recorder(world.database, before=failing(ValueError("what was said")))
    await crew.runner(Stage.EXTRACTION, recorder).drain()
    assert await rows(world) == [("pending", 1, "internal", "ValueError")]
    wait = await world.sql("""
        select extract(epoch from next_attempt_at - now()) as s from afterturn.ledger_t where stage = 'extraction'""")
    assert 30 < wait[0].s < 90


async def test_attempts_come_to_an_end_and_the_turn_is_projected_all_the_same(world: World) -> None:
    await world.append()
    crew = Crew(world, max_attempts=2)
    recorder = Recorder(world.database, before=failing(Transient("upstream", "it is away")))
    for _ in range(4):
        await crew.runner(Stage.EXTRACTION, recorder).drain()
        await world.forget_backoff()
    assert recorder.begun == 2
    assert await rows(world) == [("dead", 2, "upstream", "it is away")]
    await crew.drain(Stage.PROJECTION)
    assert await world.statuses(Stage.PROJECTION) == ["done"]


async def test_what_can_never_go_well_is_dead_at_once(world: World) -> None:
    await world.append()
    recorder = Recorder(world.database, before=failing(Permanent("input", "not a turn")))
    await Crew(world).runner(Stage.EXTRACTION, recorder).drain()
    assert await rows(world) == [("dead", 1, "input", "not a turn")]


async def test_one_bad_turn_among_others_ends_alone(world: World) -> None:
    positions = [(await world.append("s", f"t{n}")).position for n in range(3)]

    async def choke(claim: Claim) -> None:
        if any(row.position == positions[1] for row in claim.rows):
            raise Permanent("input", "not a turn")

    recorder = Recorder(world.database, before=choke)
    crew = Crew(world)
    for _ in range(4):
        await crew.runner(Stage.EXTRACTION, recorder).drain()
        await world.forget_backoff()
    assert [status for status, *_ in await rows(world)] == ["done", "dead", "done"]


async def test_a_turn_that_kills_its_worker_ends_in_quarantine_and_takes_nobody_along(world: World) -> None:
    """Attempts are counted before the work, so dying counts; the process dies without a word each time."""
    positions = [(await world.append("s", f"t{n}")).position for n in range(3)]
    finished: list[int] = []
    for _ in range(12):
        claims = await world.ledger.claim(
            Stage.EXTRACTION, streams=4, rows=3, lease=timedelta(seconds=30), worker="w", max_attempts=3
        )
        for claim in claims:
            if any(row.position == positions[0] for row in claim.rows):
                await world.expire_leases()
                continue
            async with world.database.tenant(HOST) as connection:
                await close_claim(connection, claim, [Outcome(row.item_id) for row in claim.rows])
            finished += [row.position for row in claim.rows]
    assert finished == positions[1:]
    assert (await rows(world))[0][:3] == ("dead", 3, "exhausted")


@dataclass
class Watching(KnownEmbedder):
    """Notes at each call how many connections are lent."""

    database: Database | None = None
    lent: list[int] = field(default_factory=list)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        assert self.database is not None
        pools = (self.database._app.pool, self.database._operator.pool)
        self.lent.append(sum(pool.checkedout() for pool in pools))  # type: ignore[attr-defined]  # a queue pool's own
        return await super().embed(texts)


@pytest.mark.law("L10")
async def test_slow_work_holds_no_connection(fresh_database: TestPostgres) -> None:
    """Appends go on while an embedder takes its time, and whenever it is asked every connection is given back."""
    world = await open_world(fresh_database, pool_size=1)
    await world.append("s", "t0")
    embedder = Watching(may_end=asyncio.Event(), database=world.database)
    crew = Crew(world, embedder)
    working = asyncio.ensure_future(crew.drain(Stage.EMBEDDING))
    await crew.embedder.begun.wait()
    narrow = Database(settings_of(fresh_database, 1))
    turns = TurnStore(narrow, now)
    async with asyncio.timeout(PATIENCE_S):
        for n in range(10):
            await turns.append(HOST, [NewTurn("default", "s", f"more{n}", dialogue())])
    assert not working.done()
    crew.embedder.may_end.set()
    await working
    assert embedder.lent == [0] * len(embedder.batches)
    await narrow.close()
    await world.database.close()


@pytest.mark.law("L2")
async def test_a_tenant_whose_vectors_cannot_be_written_now_has_no_other_embedded_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, lost = list[UUID](), leases_lost()

    async def only_the_first(connection: AsyncConnection, host: UUID, *about: Any) -> None:
        hosts.append(host)
        if host != hosts[0]:
            raise ResourceBusy("held")
        await insert_vectors(connection, host, *about)

    other = await add_tenant(world)
    for host in (HOST, other):
        await world.turns.append(host, [NewTurn("default", "s", "t", dialogue())])
    monkeypatch.setattr("workers.embedding.insert_vectors", only_the_first)
    await Crew(world).drain(Stage.EMBEDDING)
    found = await world.sql("select * from afterturn.ledger_t where stage = 'embedding'")
    states = {row.host_id: (row.status, row.attempts, row.next_attempt_at > now()) for row in found}
    assert states == {hosts[0]: ("done", 1, False), hosts[1]: ("pending", 0, True)}
    assert len(hosts) == 2
    assert leases_lost() == lost


def leases_lost() -> float:
    return REGISTRY.get_sample_value("afterturn_stage_leases_lost_total", {"stage": "embedding"}) or 0.0
