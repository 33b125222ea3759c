"""Functions of the ledger, each called by name: claims, their ends, deliveries, and what operators do by hand."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from store import identity
from store.database import Database
from store.ledger.stages import OWN, Stage
from store.memory.turns import NewTurn, TurnStore
from tests.client.loopback import closed_port
from tests.store.conftest import NOON, new_host, rows, turn
from tests.store.sql.conftest import as_operator, value
from tests.workers.targets import hand_to

LEASE = timedelta(seconds=30)
CLAIM = """
    select host_id, stream_id, epoch, item_id, attempts
      from afterturn.claim_work(:stage, :streams, :rows, :lease, 'w', :ordered, 5)"""
CLAIM_ITEMS = """
    select item_id, epoch, attempts from afterturn.claim_items(:host, :stage, cast(:items as uuid[]), :lease, 'w')"""
READY = "select stream_id, attempts from afterturn.ready_streams(:stage, 10, true, cast(null as interval))"
STATUS = 'select status, attempts from ledger_t where stage = :stage order by "position"'
AUDIT = "select event from audit_event_t order by audit_id"


@pytest.fixture
async def host(lonely: Database) -> UUID:
    return await new_host(lonely)


def as_json(told: object) -> str:
    return orjson.dumps(told, default=str).decode()


async def append(database: Database, host: UUID, *turns: NewTurn) -> None:
    await TurnStore(database, lambda: NOON).append(host, turns)


async def claim(database: Database, stage: Stage = Stage.EXTRACTION, lease: timedelta = LEASE) -> list[tuple[Any, ...]]:
    return await as_operator(
        database, CLAIM, stage=stage.value, streams=10, rows=10, lease=lease, ordered=stage is not Stage.EMBEDDING
    )


async def items_of(database: Database, host: UUID, stage: Stage) -> list[UUID]:
    found = await rows(
        database, host, 'select item_id from ledger_t where stage = :s order by "position"', s=stage.value
    )
    return [item for (item,) in found]


async def deliveries(database: Database, host: UUID, count: int) -> Sequence[UUID]:
    """Append turns that a gateway is to get, in sessions of their own; return their items."""
    await hand_to(database, host, closed_port())
    await append(database, host, *(turn(f"t{n}", session=f"s{n}", gateway=True) for n in range(count)))
    return await items_of(database, host, Stage.GATEWAY)


async def test_claim_work_hands_out_a_stream_once_and_again_when_its_lease_ran_out(
    lonely: Database, host: UUID
) -> None:
    assert await claim(lonely) == []
    await append(lonely, host, turn("t1"), turn("t2"))
    first = await claim(lonely, lease=timedelta(0))
    assert [(row[0], row[3], row[4]) for row in first] == [
        (host, item, 1) for item in await items_of(lonely, host, Stage.EXTRACTION)
    ]
    # The rows were tried, so each is claimed alone.
    [again] = await claim(lonely)
    assert again[1] == first[0][1]
    assert again[2] > first[0][2]
    assert again[4] == 2
    assert await claim(lonely) == []


async def test_claim_items_takes_what_was_never_tried_and_nothing_else(lonely: Database, host: UUID) -> None:
    await append(lonely, host, turn("t1"), turn("t2"))
    items = await items_of(lonely, host, Stage.EMBEDDING)
    ask = {"stage": "embedding", "lease": LEASE}
    assert await as_operator(lonely, CLAIM_ITEMS, host=host, items=[], **ask) == []
    assert await as_operator(lonely, CLAIM_ITEMS, host=await new_host(lonely), items=items, **ask) == []
    found = await as_operator(lonely, CLAIM_ITEMS, host=host, items=[items[0], items[0], uuid4()], **ask)
    assert [(item, attempts) for item, _, attempts in found] == [(items[0], 1)]
    assert await as_operator(lonely, CLAIM_ITEMS, host=host, items=[items[0]], **ask) == []
    assert await rows(lonely, host, "select stream_id from claim_t") == [(items[0],)]


async def test_ready_streams_are_those_with_work_that_are_not_claimed(lonely: Database, host: UUID) -> None:
    assert await as_operator(lonely, READY, stage="extraction") == []
    await append(lonely, host, turn("t1", session="s1"), turn("t2", session="s2"))
    sessions = {identity.session_id(identity.bank_id(host, "home"), name) for name in ("s1", "s2")}
    assert {stream for stream, _ in await as_operator(lonely, READY, stage="extraction")} == sessions
    [(_, first, *_)] = await as_operator(
        lonely, CLAIM, stage="extraction", streams=1, rows=1, lease=LEASE, ordered=True
    )
    assert await as_operator(lonely, READY, stage="extraction") == [(one, 0) for one in sessions - {first}]
    assert await as_operator(lonely, READY, stage="projection") == []


async def test_hold_claims_returns_the_epochs_that_are_still_valid(lonely: Database, host: UUID) -> None:
    await append(lonely, host, turn("t1"))
    [(_, stream, epoch, *_)] = await claim(lonely)
    hold = "select afterturn.hold_claims(:host, 'extraction', cast(:streams as uuid[]), cast(:epochs as bigint[]))"
    about = {"host": host, "streams": [stream]}
    assert await value(lonely, host, hold, **about, epochs=[epoch]) == [epoch]
    assert await value(lonely, host, hold, **about, epochs=[epoch - 1]) == []
    assert await value(lonely, host, hold, host=host, streams=[], epochs=[]) == []
    assert await value(lonely, await new_host(lonely), hold, **about, epochs=[epoch]) == []


async def test_close_claims_ends_rows_once_and_gives_back_an_attempt_that_was_none(
    lonely: Database, host: UUID
) -> None:
    await append(lonely, host, turn("t1"), turn("t2"), turn("t3"))
    claimed = await claim(lonely)
    (done, dead, left) = [row[3] for row in claimed]
    close = """
        select afterturn.close_claims(:host, 'extraction', array[cast(:stream as uuid)], array[cast(:epoch as bigint)],
                                      array[cast(:done as uuid)], cast(:ends as jsonb))"""
    ends = [{"item": dead, "status": "dead", "category": "broken", "reason": "it broke"}, {"item": left}]
    about = {"host": host, "stream": claimed[0][1], "epoch": claimed[0][2], "done": done, "ends": as_json(ends)}
    ended = [("done", 1), ("dead", 1), ("pending", 0)]
    assert await value(lonely, host, close, **about) == [claimed[0][2]]
    assert await rows(lonely, host, STATUS, stage="extraction") == ended
    assert await value(lonely, host, close, **about) == []
    assert await rows(lonely, host, STATUS, stage="extraction") == ended
    assert await rows(lonely, host, AUDIT) == [("attempt_failed",)]


async def test_put_off_delays_a_row_as_if_it_had_not_been_tried(lonely: Database, host: UUID) -> None:
    await append(lonely, host, turn("t1"))
    [(_, stream, epoch, item, _)] = await claim(lonely)
    put_off = """
        select afterturn.put_off(:host, 'extraction', :stream, :epoch, array[cast(:item as uuid)], 'pending',
                                 interval '1 hour')"""
    about = {"host": host, "stream": stream, "item": item}
    assert await value(lonely, host, put_off, **about, epoch=epoch - 1) is False
    assert await rows(lonely, host, STATUS, stage="extraction") == [("running", 1)]
    assert await value(lonely, host, put_off, **about, epoch=epoch) is True
    assert await rows(lonely, host, STATUS, stage="extraction") == [("pending", 0)]
    assert await value(lonely, host, put_off, **about, epoch=epoch) is False
    assert await claim(lonely) == []


async def test_a_gate_opens_and_shuts_by_what_is_reported(database: Database) -> None:
    host, gate = await new_host(database), f"test:{uuid4().hex}"
    enter = "select granted, probing, failures from afterturn.gate_enter(:gate, 2, 60, 0, 1, 0)"
    report = "select failures, wait_s > 0 from afterturn.gate_report(:gate, 2, 60, :well, :pause)"
    assert await rows(database, host, enter, gate=gate) == [(True, False, 0)]
    assert await rows(database, host, report, gate=gate, well=False, pause=0) == [(1, False)]
    assert await rows(database, host, report, gate=gate, well=False, pause=0) == [(2, True)]
    assert await rows(database, host, enter, gate=gate) == [(False, False, 2)]
    assert await rows(database, host, report, gate=gate, well=True, pause=0) == [(0, False)]
    assert await rows(database, host, enter, gate=gate) == [(True, False, 0)]
    assert await rows(database, host, report, gate=gate, well=True, pause=60) == [(0, True)]
    assert await rows(database, host, enter, gate=gate) == [(False, False, 0)]


async def test_a_gate_with_a_rate_lends_a_token_to_the_patient(database: Database) -> None:
    host, gate = await new_host(database), f"test:{uuid4().hex}"
    enter = "select granted, wait_s from afterturn.gate_enter(:gate, 2, 60, 0.1, 1, :patience)"
    assert await rows(database, host, enter, gate=gate, patience=0) == [(True, 0)]
    [(granted, wait)] = await rows(database, host, enter, gate=gate, patience=0)
    assert not granted
    assert 5 < wait <= 10
    [(granted, wait)] = await rows(database, host, enter, gate=gate, patience=60)
    assert granted
    assert 5 < wait <= 10


async def test_depth_counts_ready_rows_up_to_a_limit(lonely: Database, host: UUID) -> None:
    other = await new_host(lonely)
    await append(lonely, host, turn("t1"), turn("t2"), turn("t3"))
    depth = """
        select host_id, waiting, oldest
          from afterturn.depth(cast(:hosts as uuid[]), array['extraction', 'projection'], :most)"""
    found = await as_operator(lonely, depth, hosts=[host, other], most=2)
    assert sorted(found) == sorted([(host, 2, NOON), (other, 0, None)])
    assert await as_operator(lonely, depth, hosts=[], most=2) == []


async def test_freshness_says_what_a_read_shows_and_what_is_undone(lonely: Database, host: UUID) -> None:
    await append(lonely, host, turn("t1"), turn("t2"))
    columns = (
        "shown > 0, (select array_agg(key order by key) from json_each(first_undone::json)), pending, more_pending"
    )
    own = sorted(OWN)
    fresh = f"select {columns} from afterturn.freshness(:host, :bank, :most)"
    home = {"host": host, "bank": identity.bank_id(host, "home")}
    assert await rows(lonely, host, fresh, **home, most=10) == [(True, own, 2 * len(own), False)]
    assert await rows(lonely, host, fresh, **home, most=1) == [(True, own, len(own), True)]
    nothing = [(False, None, 0, False)]
    assert await rows(lonely, await new_host(lonely), fresh, **home, most=10) == nothing
    assert await rows(lonely, host, fresh, host=host, bank=uuid4(), most=10) == nothing
    # The tenant is set by the function itself.
    read = "select pending, more_pending from afterturn.read_freshness($1, $2)"
    assert [tuple(row) for row in await lonely.fetch(read, host, home["bank"])] == [(2 * len(own), False)]


async def test_turn_messages_are_a_turns_living_units_in_their_order(lonely: Database, host: UUID) -> None:
    await append(lonely, host, turn("t1", "first", "second"), turn("t2", "third"))
    [(bank, turn_id)] = await rows(
        lonely, host, "select bank_id, turn_id from agent_memory_unit_t where content = 'first'"
    )
    call = """
        select ordinal, role, content, turn_name
          from afterturn.turn_messages(:host, cast(:banks as uuid[]), cast(:turns as uuid[]))"""
    said = [(0, "user", "first", "t1"), (1, "assistant", "second", "t1")]
    assert await rows(lonely, host, call, host=host, banks=[bank], turns=[turn_id]) == said
    assert await rows(lonely, host, call, host=host, banks=[], turns=[]) == []
    assert await rows(lonely, host, call, host=await new_host(lonely), banks=[bank], turns=[turn_id]) == []


async def test_destinations_are_the_targets_deliveries_were_opened_for(lonely: Database, host: UUID) -> None:
    [item] = await deliveries(lonely, host, 1)
    call = """
        select item_id, (target).base_url like 'http://127.0.0.1%', bank_name, session_name
          from afterturn.destinations(:host, cast(:items as uuid[]))"""
    assert await rows(lonely, host, call, host=host, items=[item, uuid4()]) == [(item, True, "home", "s0")]
    assert await rows(lonely, host, call, host=await new_host(lonely), items=[item]) == []
    assert await rows(lonely, host, call, host=host, items=[]) == []


async def test_deliveries_advance_and_end_under_valid_claims_alone(lonely: Database, host: UUID) -> None:
    await deliveries(lonely, host, 1)
    [(_, stream, epoch, item, _)] = await claim(lonely, Stage.GATEWAY)
    step = "select afterturn.delivery_steps(:host, cast(:moves as jsonb))"
    end = "select afterturn.delivery_ends(:host, cast(:moves as jsonb))"

    def moves(epoch: int, status: str, event: str) -> dict[str, object]:
        move = {"stream": stream, "epoch": epoch, "item": item, "status": status, "event": event, "payload": {}}
        return {"host": host, "moves": as_json([move])}

    assert await value(lonely, host, step, host=host, moves="[]") == []
    assert await value(lonely, host, step, **moves(epoch - 1, "adding", "begun")) == []
    assert await rows(lonely, host, STATUS, stage="gateway") == [("running", 1)]
    assert await value(lonely, host, step, **moves(epoch, "adding", "begun")) == [epoch]
    assert await rows(lonely, host, STATUS, stage="gateway") == [("adding", 1)]
    assert await value(lonely, host, end, **moves(epoch, "flushed", "ended")) == [epoch]
    assert await value(lonely, host, end, **moves(epoch, "flushed", "ended")) == []
    assert await rows(lonely, host, STATUS, stage="gateway") == [("flushed", 1)]
    assert await rows(lonely, host, AUDIT) == [("begun",), ("ended",)]


async def test_drop_rows_skips_undone_rows_once_with_an_audit_row(lonely: Database, host: UUID) -> None:
    await append(lonely, host, turn("t1"))
    [item] = await items_of(lonely, host, Stage.EXTRACTION)
    drop = "select afterturn.drop_rows(:host, 'extraction', cast(:items as uuid[]), 'me', 'because')"
    assert await rows(lonely, host, drop, host=host, items=[]) == []
    assert await rows(lonely, host, drop, host=host, items=[item]) == [(item,)]
    assert await rows(lonely, host, drop, host=host, items=[item]) == []
    assert await rows(lonely, host, STATUS, stage="extraction") == [("skipped", 0)]
    told = await rows(lonely, host, "select event, payload->>'by', payload->>'was' from audit_event_t")
    assert told == [("operator_dropped", "me", "pending")]
    # What waited for it may begin.
    [(projection,)] = await as_operator(
        lonely, "select attempts from afterturn.ready_streams('projection', 1, false, cast(null as interval))"
    )
    assert projection == 0


async def test_resolve_delivery_settles_what_stands_as_it_was_seen(lonely: Database, host: UUID) -> None:
    [item] = await deliveries(lonely, host, 1)
    resolve = """
        select afterturn.resolve_delivery(:host, :item, array['add_unknown'], 'flushed', 'looked', '{"by": "me"}')"""
    assert await value(lonely, host, resolve, host=host, item=item) == "pending"
    assert await rows(lonely, host, STATUS, stage="gateway") == [("pending", 0)]
    await rows(lonely, host, "update ledger_t set status = 'add_unknown' where stage = 'gateway' returning 1")
    assert await value(lonely, host, resolve, host=host, item=item) == "add_unknown"
    assert await value(lonely, host, resolve, host=host, item=item) == "flushed"
    assert await rows(lonely, host, AUDIT) == [("operator_resolved",)]
    assert await value(lonely, host, resolve, host=host, item=uuid4()) is None


async def test_end_deliveries_skips_what_waits_for_a_target_so_many_at_a_time(lonely: Database, host: UUID) -> None:
    await deliveries(lonely, host, 2)
    targets = [one for (one,) in await rows(lonely, host, "select target_id from gateway_target_t")]
    end = "select afterturn.end_deliveries(:host, cast(:targets as uuid[]), 'me', 'unset', :most)"
    assert await value(lonely, host, end, host=host, targets=[], most=10) == 0
    assert await value(lonely, host, end, host=host, targets=targets, most=1) == 1
    assert await rows(lonely, host, STATUS, stage="gateway") == [("skipped", 0), ("pending", 0)]
    assert await value(lonely, host, end, host=host, targets=targets, most=10) == 1
    assert await value(lonely, host, end, host=host, targets=targets, most=10) == 0
    assert await rows(lonely, host, AUDIT) == [("operator_unset_gateway",)] * 2
