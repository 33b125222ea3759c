"""What is put away, what stays, and that the rest of the house does not notice."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from asyncpg.exceptions import DeadlockDetectedError
from structlog.testing import capture_logs

from store import identity
from store.erasure import Erasures, ErasureTarget, Kind, Receipt
from store.errors import StatementTimeout, TurnConflict
from store.ledger.stages import Stage
from store.maintenance import ExpiryTask, FoundBank, PrunedBatch, Pruning
from store.memory.turns import Appended, NewMessage, NewTurn
from store.recall.jobs import RecallJobs
from store.replay import ReplayScope, swap_tables, verify_log
from tests.workers.conftest import BANK, HOST, World, dialogue, now, turn_uuid
from tests.workers.gateways import gateway
from tests.workers.maintenance.conftest import Yard
from tests.workers.stages import Crew
from workers.settings import MaintenanceSettings

DAY = timedelta(days=1)
ROWS = "select count(*) as n from afterturn.ledger_t"


async def status(world: World, turn: str) -> object:
    return await world.turns.status(HOST, "default", "s", turn)


async def worked_off(yard: Yard, turns: int = 3) -> None:
    for n in range(turns):
        await yard.world.append(turn=f"t{n}")
    async with Crew(yard.world) as crew:
        await crew.drain()
    yard.ahead = 8 * DAY


async def test_done_turns_leave_the_ledger_and_their_status_and_the_counts_stay_what_they_were(yard: Yard) -> None:
    await worked_off(yard)
    before = [await status(yard.world, f"t{n}") for n in range(3)], await yard.world.ledger.counts()
    assert await yard.by_hand("ledger") > 0
    assert (await yard.world.sql(ROWS))[0].n == 0
    assert ([await status(yard.world, f"t{n}") for n in range(3)], await yard.world.ledger.counts()) == before
    assert await yard.by_hand("ledger") == 0


async def test_a_models_readings_of_a_turn_leave_with_it_and_are_counted_as_before(yard: Yard) -> None:
    await worked_off(yard, 1)
    await yard.world.sql(
        """
        insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position,
                                        status, accepted_at)
        select host_id, 'enrichment', :item, session_id, bank_id, session_id, turn_id, position, 'done', accepted_at
          from afterturn.ledger_t where stage = 'projection'""",
        item=uuid4(),
    )
    before = await yard.world.ledger.counts()
    assert before[Stage.ENRICHMENT].counts["done"] == 1
    counted = await yard.tasks()["ledger"].count()
    assert await yard.by_hand("ledger") == counted
    assert (await yard.world.sql(ROWS))[0].n == 0
    assert await yard.world.ledger.counts() == before


#: The gateway's stage has the turn's own row alone, and the projection's rows leave with those of turns.
LATE_STAGES = [stage for stage in Stage if stage not in {Stage.GATEWAY, Stage.PROJECTION}]
LATE = """
    insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, status,
                                    accepted_at, updated_at)
    select host_id, s.stage, gen_random_uuid(), session_id, bank_id, session_id, turn_id, position, s.status,
           accepted_at, accepted_at - cast(:age as interval)
      from afterturn.turn_t t, unnest(cast(:stages as text[]), cast(:statuses as text[])) s(stage, status)
     where turn_id <> session_id"""


async def late_work(yard: Yard, age: timedelta = timedelta()) -> None:
    """Open work for the turns of the world, as a new model, enrichment and corrections do, and end it."""
    ends = [(stage.value, "done") for stage in LATE_STAGES]
    ends += [("embedding", "dead"), ("enrichment", "skipped"), ("extraction", "skipped")]
    stages, statuses = zip(*ends, strict=True)
    await yard.world.sql(LATE, stages=list(stages), statuses=list(statuses), age=age)


async def test_what_was_done_for_turns_that_had_left_the_ledger_leaves_it_too(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.maintenance.pruning.LEDGER_PAGE", 2)
    await yard.world.sql("insert into afterturn.host_t (host_id, name) values (:host, 'another')", host=uuid4())
    await worked_off(yard)
    await yard.by_hand("ledger")
    await late_work(yard)
    before = await yard.world.ledger.counts()
    gone = 3 * (len(LATE_STAGES) + 1)
    assert await yard.tasks()["late_rows"].count() == gone
    assert await yard.by_hand("ledger") == 0
    assert await yard.by_hand("late_rows") == gone
    left = await yard.world.sql("select distinct stage, status from afterturn.ledger_t order by stage")
    assert [tuple(row) for row in left] == [("embedding", "dead"), ("extraction", "skipped")]
    assert await yard.world.ledger.counts() == before
    assert await yard.by_hand("late_rows") == 0


async def test_what_was_done_for_turns_of_the_ledger_leaves_it_with_them(yard: Yard) -> None:
    await worked_off(yard)
    await late_work(yard, DAY)
    assert await yard.tasks()["late_rows"].count() == 0
    assert await yard.by_hand("late_rows") == 0


async def test_a_place_in_a_stage_that_another_release_knows_ends_at_its_tenant(yard: Yard) -> None:
    behind = await Pruning(yard.world.database).late_rows(yard.clock(), f"{HOST} of_another_release {UUID(int=0)}")
    assert behind == PrunedBatch(0, None)


async def test_late_work_that_is_young_stays(yard: Yard) -> None:
    await worked_off(yard)
    await yard.by_hand("ledger")
    await late_work(yard)
    assert await yard.by_hand("late_rows", ledger_days=9.0) == 0
    assert yard.tasks(ledger_days=None)["late_rows"].off == "maintenance.ledger_days is not set"


async def test_a_pruned_turn_that_comes_again_is_a_duplicate_and_with_another_body_a_conflict(yard: Yard) -> None:
    await worked_off(yard, 1)
    first = await status(yard.world, "t0")
    await yard.by_hand("ledger")
    offered = [NewTurn("default", "s", "t0", said, gateway=True) for said in (dialogue(), dialogue("Something else?"))]
    again, other = [(await yard.world.turns.append(HOST, [turn]))[0] for turn in offered]
    assert isinstance(again, Appended)
    assert again.duplicate
    assert isinstance(other, TurnConflict)
    assert await status(yard.world, "t0") == first
    assert (await yard.world.sql(ROWS))[0].n == 0


async def test_young_undone_and_failed_turns_stay_in_the_ledger(yard: Yard) -> None:
    await worked_off(yard, 2)
    await yard.world.sql(
        "update afterturn.ledger_t set status = 'dead', error_category = 'internal' "
        "where stage = 'extraction' and turn_id = :turn",
        turn=turn_uuid("s", "t0"),
    )
    await yard.world.append(turn="waiting")
    assert await yard.by_hand("ledger", ledger_days=9.0) == 0
    assert await yard.by_hand("ledger") > 0
    left = await yard.world.sql("select distinct turn_id from afterturn.ledger_t where turn_id = item_id")
    assert {row.turn_id for row in left} == {turn_uuid("s", "t0"), turn_uuid("s", "waiting")}


async def test_many_pages_of_many_hosts_are_walked(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.maintenance.pruning.LEDGER_PAGE", 2)
    await yard.world.sql("insert into afterturn.host_t (host_id, name) values (:host, 'another')", host=uuid4())
    await worked_off(yard, 7)
    await yard.by_hand("ledger")
    assert (await yard.world.sql(ROWS))[0].n == 0
    assert (await yard.world.ledger.counts())[Stage.PROJECTION].counts["done"] == 7


async def test_dry_counts_say_what_a_run_puts_away_and_write_nothing(yard: Yard) -> None:
    await worked_off(yard)
    await yard.world.sql("update afterturn.audit_event_t set at = now() - interval '1 day'")
    everything = (
        "select (select count(*) from afterturn.ledger_t) + (select count(*) from afterturn.audit_event_t) as n"
    )
    before = await yard.world.sql(everything)
    for name in ("ledger", "audit"):
        task = yard.tasks(audit_days=7.5)[name]
        counted = await task.count()
        assert await yard.world.sql(everything) == before
        assert counted == await yard.by_hand(name, audit_days=7.5)
        before = await yard.world.sql(everything)


async def test_a_replay_after_pruning_is_equal_and_a_mended_text_is_embedded_again(yard: Yard) -> None:
    await worked_off(yard, 2)
    await yard.by_hand("ledger")
    owner = yard.world.postgres.owner_url
    report = await verify_log(owner, ReplayScope())
    assert report.equal
    assert all(one.equal for one in report.derived)
    counts = await yard.world.ledger.counts()
    await yard.world.sql("update afterturn.agent_memory_unit_t set content = 'planted' where origin = 'message'")
    await swap_tables(owner)
    after = await yard.world.ledger.counts()
    assert after[Stage.EMBEDDING].counts["pending"] == 2
    assert sum(after[Stage.EMBEDDING].counts.values()) == sum(counts[Stage.EMBEDDING].counts.values())
    await Crew(yard.world).drain()
    assert await yard.world.ledger.counts() == counts


@pytest.mark.law("L11")
async def test_an_erasure_of_pruned_turns_takes_everything_and_names_the_gateways_sessions(yard: Yard) -> None:
    with gateway() as foreign:
        await yard.world.hand_to(foreign.url)
        await worked_off(yard, 2)
    await yard.by_hand("ledger")
    erasures = Erasures(yard.world.database, now)
    erasure = await erasures.request(HOST, ErasureTarget(Kind.SESSION, "default", "s"))
    receipt = await erasures.run(HOST, erasure)
    assert (receipt.done, dict(receipt.delivered)) == (True, {"chat:default/s": 2})
    await Crew(yard.world).drain()
    left = await yard.world.sql(
        "select (select count(*) from afterturn.agent_memory_unit_t where content <> '' and active) as units, "
        "(select count(*) from afterturn.unit_vector_t) as vectors, "
        "(select coalesce(sum(units), 0) from afterturn.bank_statistics_t where bank_id = :bank) as counted",
        bank=BANK,
    )
    assert tuple(left[0]) == (0, 0, 0)


async def test_audits_are_kept_for_ninety_days_unless_another_number_is_set_and_for_ever_with_none(yard: Yard) -> None:
    assert (MaintenanceSettings().audit_days, MaintenanceSettings().calls_days) == (90.0, 90.0)
    for name in ("audit", "calls"):
        assert not yard.tasks()[name].off
        assert yard.tasks(audit_days=None, calls_days=None)[name].off


async def test_audit_rows_older_than_that_are_pruned(yard: Yard) -> None:
    insert = """
        insert into afterturn.audit_event_t (host_id, event, at) values (:host, 'e', now() - cast(:age as interval))"""
    for age in (10 * DAY, 9 * DAY, DAY):
        await yard.world.sql(insert, host=HOST, age=age)
    assert await yard.by_hand("audit", audit_days=5.0) == 2
    assert len(await yard.world.sql("select audit_id from afterturn.audit_event_t")) == 1


async def test_records_of_calls_older_than_that_are_pruned(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.maintenance.pruning.AUDIT_PAGE", 2)
    insert = """
        insert into afterturn.call_audit_t (host_id, at, door, operation, took_ms)
        select :host, now() - cast(:age as interval), 'http', '/api/v1/turns', 1.0 from generate_series(1, 3)"""
    for age in (10 * DAY, DAY):
        await yard.world.sql(insert, host=HOST, age=age)
    assert await yard.tasks(calls_days=5.0)["calls"].count() == 3
    assert await yard.by_hand("calls", calls_days=5.0) == 3
    assert len(await yard.world.sql("select call_id from afterturn.call_audit_t")) == 3


async def test_claims_of_the_dead_go_and_their_streams_are_taken_up(yard: Yard) -> None:
    await yard.world.append()
    await yard.world.ledger.claim(Stage.EXTRACTION, streams=9, rows=9, lease=DAY, worker="w", max_attempts=5)
    assert await yard.by_hand("claims") == 0
    await yard.world.sql("update afterturn.claim_t set lease_until = now() - interval '1 hour'")
    assert await yard.by_hand("claims") == 1
    [claim] = await yard.world.ledger.claim(Stage.EXTRACTION, streams=9, rows=9, lease=DAY, worker="w", max_attempts=5)
    assert claim.rows[0].attempts == 2


async def test_expired_recall_jobs_are_wiped_and_later_forgotten(yard: Yard) -> None:
    jobs = RecallJobs(yard.world.database, yard.clock)
    await jobs.open(HOST, {"bank": "default", "query": "Where is Anna?"}, timedelta(minutes=5))
    await jobs.open(HOST, {"bank": "default", "query": "Where is Xanthippe?"}, timedelta(seconds=-1))
    assert await yard.by_hand("recall_jobs") == 1
    rows = await yard.world.sql("select request::text as request from afterturn.recall_job_t")
    assert [("Xanthippe" in row.request) for row in rows].count(True) == 0
    yard.ahead = 2 * DAY
    assert await yard.tasks()["recall_jobs"].count() == 2
    await yard.by_hand("recall_jobs")
    assert await yard.world.sql("select job_id from afterturn.recall_job_t") == []


async def test_an_erasure_that_was_left_alone_is_brought_to_its_end(yard: Yard) -> None:
    await worked_off(yard, 1)
    erasures = Erasures(yard.world.database, now)
    erasure = await erasures.request(HOST, ErasureTarget(Kind.SESSION, "default", "s"))
    assert await yard.tasks()["erasures"].count() == 1
    assert await yard.by_hand("erasures") == 1
    assert (await erasures.receipt(HOST, erasure)).done


async def test_an_erasure_that_takes_more_than_one_batch_is_brought_to_its_end_in_one_run(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.maintenance.tasks.ERASE_FOR", timedelta())
    monkeypatch.setattr("store.erasure.aggregates.PAGE_UNITS", 1)
    await worked_off(yard)
    erasures = Erasures(yard.world.database, now)
    erasure = await erasures.request(HOST, ErasureTarget(Kind.SESSION, "default", "s"))
    assert await yard.by_hand("erasures") == 1
    assert (await erasures.receipt(HOST, erasure)).done


async def test_an_erasure_that_fails_keeps_no_other_from_its_end(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    erasures, asked = Erasures(yard.world.database, now), []
    for session in ("broken", "sound"):
        await yard.world.append(session)
        asked.append(await erasures.request(HOST, ErasureTarget(Kind.SESSION, "default", session)))
    yard.ahead, run = DAY, Erasures.run

    async def fails(self: Erasures, host: UUID, erasure: UUID, within: timedelta | None = None) -> Receipt:
        if erasure == asked[0]:
            raise ValueError
        return await run(self, host, erasure, within)

    monkeypatch.setattr(Erasures, "run", fails)
    outcomes = [(await yard.maintainer().work(yard.tasks()["erasures"], by_hand=True)).outcome for _ in range(2)]
    assert outcomes == ["failed", "done"]
    assert [(await erasures.receipt(HOST, one)).done for one in asked] == [False, True]


BANKS = sorted(["default", "another"], key=lambda name: identity.bank_id(HOST, name))
PLANNED = """
    select place, next_run > now() + interval '50 minutes' as hourly from public.afterturn_maintenance
     where task = 'said'"""


async def old_turns(yard: Yard, monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[UUID]:
    """Have a turn past its retention in each of two banks, of which the first fails; return the banks as asked for."""
    for bank in BANKS:
        await yard.world.append(bank=bank)
    yard.ahead = 40 * DAY
    asked, age = list[UUID](), Erasures.request_old_turns

    async def fails(self: Erasures, host: UUID, bank: UUID, before: datetime) -> UUID | None:
        asked.append(bank)
        if bank == asked[0]:
            raise error
        return await age(self, host, bank, before)

    monkeypatch.setattr(Erasures, "request_old_turns", fails)
    return asked


@pytest.mark.parametrize("error", [StatementTimeout(), DeadlockDetectedError()])
async def test_a_bank_that_fails_each_time_keeps_no_other_from_its_retention(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    await old_turns(yard, monkeypatch, error)
    kind = type(error).__name__
    with capture_logs() as said:
        [told] = await yard.maintainer(yard.tasks(said_days=30)["said"]).look()
    assert (told.outcome, told.why, told.removed) == ("failed", kind, 1)
    assert [(one["event"], one["error"]) for one in said] == [("maintenance_of_a_bank_failed", kind)]
    [planned] = await yard.world.sql(PLANNED)
    assert (planned.place, planned.hourly) == (None, True)


async def test_an_outage_ends_the_run_before_other_banks_are_passed(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await old_turns(yard, monkeypatch, ConnectionRefusedError())
    [told] = await yard.maintainer(yard.tasks(said_days=30)["said"]).look()
    assert (told.outcome, told.removed, len(asked)) == ("failed", 0, 1)


async def test_a_tenant_that_fails_keeps_no_other_from_the_erasure_of_what_expired(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await yard.world.sql("insert into afterturn.host_t (host_id, name) values (:host, 'another')", host=uuid4())
    asked = list[UUID]()

    async def fails(_self: ExpiryTask, host: UUID, _after: UUID, _before: datetime) -> FoundBank | None:
        asked.append(host)
        raise StatementTimeout

    monkeypatch.setattr(ExpiryTask, "find_ended", fails)
    [told] = await yard.maintainer(yard.tasks()["ended"]).look()
    assert (told.outcome, told.why, len(set(asked))) == ("failed", "StatementTimeout", 2)


async def test_long_sessions_are_summarised_in_the_background_or_by_the_tool_alone(yard: Yard) -> None:
    for session in ("a", "b", "short"):
        for n in range(2 if session == "short" else 5):
            words = f"We decided on plan {n} of {session} for Anna."
            await yard.world.append(session, f"{session}{n}", messages=dialogue(words, "Noted."))
    assert yard.tasks(sessions="tool")["sessions"].off == "maintenance.sessions is not `periodic`"
    assert await yard.tasks()["sessions"].count() == 2
    assert await yard.by_hand("sessions") == 2
    assert await yard.by_hand("sessions") == 0
    assert await yard.tasks()["sessions"].count() == 0
    compacted = "select count(*) from afterturn.event_store_t where event_type like '%Compacted%'"
    assert (await yard.world.sql(compacted))[0][0] == 2


async def test_what_the_stage_left_is_read_into_digests_in_the_background(yard: Yard) -> None:
    for session in ("a", "b", "c"):
        for n in range(3):
            await yard.world.append(session, f"{session}{n}", messages=[NewMessage("user", f"We decided on {n}.")])
    assert await yard.tasks()["digests"].count() == 3
    for _ in range(2):
        assert await yard.by_hand("digests") == 0, "nothing is removed"
        assert await yard.tasks()["digests"].count() == 0
    read = "select session_id, next_seq from afterturn.session_digest_t order by next_seq"
    assert [row.next_seq for row in await yard.world.sql(read)] == [3, 3, 3]
    await yard.world.append("b", "b3", messages=[NewMessage("user", "We decided on 3.")])
    await yard.by_hand("digests")
    assert [row.next_seq for row in await yard.world.sql(read)] == [3, 3, 4]
