"""Counts lost and duplicated turns in the database, by natural keys."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from deploy.lab.chaos.database_observer import DatabaseObserver
from deploy.lab.chaos.knowledge import PlannedDirective, PlannedDocument
from store.ledger.ledger import public_status
from store.ledger.stages import TURN_STAGES

#: The stages that every turn of a run must pass; its tenant has a gateway target from the start.
STAGES_OF_TURNS = frozenset(stage.value for stage in TURN_STAGES)
#: The stages that every document must pass; documents are not delivered to a gateway.
STAGES_OF_DOCUMENTS = STAGES_OF_TURNS - {"gateway"}

LEDGER = text("select turn_id, stage, item_id = turn_id as own, status from afterturn.ledger_t")
DEAD_AS = text("""
    select concat_ws(' ', stage, status, error_category) as how, count(distinct turn_id)::int as turns
      from afterturn.ledger_t where failed_at is not null
     group by 1 order by 1""")
# A turn is in the log when its row in turn_t, its event and both of its messages exist.
IN_LOG = text("""
    select t.turn_id
      from afterturn.turn_t t
      join (select (data->>'turnId')::uuid as turn_id from afterturn.event_store_t
             where event_type = 'AgentSessionHistoryAppendedEvent') e using (turn_id)
      join (select turn_id from afterturn.agent_memory_unit_t where origin = 'message' and active
             group by turn_id having count(*) >= 2) u using (turn_id)""")

# A document is complete when its event and all its pieces exist, and each of its stages has ended.
DOCUMENTS = text("""
    select d.doc_id,
           (select count(*) from afterturn.agent_memory_unit_t u
             where u.bank_id = d.bank_id and u.doc_id = d.doc_id and u.origin = 'document' and u.active) as pieces,
           (select count(*) from afterturn.ledger_t l
             where l.turn_id = d.doc_id and l.item_id = d.doc_id and l.stage <> 'gateway' and not l.undone) as ended
      from afterturn.agent_memory_doc_t d
     where d.active and exists (select from afterturn.event_store_t e
                                 where e.event_type = 'AgentMemoryDocCreatedEvent'
                                   and e.data->>'docId' = d.doc_id::text)""")
DIRECTIVES = text("""
    select directive_id, name, content, priority from afterturn.agent_memory_directive_t where active""")

#: Each query returns one row for each duplicate, or for each counter that is too high.
TWICE = {
    "turns_appended": """
        select data->>'turnId' from afterturn.event_store_t
         where event_type = 'AgentSessionHistoryAppendedEvent' group by 1 having count(*) > 1""",
    "units_retained": """
        select data->>'unitId' from afterturn.event_store_t
         where event_type = 'AgentMemoryUnitRetainedEvent' group by 1 having count(*) > 1""",
    "mentions_linked": """
        select data->>'unitId', data->>'entityId' from afterturn.event_store_t
         where event_type = 'AgentMemoryUnitEntityLinkedEvent' group by 1, 2 having count(*) > 1""",
    "messages": """
        select bank_id, session_name, turn_name, role, content from afterturn.agent_memory_unit_t
         where origin = 'message' and active group by 1, 2, 3, 4, 5 having count(*) > 1""",
    "places_in_session": """
        select bank_id, session_id, seq from afterturn.agent_memory_unit_t
         where seq is not null group by 1, 2, 3 having count(*) > 1""",
    "facts": """
        select bank_id, session_name, turn_name, content from afterturn.agent_memory_unit_t
         where origin = 'extraction' and active group by 1, 2, 3, 4 having count(*) > 1""",
    "documents": """
        select bank_id, content_hash from afterturn.agent_memory_doc_t
         where active group by 1, 2 having count(*) > 1""",
    "pieces": """
        select bank_id, doc_id, ordinal from afterturn.agent_memory_unit_t
         where origin = 'document' and active group by 1, 2, 3 having count(*) > 1""",
    "directives": """
        select bank_id, name from afterturn.agent_memory_directive_t where active group by 1, 2 having count(*) > 1""",
    "vectors": """
        select bank_id, unit_id, chunk from afterturn.unit_vector_t group by 1, 2, 3 having count(*) > 1""",
    "session_counts": """
        select 1 from afterturn.agent_session_history_t s
         where s.turn_count > (select count(*) from afterturn.turn_t t where t.session_id = s.session_id)
            or s.message_count > (select count(*) from afterturn.agent_memory_unit_t u
                                   where u.session_id = s.session_id and u.origin = 'message')""",
    "cooccurrence": """
        select 1 from afterturn.agent_memory_entity_cooccur_t c
          left join (select bank_id, a.entity_id as first, b.entity_id as second, count(*) as units
                       from afterturn.agent_memory_unit_entity_t a
                       join afterturn.agent_memory_unit_entity_t b using (bank_id, unit_id)
                      where a.entity_id < b.entity_id and a.removed_at is null and b.removed_at is null
                      group by 1, 2, 3) e
            on e.bank_id = c.bank_id and e.first = c.entity_id_1 and e.second = c.entity_id_2
         where c.cooccur_count > coalesce(e.units, 0)""",
    "mention_counts": """
        select 1 from afterturn.agent_memory_entity_t e
         where e.mention_count > (select coalesce(sum(l.mentions), 0) from afterturn.agent_memory_unit_entity_t l
                                   where l.bank_id = e.bank_id and l.entity_id = e.entity_id
                                     and l.removed_at is null)""",
    "term_counts": """
        select 1 from afterturn.term_t t
          left join (select bank_id, term, count(distinct unit_id) as units from afterturn.posting_t
                      group by 1, 2) p using (bank_id, term)
         where t.df > coalesce(p.units, 0)""",
    "unit_counts": """
        select 1 from afterturn.bank_statistics_t s
         where s.units > (select count(*) from afterturn.agent_memory_unit_t u
                           where u.bank_id = s.bank_id and u.active)""",
}
# Turns whose extracted events precede an event extracted from an earlier turn of the session.
EXTRACTED_LATE = text("""
    with written as (
        select u.turn_id, e.position from afterturn.event_store_t e
          join afterturn.agent_memory_unit_t u on u.unit_id = (e.data->>'unitId')::uuid
         where e.event_type = 'AgentMemoryUnitEntityLinkedEvent'
            or (e.event_type = 'AgentMemoryUnitRetainedEvent' and u.origin = 'extraction')
    ), turns as (
        select t.session_id, t.position, min(w.position) as first, max(w.position) as last
          from written w join afterturn.turn_t t using (turn_id) group by 1, 2
    )
    select 1 from (select first, max(last) over (partition by session_id order by position
                                               rows between unbounded preceding and 1 preceding) as before
                   from turns) o
     where before > first""")


@dataclass(frozen=True, slots=True)
class TurnOutcomes:
    """The outcomes of the accepted turns: each is done, dead or lost; `unknown` and `strays` are among the dead.

    `delivered` are turns that the ledger records as delivered to the gateway; `strays` are turns that died in another
    stage.
    """

    done: frozenset[UUID]
    dead: frozenset[UUID]
    lost: frozenset[UUID]
    unknown: frozenset[UUID]
    strays: frozenset[UUID]
    delivered: frozenset[UUID]


async def read_turn_outcomes(observer: DatabaseObserver, accepted: Collection[UUID]) -> TurnOutcomes:
    """Return how each accepted turn ended; lost are turns without log entry, without a stage, or with undone work."""
    in_log = {row.turn_id for row in await observer.query(IN_LOG)}
    stages: dict[UUID, dict[str, str]] = {turn: {} for turn in accepted}
    rows: dict[UUID, set[tuple[str, str]]] = {turn: set() for turn in accepted}
    for row in await observer.query(LEDGER):
        if row.turn_id in rows:
            rows[row.turn_id].add((row.stage, public_status(row.status)))
            if row.own:
                stages[row.turn_id][row.stage] = row.status
    lost = {turn for turn in accepted if turn not in in_log or not _has_ended(stages[turn], rows[turn])}
    dead = {turn for turn in accepted if turn not in lost and _select_stages(rows[turn], "dead", "unknown")}
    return TurnOutcomes(
        done=frozenset(set(accepted) - lost - dead),
        dead=frozenset(dead),
        lost=frozenset(lost),
        unknown=frozenset(turn for turn in dead if "gateway" in _select_stages(rows[turn], "unknown")),
        strays=frozenset(turn for turn in dead if _select_stages(rows[turn], "dead", "unknown") - {"gateway"}),
        delivered=frozenset(turn for turn in accepted if stages[turn].get("gateway") in {"flushed", "flush_failed"}),
    )


async def count_lost_documents(observer: DatabaseObserver, papers: Mapping[PlannedDocument, tuple[int, int]]) -> int:
    """Return the number of accepted documents that are incomplete; `papers` holds each one's position and pieces."""
    found = {row.doc_id: row for row in await observer.query(DOCUMENTS)}
    lost = [
        paper
        for paper, (_, pieces) in papers.items()
        if paper.id not in found or found[paper.id].pieces != pieces or found[paper.id].ended < len(STAGES_OF_DOCUMENTS)
    ]
    return len(lost)


