"""The ledger: work is handed out under leases, in order, once, and ends in one way or another."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from store.database import Database
from store.errors import LeaseLost
from store.ledger.deliveries import DeliveryWriter
from store.ledger.ledger import Claim, Ledger, Outcome, close_claim, lock_held_claims
from store.ledger.stages import READY_AT_ONCE, Stage
from store.memory.turns import Appended, NewTurn, TurnStore
from tests.client.loopback import closed_port
from tests.store.conftest import NOON, new_host, rows, turn
from tests.workers.targets import hand_to

LEASE = timedelta(seconds=30)
# Columns that an index names, be it in its condition.
INDEXED = text("""
    select distinct a.attname
      from pg_index i
      join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.refobjid = i.indrelid
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = d.refobjsubid
     where i.indrelid = 'afterturn.ledger_t'::regclass""")


async def accepted(database: Database, host: UUID, turns: Sequence[NewTurn]) -> list[int]:
    answers = await TurnStore(database, lambda: NOON).append(host, turns)
    return [a.position for a in answers if isinstance(a, Appended)]


async def claimed(
    ledger: Ledger, stage: Stage, *, streams: int = 10, rows: int = 10, attempts: int = 5, lease: timedelta = LEASE
) -> list[Claim]:
    return await ledger.claim(stage, streams=streams, rows=rows, lease=lease, worker="w", max_attempts=attempts)


async def finished(database: Database, claim: Claim) -> None:
    async with database.tenant(claim.host_id) as connection:
        await close_claim(connection, claim, [Outcome(row.item_id) for row in claim.rows])


@pytest.fixture
async def host(lonely: Database) -> UUID:
    return await new_host(lonely)


@pytest.mark.law("L3")
async def test_a_claim_holds_the_first_rows_of_a_session_in_the_order_of_acceptance(
    lonely: Database, ledger: Ledger, host: UUID
) -> None:
    positions = await accepted(lonely, host, [turn(f"t{n}") for n in range(5)])
    [claim] = await claimed(ledger, Stage.EXTRACTION, rows=3)
    assert [row.position for row in claim.rows] == positions[:3]
    assert [row.attempts for row in claim.rows] == [1, 1, 1]


@pytest.mark.law("L3")
async def test_a_claimed_session_is_given_to_nobody_else_and_others_are(
    lonely: Database, ledger: Ledger, host: UUID
) -> None:
    await accepted(lonely, host, [turn("t1"), turn("t2"), turn("t3", session="s2")])
    [first] = await claimed(ledger, Stage.EXTRACTION, streams=1, rows=1)
    [second] = await claimed(ledger, Stage.EXTRACTION)
    assert {first.stream_id, second.stream_id} == {r.session_id for c in (first, second) for r in c.rows}
    assert await claimed(ledger, Stage.EXTRACTION) == []


@pytest.mark.law("L3")
async def test_nothing_overtakes_a_turn_that_waits_for_its_next_attempt(
    lonely: Database, ledger: Ledger, host: UUID
) -> None:
    await accepted(lonely, host, [turn("t1"), turn("t2")])
    [claim] = await claimed(ledger, Stage.EXTRACTION)
    later = timedelta(hours=1)
    assert await ledger.end([claim], [Outcome(claim.rows[0].item_id, "pending", "timeout", "slow", later)])
    assert await claimed(ledger, Stage.EXTRACTION) == []


async def test_unordered_work_goes_on_beside_a_row_that_waits(lonely: Database, ledger: Ledger, host: UUID) -> None:
    await accepted(lonely, host, [turn("t1"), turn("t2")])
    first, second = await claimed(ledger, Stage.EMBEDDING)
    await ledger.release([second])
    later = timedelta(hours=1)
    assert await ledger.end([first], [Outcome(first.rows[0].item_id, "pending", "busy", "try later", later)])
    [again] = await claimed(ledger, Stage.EMBEDDING)
    assert again.rows[0].item_id == second.rows[0].item_id


@pytest.mark.law("L2")
async def test_a_late_finisher_changes_nothing(lonely: Database, ledger: Ledger, host: UUID) -> None:
    await accepted(lonely, host, [turn("t1")])
    [late] = await claimed(ledger, Stage.EXTRACTION, lease=timedelta(0))
    [now] = await claimed(ledger, Stage.EXTRACTION)
    assert now.epoch > late.epoch
    async with lonely.tenant(host) as connection:
        with pytest.raises(LeaseLost):
            await lock_held_claims(connection, [late])
    with pytest.raises(LeaseLost):
        await finished(lonely, late)
    assert not await ledger.end([late], [Outcome(late.rows[0].item_id, "dead", "x", "y")])
    await finished(lonely, now)
    assert await rows(lonely, host, "select status, attempts from ledger_t where stage = 'extraction'") == [("done", 2)]


@pytest.mark.law("L2")
async def test_the_result_of_a_late_finisher_is_rolled_back_with_its_claim(
    lonely: Database, ledger: Ledger, host: UUID
) -> None:
    await accepted(lonely, host, [turn("t1")])
    [late] = await claimed(ledger, Stage.EXTRACTION, lease=timedelta(0))
    await claimed(ledger, Stage.EXTRACTION)
    with pytest.raises(LeaseLost):
        async with lonely.tenant(host) as connection:
            await connection.execute(text("update agent_memory_unit_t set context = 'late'"))
            await close_claim(connection, late, [Outcome(late.rows[0].item_id)])
    assert await rows(lonely, host, "select context from agent_memory_unit_t") == [(None,)]


async def test_a_renewed_lease_is_not_taken_over(lonely: Database, ledger: Ledger, host: UUID) -> None:
    await accepted(lonely, host, [turn("t1")])
    [claim] = await claimed(ledger, Stage.EXTRACTION, lease=timedelta(milliseconds=200))
    assert await ledger.renew([claim], LEASE) == {claim.epoch}
    assert await claimed(ledger, Stage.EXTRACTION) == []
    await finished(lonely, claim)
    assert await ledger.renew([claim], LEASE) == set()


@pytest.mark.law("L1")
async def test_a_row_that_kills_its_worker_again_and_again_ends_in_quarantine_with_a_reason(
    lonely: Database, ledger: Ledger, host: UUID
) -> None:
    await accepted(lonely, host, [turn("t1"), turn("t2")])
    for _ in range(3):
        [claim] = await claimed(ledger, Stage.EXTRACTION, rows=1, attempts=3, lease=timedelta(0))
    assert claim.rows[0].attempts == 3
    assert await claimed(ledger, Stage.EXTRACTION, rows=1, attempts=3) == []
    [next_one] = await claimed(ledger, Stage.EXTRACTION, rows=1, attempts=3)
    assert next_one.rows[0].turn_id != claim.rows[0].turn_id
    dead = "select status, error_category, error_reason <> '' from ledger_t where item_id = :item and stage = :stage"
    assert await rows(lonely, host, dead, item=claim.rows[0].item_id, stage="extraction") == [
        ("dead", "exhausted", True)
    ]


@pytest.mark.parametrize("status", ["done", "dead"])
async def test_a_projection_begins_when_the_extraction_of_its_turn_has_ended_either_way(
    lonely: Database, ledger: Ledger, host: UUID, status: str
) -> None:
    await accepted(lonely, host, [turn("t1")])
    assert await claimed(ledger, Stage.PROJECTION) == []
    [claim] = await claimed(ledger, Stage.EXTRACTION)
    assert await ledger.end([claim], [Outcome(claim.rows[0].item_id, status, "x", "y")])
    [projection] = await claimed(ledger, Stage.PROJECTION)
    assert projection.stream_id == projection.rows[0].bank_id


async def test_an_intermediate_status_survives_the_death_of_its_worker(
    lonely: Database, ledger: Ledger, host: UUID
) -> None:
    await hand_to(lonely, host, closed_port())
    await accepted(lonely, host, [turn("t1", gateway=True)])
    [claim] = await claimed(ledger, Stage.GATEWAY, lease=timedelta(seconds=1))
    await DeliveryWriter(lonely).step(claim, claim.rows[0].item_id, "adding")
    async with lonely.operator() as connection:
        await connection.execute(text("update afterturn.claim_t set lease_until = now()"))
    [again] = await claimed(ledger, Stage.GATEWAY)
    assert again.rows[0].status == "adding"


async def test_the_ledger_rings_for_work_that_is_ready_and_held_by_nobody(
    lonely: Database, ledger: Ledger, host: UUID
) -> None:
    assert await ledger.find_ready_stages() == []
    await accepted(lonely, host, [turn("t1")])
    assert await ledger.find_ready_stages() == list(READY_AT_ONCE)
    claims = [claim for stage in READY_AT_ONCE for claim in await claimed(ledger, stage)]
    assert await ledger.find_ready_stages() == []
    await ledger.release(claims)
    assert await ledger.find_ready_stages() == list(READY_AT_ONCE)


async def test_counts_and_gauges_agree_on_what_is_undone(lonely: Database, ledger: Ledger, host: UUID) -> None:
    await accepted(lonely, host, [turn(f"t{n}") for n in range(3)])
    [claim] = await claimed(ledger, Stage.EXTRACTION, rows=1)
    await finished(lonely, claim)
    counts, gauges = await ledger.counts(), await ledger.gauges()
    assert counts[Stage.EXTRACTION].counts == {
        "pending": 2,
        "running": 0,
        "done": 1,
        "skipped": 0,
        "unknown": 0,
        "dead": 0,
    }
    assert counts[Stage.GATEWAY].counts["skipped"] == 3
    assert counts[Stage.EXTRACTION].oldest_undone_s > 0
    for stage in Stage:
        for status in ("pending", "running", "dead"):
            assert gauges[stage].counts[status] == counts[stage].counts[status]


async def test_claims_are_handed_out_over_all_hosts(lonely: Database, ledger: Ledger, host: UUID) -> None:
    other = await new_host(lonely)
    await accepted(lonely, host, [turn("t1")])
    await accepted(lonely, other, [turn("t1")])
    assert {c.host_id for c in await claimed(ledger, Stage.EXTRACTION)} == {host, other}


async def test_the_oldest_work_is_handed_out_first(lonely: Database, ledger: Ledger, host: UUID) -> None:
    positions = await accepted(lonely, host, [turn(f"t{n}", session=f"s{n}") for n in range(6)])
    claims = await claimed(ledger, Stage.EXTRACTION, streams=3)
    assert sorted(c.rows[0].position for c in claims) == positions[:3]


async def test_no_index_of_the_ledger_names_what_is_written_while_a_row_is_worked_on(lonely: Database) -> None:
    """One that did would have every claim and every step of a delivery rewritten in all of them."""
    async with lonely.operator() as connection:
        indexed = set((await connection.execute(INDEXED)).scalars())
    assert {"stage", "undone", "failed_at"} <= indexed
    assert not {"status", "attempts", "updated_at", "error_category", "error_reason"} & indexed


async def test_the_turns_of_a_claim_weigh_no_more_than_it_says_and_it_has_a_row_all_the_same(
    lonely: Database, ledger: Ledger, host: UUID
) -> None:
    given = await accepted(lonely, host, [turn(f"t{n}", "x" * 1000, session=f"s{n // 4}") for n in range(8)])

    async def weighing(most: int) -> list[list[int]]:
        claims = await ledger.claim(
            Stage.EXTRACTION, streams=9, rows=9, lease=LEASE, worker="w", max_attempts=5, most_bytes=most
        )
        assert all(row.attempts == 1 for claim in claims for row in claim.rows)
        for claim in claims:
            await finished(lonely, claim)
        return sorted([row.position for row in claim.rows] for claim in claims)

    assert await weighing(1) == [given[:1]]
    # One of each session before the second of any.
    assert await weighing(3500) == [given[1:3], given[4:5]]
    assert await weighing(10_000) == [given[3:4], given[5:]]


async def test_what_a_claim_has_no_room_for_is_not_held(lonely: Database, ledger: Ledger, host: UUID) -> None:
    given = await accepted(lonely, host, [turn(f"t{n}", session=f"s{n}") for n in range(3)])
    # The oldest first, whatever the ids of their sessions.
    for position in given:
        [one] = await ledger.claim(
            Stage.EXTRACTION, streams=9, rows=9, lease=LEASE, worker="w", max_attempts=5, most_bytes=1
        )
        assert [row.position for row in one.rows] == [position]
