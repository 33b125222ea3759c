"""The ledger under anything workers can do to it: once, in order, and never more attempts than allowed."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text

from store.errors import LeaseLost
from store.ledger.ledger import Claim, Outcome, close_claim
from store.ledger.stages import Stage
from tests.examples import examples
from tests.servers import TestPostgres
from tests.workers.conftest import HOST, World, open_world
from tests.workers.loops import LoopThread, loop_thread

MAX_ATTEMPTS = 3
SESSIONS = ("a", "b")
STAGES = (Stage.EXTRACTION, Stage.EMBEDDING)
TABLES = ", ".join(
    f"afterturn.{name}"
    for name in (
        "ledger_t",
        "claim_t",
        "audit_event_t",
        "turn_t",
        "event_store_t",
        "unit_word_t",
        "posting_t",
        "agent_memory_bank_t",
    )
)


EFFECT = text("insert into afterturn.audit_event_t (host_id, event, turn_id) values (:host, :event, :turn)")
EFFECTS = text("""
    select l.stage, l.session_id, l.turn_id, l.position, l.status, l.attempts, count(a.audit_id) as effects,
           max(a.audit_id) as nth
      from afterturn.ledger_t l
      left join afterturn.audit_event_t a on a.turn_id = l.turn_id and a.event = 'effect_' || l.stage
     where l.stage in ('extraction', 'embedding')
     group by 1, 2, 3, 4, 5, 6 order by l.position""")


@dataclass(frozen=True)
class Bench:
    """Where a machine runs: a database that is emptied before each run."""

    world: World
    loop: LoopThread


async def operate(world: World, statement: str) -> None:
    async with world.database.operator() as connection:
        await connection.execute(text(statement))


async def jump(world: World, time: timedelta) -> None:
    """Let the database's clock be so much later, as seen from all that was written by it."""
    await world.sql("update afterturn.claim_t set lease_until = lease_until - cast(:time as interval)", time=time)
    await world.sql(
        """update afterturn.ledger_t set next_attempt_at = next_attempt_at - cast(:time as interval)
            where next_attempt_at < 'infinity'""",
        time=time,
    )