async def count_lost_directives(observer: DatabaseObserver, rules: Mapping[UUID, PlannedDirective]) -> int:
    """Return the number of directives that differ from their last accepted change, or exist although they ended."""
    found = {row.directive_id: (row.name, row.content, row.priority) for row in await observer.query(DIRECTIVES)}
    wanted = {id_: rule.content and (rule.name, rule.content, rule.priority) for id_, rule in rules.items()}
    return sum(found.get(id_) != told for id_, told in wanted.items())


async def count_dead_turns(observer: DatabaseObserver) -> Mapping[str, int]:
    """Return the number of dead turns by stage, status and kind of error."""
    return {row.how: row.turns for row in await observer.query(DEAD_AS)}


async def count_duplicates(observer: DatabaseObserver) -> Mapping[str, int]:
    """Return the number of duplicates and of counters that are too high, by kind."""
    return {name: len(await observer.query(text(query))) for name, query in TWICE.items()}


async def count_misordered_extractions(observer: DatabaseObserver) -> int:
    """Return the number of turns that were extracted after a later turn of their session."""
    return len(await observer.query(EXTRACTED_LATE))


def _has_ended(stages: Mapping[str, str], rows: Collection[tuple[str, str]]) -> bool:
    return set(stages) >= STAGES_OF_TURNS and not _select_stages(rows, "pending", "running")


def _select_stages(rows: Collection[tuple[str, str]], *statuses: str) -> set[str]:
    return {stage for stage, status in rows if status in statuses}
