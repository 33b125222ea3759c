"""What is planted in a database is counted: a count that is always nought would prove nothing."""

import time
from uuid import uuid4

import pytest
from sqlalchemy import text

from deploy.lab.chaos import counting, tables
from deploy.lab.chaos.database_observer import DatabaseObserver, open_observer
from deploy.lab.chaos.interrupted import FaultEpisode, read_finishing_times
from deploy.lab.chaos.talk import ChaosTurn
from store.text.chunks import split_chunks
from tests.deploy.lab.chaos.conftest import PAPERS, RULES, SESSIONS, TURNS
from tests.servers import TestPostgres

pytestmark = pytest.mark.slow

CLOCKS_APART_S = 5.0
EVENT_AGAIN = """
    insert into afterturn.event_store_t (id, host_id, user_id, aggregate_key, aggregate_version, aggregate_type,
                                         event_type, event_ts, data, metadata, bank_id, position)
    select gen_random_uuid(), host_id, user_id, aggregate_key, aggregate_version + 100, aggregate_type,
           event_type, event_ts, data, metadata, bank_id, position + 1000000
      from afterturn.event_store_t where event_type = '{}' limit 1 returning 1"""
UNIT_AGAIN = """
    insert into afterturn.agent_memory_unit_t
           (host_id, unit_id, bank_id, content, event_date, user_id, origin, session_id, turn_id, session_name,
            turn_name, role, seq, position, update_ts, update_user)
    select host_id, gen_random_uuid(), bank_id, content || '{}', event_date, user_id, origin, session_id, turn_id,
           session_name, turn_name, role, {}, position, update_ts, update_user
      from afterturn.agent_memory_unit_t where origin = '{}' limit 1 returning 1"""
EQUAL_FACTS_LINKED = """
    insert into afterturn.agent_memory_link_t
    select (jsonb_populate_record(null::afterturn.agent_memory_link_t, to_jsonb(l) || '{"link_type": "semantic"}')).*
      from (select * from afterturn.agent_memory_link_t where active limit 1) l returning 1"""
ONE_MORE = "update afterturn.{table} set {column} = {column} + 1 where ctid = (select max(ctid) from afterturn.{table})"

PLANTED = {
    "turns_appended": EVENT_AGAIN.format("AgentSessionHistoryAppendedEvent"),
    "units_retained": EVENT_AGAIN.format("AgentMemoryUnitRetainedEvent"),
    "mentions_linked": EVENT_AGAIN.format("AgentMemoryUnitEntityLinkedEvent"),
    "messages": UNIT_AGAIN.format("", "null", "message"),
    "places_in_session": UNIT_AGAIN.format(" again", "seq", "message"),
    "facts": UNIT_AGAIN.format("", "null", "extraction"),
    "documents": """
        insert into afterturn.agent_memory_doc_t
        select (jsonb_populate_record(null::afterturn.agent_memory_doc_t, to_jsonb(d) || made)).*
          from (select * from afterturn.agent_memory_doc_t limit 1) d,
               jsonb_build_object('doc_id', gen_random_uuid()) made returning 1""",
    "pieces": """
        insert into afterturn.agent_memory_unit_t
        select (jsonb_populate_record(null::afterturn.agent_memory_unit_t, to_jsonb(u) || made)).*
          from (select * from afterturn.agent_memory_unit_t where origin = 'document' limit 1) u,
               jsonb_build_object('unit_id', gen_random_uuid(), 'seq', null) made returning 1""",
    "directives": """
        insert into afterturn.agent_memory_directive_t
        select (jsonb_populate_record(null::afterturn.agent_memory_directive_t, to_jsonb(d) || made)).*
          from (select * from afterturn.agent_memory_directive_t where active limit 1) d,
               jsonb_build_object('directive_id', gen_random_uuid()) made returning 1""",
    "vectors": """
        insert into afterturn.unit_vector_t (host_id, bank_id, unit_id, chunk, generation, embedding)
        select host_id, bank_id, unit_id, chunk, generation - 1, embedding from afterturn.unit_vector_t limit 1
        returning 1""",
    "session_counts": ONE_MORE.format(table="agent_session_history_t", column="turn_count") + " returning 1",
    "cooccurrence": ONE_MORE.format(table="agent_memory_entity_cooccur_t", column="cooccur_count") + " returning 1",
    "mention_counts": ONE_MORE.format(table="agent_memory_entity_t", column="mention_count") + " returning 1",
    "term_counts": ONE_MORE.format(table="term_t", column="df") + " returning 1",
    "unit_counts": ONE_MORE.format(table="bank_statistics_t", column="units") + " returning 1",
}
#: Tables of what no write of a run brings: it compares that nothing came of nothing.
NONE_IN_A_RUN = {"messages_without_units"}
LOST = {
    "its guard is gone": "delete from afterturn.turn_t where turn_id = :turn returning 1",
    "a stage is gone": "delete from afterturn.ledger_t where turn_id = :turn and stage = 'embedding' returning 1",
    "its delivery is gone": "delete from afterturn.ledger_t where turn_id = :turn and stage = 'gateway' returning 1",
    "a stage has not ended": """
        update afterturn.ledger_t set status = 'pending' where turn_id = :turn and stage = 'projection' returning 1""",
    "a message is gone": """
        update afterturn.agent_memory_unit_t set active = false
         where turn_id = :turn and ordinal = 1 and origin = 'message' returning 1""",
    "its event is gone": """
        delete from afterturn.event_store_t
         where event_type = 'AgentSessionHistoryAppendedEvent' and data->>'turnId' = cast(:turn as text)
        returning 1""",
}