class LedgerMachine(RuleBasedStateMachine):
    """Workers of two stages claim, finish, fail, die, wake up late; notifications are lost or come twice; clocks jump.

    Effects are audit rows, written in the transaction that closes the claim.
    """

    bench: ClassVar[Bench]

    def __init__(self) -> None:
        super().__init__()
        self.claims: list[Claim] = []
        self.notifications: list[Stage] = []
        self.turns = 0
        self.world, self.run = self.bench.world, self.bench.loop.run
        self.run(self.world.sql(f"truncate {TABLES} cascade"))
        for session in SESSIONS * 2:
            self.append(session)

    @rule(session=st.sampled_from(SESSIONS))
    def append(self, session: str) -> None:
        self.turns += 1
        self.run(self.world.append(session, f"t{self.turns}"))
        self.notifications += STAGES

    @precondition(lambda self: self.notifications)
    @rule(data=st.data(), rows=st.integers(1, 3), again=st.booleans())
    def notification_arrives(self, data: st.DataObject, rows: int, again: bool) -> None:  # noqa: FBT001 - hypothesis passes by name
        """Claim for a notification, which may come once more."""
        stage = data.draw(st.sampled_from(self.notifications))
        if not again:
            self.notifications.remove(stage)
        self.claims += self.run(self._claim(stage, rows))

    @precondition(lambda self: self.notifications)
    @rule(data=st.data())
    def notification_is_lost(self, data: st.DataObject) -> None:
        self.notifications.remove(data.draw(st.sampled_from(self.notifications)))

    @rule()
    def sweep(self) -> None:
        """Notify of all that could be claimed now, so that no earlier notification is ever needed."""
        ready = self.run(self.world.ledger.find_ready_stages())
        self.notifications += [stage for stage in STAGES if stage in ready]
        for stage in STAGES:
            assert stage in ready or not self.run(self._claim(stage, 1))

    @rule(hours=st.sampled_from((-2, 2)))
    def clock_jumps(self, hours: int) -> None:
        """Move the database's clock: leases end early or late, as does waiting; a worker's own decides nothing."""
        self.run(jump(self.world, timedelta(hours=hours)))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), keep=st.booleans())
    def finish(self, data: st.DataObject, keep: bool) -> None:  # noqa: FBT001 - hypothesis passes by name
        """Finish a claim, perhaps not for the first time, perhaps long after it was lost."""
        claim = data.draw(st.sampled_from(self.claims))
        if not keep:
            self.claims.remove(claim)
        self.run(self._finish(claim))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), part=st.integers(1, 3))
    def finish_partly(self, data: st.DataObject, part: int) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        self.claims.remove(claim)
        self.run(self._finish(claim, part))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), dead=st.booleans())
    def fail(self, data: st.DataObject, dead: bool) -> None:  # noqa: FBT001 - hypothesis passes by name
        """End rows for good, or put them off for minutes."""
        claim = data.draw(st.sampled_from(self.claims))
        self.claims.remove(claim)
        status, wait = ("dead", None) if dead else ("pending", timedelta(minutes=10))
        outcomes = [Outcome(row.item_id, status, "test", "told to", wait) for row in claim.rows]
        self.run(self.world.ledger.end([claim], outcomes))

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        self.claims.remove(claim)
        self.run(self.world.ledger.release([claim]))

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        self.run(self.world.ledger.renew([data.draw(st.sampled_from(self.claims))], timedelta(hours=1)))

    @rule()
    def leases_run_out(self) -> None:
        """As after kill -9, or a pause: the claims stay in hand, and may be finished late."""
        self.run(operate(self.world, "update claim_t set lease_until = now() - interval '1 second'"))

    @invariant()
    def every_effect_is_there_once_and_in_order_and_attempts_are_bounded(self) -> None:
        self.run(self._check())

    async def _claim(self, stage: Stage, rows: int) -> list[Claim]:
        return await self.world.ledger.claim(
            stage, streams=2, rows=rows, lease=timedelta(hours=1), worker="w", max_attempts=MAX_ATTEMPTS
        )

    async def _finish(self, claim: Claim, part: int | None = None) -> None:
        rows = claim.rows[:part]
        try:
            async with self.world.database.tenant(HOST) as connection:
                for row in rows:
                    effect = {"host": HOST, "event": f"effect_{claim.stage}", "turn": row.turn_id}
                    await connection.execute(EFFECT, effect)
                await close_claim(connection, claim, [Outcome(row.item_id) for row in rows])
        except LeaseLost:
            return

    async def _check(self) -> None:
        async with self.world.database.tenant(HOST) as connection:
            found = (await connection.execute(EFFECTS)).all()
        last: dict[UUID, int] = defaultdict(int)
        for row in found:
            assert row.effects == (row.status == "done"), row
            assert (row.status != "pending") <= row.attempts <= MAX_ATTEMPTS, row
            if row.stage == Stage.EXTRACTION and row.nth is not None:
                assert row.nth > last[row.session_id], row
                last[row.session_id] = row.nth

    def teardown(self) -> None:
        """Whatever happened, honest workers who hear of the sweeper alone bring every row to an end."""
        self.run(self._drained())

    async def _drained(self) -> None:
        for _ in range(60):
            await jump(self.world, timedelta(hours=2))
            for stage in set(await self.world.ledger.find_ready_stages()) & set(STAGES):
                for claim in await self._claim(stage, 4):
                    await self._finish(claim)
            async with self.world.database.operator() as connection:
                left = await connection.scalar(
                    text("select count(*) from ledger_t where undone and stage in ('extraction', 'embedding')")
                )
            if not left:
                return
        raise AssertionError(f"{left} rows never ended")


@pytest.fixture
def bench(servers: tuple[TestPostgres, object]) -> Iterator[Bench]:
    with loop_thread() as loop:
        database = loop.run(servers[0].create("ledger_machine"))
        world = loop.run(open_world(database))
        yield Bench(world, loop)
        loop.run(world.database.close())
        loop.run(database.drop())


@pytest.mark.law("L2")
def test_whatever_workers_do_each_turn_has_its_effect_once_and_in_order(bench: Bench) -> None:
    LedgerMachine.bench = bench
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=examples(6),
            stateful_step_count=50,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
