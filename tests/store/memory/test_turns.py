"""The write path: accepted once, durable, readable, and opened for every stage."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from store import identity
from store.database import Database
from store.errors import NotFound, StoreError, TurnBusy, TurnConflict, TurnEnded
from store.ledger.stages import TURN_STAGES
from store.log.append import append_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_command
from store.memory.offered_turns import OfferContext, build_offered_turns
from store.memory.turn_writes import APPEND, append_arguments
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from store.off_loop import run_steps
from tests.client.loopback import closed_port
from tests.patience import until
from tests.store.conftest import NOON, new_host, rows, turn
from tests.workers.targets import hand_to

#: How many wait for a lock of this kind in this database.
WAITING = text("""
    select count(*) from pg_locks l join pg_stat_activity a using (pid)
     where not l.granted and l.locktype = 'advisory' and a.datname = current_database()""")

#: Keeps every writer of a session waiting who does not share its lock.
HOLD_SESSION = text("select pg_advisory_xact_lock_shared(afterturn.lock_key('session', :session))")


def others(database: Database, count: int) -> list[TurnStore]:
    """As many stores as there would be processes that know nothing of each other."""
    return [TurnStore(database, lambda: NOON) for _ in range(count)]


async def waits(database: Database, count: int) -> bool:
    async with database.call() as connection:
        return bool((await connection.execute(WAITING)).scalar_one() == count)


async def halted(database: Database, writing: list["asyncio.Task[list[Appended | StoreError]]"]) -> bool:
    """Say whether all of them wait, or one of them did not have to."""
    return any(writer.done() for writer in writing) or await waits(database, len(writing))


async def test_an_accepted_turn_is_in_the_log_in_the_projections_and_in_the_ledger(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    [answer] = await turns.append(host, [turn("t1", "I moved to Porto", "Noted")])
    assert isinstance(answer, Appended)
    assert not answer.duplicate
    events = await rows(database, host, "select event_type, aggregate_version from event_store_t order by position")
    assert events == [
        ("AgentMemoryBankCreatedEvent", 1),
        ("AgentSessionHistoryCreatedEvent", 1),
        ("AgentSessionHistoryAppendedEvent", 2),
        ("AgentMemoryUnitRetainedEvent", 1),
        ("AgentMemoryUnitRetainedEvent", 1),
    ]
    units = await rows(database, host, "select content, role, seq, fact_type from agent_memory_unit_t order by seq")
    assert units == [("I moved to Porto", "user", 0, "experience"), ("Noted", "assistant", 1, "experience")]
    ledger = await rows(database, host, "select stage, status from ledger_t order by stage")
    assert ledger == [
        ("embedding", "pending"),
        ("extraction", "pending"),
        ("projection", "pending"),
    ]


async def test_each_message_has_the_metadata_of_its_own_turn(turns: TurnStore, database: Database, host: UUID) -> None:
    """It is sent once a turn: messages of another turn of the same call, of the next call, or of none have theirs."""
    told = {"t1": {"topic": "moves"}, "t2": {}, "t3": {"topic": ["teas", "cups"]}}
    first, *later = [turn(name, f"I {name}", "Noted", metadata=metadata) for name, metadata in told.items()]
    assert all(
        isinstance(one, Appended) for one in [*await turns.append(host, [first]), *await turns.append(host, later)]
    )
    expected = [(name, metadata) for name, metadata in told.items() for _ in range(2)]
    assert await rows(database, host, "select turn_name, metadata from agent_memory_unit_t order by seq") == expected
    said = "select data->>'turnName', data->'metadata' from event_store_t where event_type like :told order by position"
    assert await rows(database, host, said, told="%Retained%") == expected


async def test_units_without_a_history_event_take_no_metadata_of_another_turn(database: Database, host: UUID) -> None:
    """Single memories and chunks of documents have none before them."""
    context = OfferContext(b"key", frozenset(), {})
    told = [turn("t1", "I moved", metadata={"topic": "moves"}), turn("t2", "I paint")]
    first, second = run_steps(build_offered_turns(host, told, NOON, context))
    units = [event for event in second.events if event[1] != "AgentSessionHistoryAppendedEvent"]
    async with database.tenant(host) as connection:
        raw: Any = (await connection.get_raw_connection()).driver_connection
        await raw.fetch(APPEND, *append_arguments(host, [first, replace(second, events=units)], wait=True))
    found = await rows(database, host, "select turn_name, metadata from agent_memory_unit_t order by turn_name")
    assert found == [("t1", {"topic": "moves"}), ("t2", {})]


async def test_the_position_of_an_answer_is_the_last_event_of_the_turn(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    [answer] = await turns.append(host, [turn()])
    assert isinstance(answer, Appended)
    assert await rows(database, host, "select max(position) from event_store_t") == [(answer.position,)]


@pytest.mark.law("L2")
async def test_the_same_turn_again_changes_nothing_and_answers_with_the_first_position(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    [first] = await turns.append(host, [turn("t1", "hello")])
    before = await rows(database, host, "select count(*) from event_store_t")
    [again] = await turns.append(host, [turn("t1", "hello")])
    assert isinstance(first, Appended)
    assert again == Appended(first.position, duplicate=True)
    assert await rows(database, host, "select count(*) from event_store_t") == before


@pytest.mark.law("L2")
async def test_the_same_turn_with_another_body_is_a_conflict_and_writes_nothing(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    await turns.append(host, [turn("t1", "hello")])
    [answer] = await turns.append(host, [turn("t1", "goodbye")])
    assert isinstance(answer, TurnConflict)
    assert await rows(database, host, "select content from agent_memory_unit_t") == [("hello",)]


@pytest.mark.parametrize(
    "other",
    [
        turn("t1", "hello", user_id="ann"),
        turn("t1", "hello", occurred_at=NOON),
        turn("t1", "hello", metadata={"a": "b"}),
        turn("t1", "hello", gateway_asked=True),
        NewTurn("home", "s1", "t1", (NewMessage("user", "hello", name="Ann"),)),
        NewTurn("home", "s1", "t1", (NewMessage("system", "hello"),)),
    ],
)
async def test_every_part_of_the_body_counts_for_a_conflict(turns: TurnStore, host: UUID, other: NewTurn) -> None:
    await turns.append(host, [turn("t1", "hello")])
    [answer] = await turns.append(host, [other])
    assert isinstance(answer, TurnConflict)


async def test_a_turn_stays_the_same_when_the_service_is_configured_otherwise(turns: TurnStore, host: UUID) -> None:
    await turns.append(host, [turn("t1", "hello", gateway=True)])
    [again] = await turns.append(host, [turn("t1", "hello", gateway=False)])
    assert isinstance(again, Appended)
    assert again.duplicate


async def test_a_batch_answers_each_turn_in_order_and_a_refused_one_undoes_no_other(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    await turns.append(host, [turn("known", "a")])
    batch = [turn("new"), turn("known", "b"), turn("known", "a"), turn("new"), turn("new", "else"), turn("last")]
    answers = await turns.append(host, batch)
    assert [type(a).__name__ for a in answers] == [
        "Appended",
        "TurnConflict",
        "Appended",
        "Appended",
        "TurnConflict",
        "Appended",
    ]
    assert [a.duplicate for a in answers if isinstance(a, Appended)] == [False, True, True, False]
    assert await rows(database, host, "select count(*) from turn_t") == [(3,)]


async def test_a_turn_being_written_by_another_request_is_busy(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    identity_of = identity.turn_id(identity.session_id(identity.bank_id(host, "home"), "s1"), "t1")
    async with database.tenant(host) as connection:
        await connection.execute(
            text("select pg_advisory_xact_lock(afterturn.lock_key('turn', :turn))"), {"turn": identity_of}
        )
        [busy, free] = await turns.append(host, [turn("t1"), turn("t2")])
    assert isinstance(busy, TurnBusy)
    assert isinstance(free, Appended)
    [now] = await turns.append(host, [turn("t1")])
    assert isinstance(now, Appended)


@pytest.mark.law("L2")
async def test_the_same_turn_sent_by_many_at_once_is_written_once(database: Database, host: UUID) -> None:
    answers = await asyncio.gather(*(other.append(host, [turn("t1", "hello")]) for other in others(database, 16)))
    flat = [answer for [answer] in answers]
    assert sum(isinstance(a, Appended) and not a.duplicate for a in flat) == 1
    assert all(isinstance(a, (Appended, TurnBusy)) for a in flat)
    assert await rows(database, host, "select count(*) from agent_memory_unit_t") == [(1,)]


@pytest.mark.law("L3")
async def test_writers_that_meet_in_a_session_leave_it_numbered_without_gaps_in_order_of_position(
    database: Database, host: UUID
) -> None:
    first, *writers = others(database, 9)
    await first.append(host, [turn("t0", "a", "b")])
    async with database.tenant(host) as connection:
        # All stand at the door before it opens, however fast one of them would have been through.
        session = identity.session_id(identity.bank_id(host, "home"), "s1")
        await connection.execute(HOLD_SESSION, {"session": session})
        writing = [
            asyncio.create_task(other.append(host, [turn(f"t{n}", "a", "b")])) for n, other in enumerate(writers, 1)
        ]
        await until(partial(halted, database, writing), "every writer waits for the session")
        assert not any(writer.done() for writer in writing)
    await asyncio.gather(*writing)
    numbered = await rows(database, host, "select seq, turn_id from agent_memory_unit_t order by position")
    assert [seq for seq, _ in numbered] == list(range(18))
    assert [a == b for (_, a), (_, b) in zip(numbered[::2], numbered[1::2], strict=True)] == [True] * 9
    versions = await rows(
        database,
        host,
        "select aggregate_version from event_store_t where aggregate_type = 'AgentSessionHistory' order by position",
    )
    assert [v for (v,) in versions] == list(range(1, 11))


async def test_batches_with_sessions_in_any_order_do_not_deadlock(database: Database, host: UUID) -> None:
    def batch(n: int) -> list[NewTurn]:
        sessions = [f"s{m}" for m in range(6)]
        return [turn(f"t{n}", session=s) for s in (sessions if n % 2 else sessions[::-1])]

    answers = await asyncio.gather(*(other.append(host, batch(n)) for n, other in enumerate(others(database, 12))))
    assert all(isinstance(a, Appended) for one in answers for a in one)


async def test_turns_that_come_while_others_are_written_share_the_next_transaction(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    await turns.append(host, [turn("t0", session=f"s{n}") for n in range(8)])
    async with database.tenant(host) as connection:
        await connection.execute(text("select pg_advisory_xact_lock(afterturn.log_lock())"))
        waiting = []
        for n in (1, 2):
            waiting.append(asyncio.create_task(turns.append(host, [turn("t1", session=f"s{n}")])))
            await until(partial(waits, database, n), "a lane is taken")
        waiting += [asyncio.create_task(turns.append(host, [turn("t1", session=f"s{n}")])) for n in range(3, 8)]
        await until(lambda: len(turns._find_coalescer(host)._waiting) == len(waiting) - 2, "the others wait for a lane")
    answers = [answer for [answer] in await asyncio.gather(*waiting)]
    assert all(isinstance(answer, Appended) and not answer.duplicate for answer in answers)
    last = answers[-1]
    assert isinstance(last, Appended)
    shared = "select count(*) from event_store_t where event_type like '%AppendedEvent' and xid = ("
    shared += "select xid from event_store_t where position = :position)"
    assert await rows(database, host, shared, position=last.position) == [(5,)]


async def test_whose_session_is_held_waits_alone_and_keeps_nobody_else(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    await turns.append(host, [turn("t0", session=f"s{n}") for n in range(4)])
    held = identity.session_id(identity.bank_id(host, "home"), "s0")
    async with database.tenant(host) as connection:
        await connection.execute(
            text("select pg_advisory_xact_lock(afterturn.lock_key('session', :held))"), {"held": held}
        )
        waiting = [asyncio.create_task(turns.append(host, [turn(f"t{n}", session="s0")])) for n in range(1, 6)]
        await until(partial(waits, database, 5), "those of the session wait")
        answers = [await turns.append(host, [turn("t1", session=f"s{n}")]) for n in range(1, 4)]
        assert all(isinstance(answer, Appended) for [answer] in answers)
        assert not any(task.done() for task in waiting)
    assert all(isinstance(answer, Appended) for [answer] in await asyncio.gather(*waiting))


async def test_the_word_of_a_turn_is_indexed_when_the_answer_is_given(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    await turns.append(host, [turn("t1", "the quokka sleeps")])
    found = await rows(database, host, "select cast(terms->>'quokka' as int), seq from unit_word_t")
    assert found == [(1, 0)]


async def test_the_history_of_a_session_shows_its_newest_forty_messages(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    await turns.append(host, [turn(f"t{n}", f"message {n}") for n in range(45)])
    [(messages, count)] = await rows(
        database,
        host,
        "select h.messages, b.message_count from hindsight.agent_session_history_t h "
        "join afterturn.agent_session_history_t b using (host_id, bank_id, session_id)",
    )
    assert [m["content"] for m in messages] == [f"message {n}" for n in range(5, 45)]
    assert count == 45


async def test_a_turn_tells_how_far_it_has_come(turns: TurnStore, database: Database, host: UUID) -> None:
    await hand_to(database, host, closed_port(), user=str(host))
    [answer] = await turns.append(host, [turn("a/b", gateway=True)])
    status = await turns.status(host, "home", "s1", "a/b")
    assert isinstance(answer, Appended)
    assert (status.position, status.accepted_at) == (answer.position, NOON)
    assert {stage: one.status for stage, one in status.stages.items()} == dict.fromkeys(TURN_STAGES, "pending")


@pytest.mark.law("L6")
async def test_a_turn_of_another_host_does_not_exist(turns: TurnStore, database: Database, host: UUID) -> None:
    await turns.append(host, [turn("t1")])
    with pytest.raises(NotFound):
        await turns.status(await new_host(database), "home", "s1", "t1")


@pytest.mark.law("L1")
async def test_an_append_that_breaks_in_the_middle_leaves_nothing(
    turns: TurnStore, database: Database, host: UUID
) -> None:
    await turns.append(host, [turn("t1")])
    offered = run_steps(build_offered_turns(host, [turn("t2")], NOON, OfferContext(b"", (), {})))
    async with database.tenant(host) as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        assert await driver.fetchval(APPEND, *append_arguments(host, offered, wait=True)) == ["accepted"]
        with pytest.raises(Exception, match="planted"):
            await connection.execute(text("do $$ begin raise 'planted'; end $$"))
    assert await rows(database, host, "select count(*) from turn_t") == [(1,)]
    assert await rows(database, host, "select count(*) from ledger_t") == [(3,)]


async def test_the_whole_event_is_a_cloud_event(turns: TurnStore, database: Database, host: UUID) -> None:
    await turns.append(host, [turn("t1", "hello")])
    found = await rows(
        database, host, "select payload, nonce, aggregate_id from hindsight.event_store_t order by nonce"
    )
    for payload, position, aggregate_id in found:
        assert payload["specversion"] == "1.0"
        assert payload["subject"] == aggregate_id
        assert payload["nonce"] == position
        assert payload["host"] == str(host)
        assert payload["data"]["newAggregateVersion"] == payload["aggregateversion"]
        assert "embedding" not in payload["data"]


ALIVE = (
    "select (select bool_and(active) from agent_memory_bank_t), (select bool_and(active) from agent_session_history_t)"
)


@pytest.mark.law("L1")
@pytest.mark.parametrize("ended", [EventType.SESSION_DELETED, EventType.BANK_DELETED])
async def test_a_turn_of_a_session_that_ended_since_its_last_begins_it_again(
    turns: TurnStore, database: Database, host: UUID, ended: EventType
) -> None:
    await turns.append(host, [turn("t1"), turn("u1", session="other")])
    bank = identity.bank_id(host, "home")
    fields = {} if ended is EventType.BANK_DELETED else {"sessionId": str(identity.session_id(bank, "s1"))}
    version = 2 if ended is EventType.BANK_DELETED else 3
    async with database.tenant(host) as connection:
        await append_events(
            connection, host, [build_command(Origin(host, bank, host, NOON), ended, fields, version=version)]
        )
    answers = await turns.append(host, [turn("t2"), turn("u2", session="other"), turn("t3"), turn("t1")])
    assert [isinstance(one, Appended) and one.duplicate for one in answers[:3]] == [False] * 3
    assert isinstance(answers[3], TurnEnded if ended is EventType.BANK_DELETED else Appended)
    assert await rows(database, host, ALIVE) == [(True, True)]
    told = "select turn_name from agent_memory_unit_t where active and session_name = 's1' order by seq desc limit 2"
    assert await rows(database, host, told) == [("t3",), ("t2",)]