def ids(turns: list[ChaosTurn]) -> set[str]:
    return {str(turn.id) for turn in turns}


async def test_without_faults_every_turn_is_done_and_nothing_is_twice_or_late(observer: DatabaseObserver) -> None:
    ended = await counting.read_turn_outcomes(observer, [turn.id for turn in TURNS])
    assert ids(TURNS) == {str(turn) for turn in ended.done}
    assert not any((await counting.count_duplicates(observer)).values())
    assert await counting.count_misordered_extractions(observer) == 0


@pytest.mark.parametrize("what", list(counting.TWICE))
async def test_what_is_there_twice_is_counted(observer: DatabaseObserver, what: str) -> None:
    assert await observer.query(text(PLANTED[what]))
    found = await counting.count_duplicates(observer)
    assert found[what] >= 1


@pytest.mark.parametrize("how", list(LOST))
async def test_an_accepted_turn_that_is_not_whole_is_lost(observer: DatabaseObserver, how: str) -> None:
    turn = TURNS[3].id
    argument = str(turn) if "event" in how else turn
    assert await observer.query(text(LOST[how]), {"turn": argument})
    ended = await counting.read_turn_outcomes(observer, [one.id for one in TURNS])
    assert (ended.lost, len(ended.done)) == (frozenset({turn}), len(TURNS) - 1)


PIECES = {paper: (n, len(split_chunks(paper.content))) for n, paper in enumerate(PAPERS)}
LAST = {rule.id: rule for rule in RULES}
PAPER_LOST = {
    "it is not shown": "update afterturn.agent_memory_doc_t set active = false where doc_id = :doc returning 1",
    "a piece is gone": """
        update afterturn.agent_memory_unit_t set active = false
         where doc_id = :doc and ordinal = 0 returning 1""",
    "a stage did not end": """
        update afterturn.ledger_t set status = 'pending' where turn_id = :doc and stage = 'embedding' returning 1""",
    "its event is gone": """
        delete from afterturn.event_store_t
         where event_type = 'AgentMemoryDocCreatedEvent' and data->>'docId' = cast(:doc as text)
        returning 1""",
}
RULE_LOST = {
    "it is not shown": """
        update afterturn.agent_memory_directive_t set active = false where directive_id = :id returning 1""",
    "it says what it did before": """
        update afterturn.agent_memory_directive_t set content = 'before' where directive_id = :id returning 1""",
}


async def test_without_faults_every_document_and_directive_is_as_it_was_accepted(observer: DatabaseObserver) -> None:
    assert await counting.count_lost_documents(observer, PIECES) == 0
    assert await counting.count_lost_directives(observer, LAST) == 0
    assert min(pieces for _, pieces in PIECES.values()) > 1


@pytest.mark.parametrize("how", list(PAPER_LOST))
async def test_an_accepted_document_that_is_not_whole_is_lost(observer: DatabaseObserver, how: str) -> None:
    doc = str(PAPERS[0].id) if "event" in how else PAPERS[0].id
    assert await observer.query(text(PAPER_LOST[how]), {"doc": doc})
    assert await counting.count_lost_documents(observer, PIECES) == 1


@pytest.mark.parametrize("how", list(RULE_LOST))
async def test_an_accepted_directive_that_says_something_else_is_lost(observer: DatabaseObserver, how: str) -> None:
    rule = next(one for one in LAST.values() if one.content is not None)
    assert await observer.query(text(RULE_LOST[how]), {"id": rule.id})
    assert await counting.count_lost_directives(observer, LAST) == 1


async def test_a_directive_that_ended_and_is_there_again_is_lost(observer: DatabaseObserver) -> None:
    begun = {one.id for one in RULES if one.content is not None}
    rule = next(one for one in LAST.values() if one.content is None and one.id in begun)
    again = "update afterturn.agent_memory_directive_t set active = true where directive_id = :id returning 1"
    assert await observer.query(text(again), {"id": rule.id})
    assert await counting.count_lost_directives(observer, LAST) == 1


async def test_turns_that_died_are_told_apart_by_where(observer: DatabaseObserver) -> None:
    die = "update afterturn.ledger_t set status = :status where turn_id = :turn and stage = :stage returning 1"
    for turn, stage, status in zip(
        TURNS, ("gateway", "gateway", "extraction"), ("add_unknown", "add_failed", "dead"), strict=False
    ):
        assert await observer.query(text(die), {"turn": turn.id, "stage": stage, "status": status})
    how = {"gateway add_unknown": 1, "gateway add_failed": 1, "extraction dead": 1}
    assert await counting.count_dead_turns(observer) == how
    ended = await counting.read_turn_outcomes(observer, [one.id for one in TURNS])
    assert ended.dead == {turn.id for turn in TURNS[:3]}
    assert (ended.unknown, ended.strays) == (frozenset({TURNS[0].id}), frozenset({TURNS[2].id}))


async def test_a_turn_that_was_extracted_after_a_later_one_is_counted(observer: DatabaseObserver) -> None:
    late = """
        update afterturn.event_store_t set position = position + 1000000
         where event_type = 'AgentMemoryUnitEntityLinkedEvent'
           and (data->>'unitId')::uuid in (
               select unit_id from afterturn.agent_memory_unit_t where turn_id = :turn) returning 1"""
    assert await observer.query(text(late), {"turn": SESSIONS[0][0].id})
    assert await counting.count_misordered_extractions(observer) == 1


async def test_a_row_that_never_ended_is_no_recovery_yet_and_one_that_is_not_there_is_none(
    observer: DatabaseObserver,
) -> None:
    stuck, absent = TURNS[0].id, uuid4()
    undo = "update afterturn.ledger_t set status = 'pending' where item_id = :turn and stage = 'embedding' returning 1"
    assert await observer.query(text(undo), {"turn": stuck})
    finished, ended = await read_finishing_times(observer), time.time() - 300.0
    late = FaultEpisode(
        "kill_worker", "worker-1", ended, ended, frozenset({("embedding", stuck), ("embedding", absent)})
    )
    assert (late.recovery(finished) or (0.0,))[0] >= 300.0 - CLOCKS_APART_S
    assert FaultEpisode("kill_api", "api", ended, ended, frozenset({("embedding", absent)})).recovery(finished) is None


async def test_tables_of_the_same_turns_are_equal_until_a_row_changes(
    observer: DatabaseObserver, ingested: TestPostgres
) -> None:
    copy = await ingested.create(f"chaos_{uuid4().hex}", template=ingested.database)
    async with open_observer(copy.owner_url) as other:
        compared = await tables.compare_tables(observer, other)
        assert all(one.equal for one in compared)
        assert {one.table for one in compared if not one.rows} == NONE_IN_A_RUN
        assert await observer.query(text(EQUAL_FACTS_LINKED))  # by maintenance, whose time is its own
        assert all(one.equal for one in await tables.compare_tables(observer, other))
        assert await observer.query(text(PLANTED["cooccurrence"]))
        changed = {one.table: one.differing for one in await tables.compare_tables(observer, other) if not one.equal}
    await copy.drop()
    assert changed == {"cooccurrence": 2}
