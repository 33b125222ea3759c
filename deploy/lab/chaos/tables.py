"""Compares tables of two databases by their content: names, texts and counts, without positions and work times."""

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import text

from deploy.lab.chaos.database_observer import DatabaseObserver

#: A query of the compared columns for each table, or part of one. Ids are derived from names, so the same turns have
#: the same ids. Columns that depend on which session is first (an entity's first spelling, versions) are left out.
COMPARED = {
    "banks": """
        select bank_id, bank_name, agent_def_id, disposition, background
          from afterturn.agent_memory_bank_t where active""",
    "documents": """
        select bank_id, doc_id, original_text, content_hash from afterturn.agent_memory_doc_t where active""",
    "directives": """
        select bank_id, directive_id, name, content, priority
          from afterturn.agent_memory_directive_t where active""",
    "turns": "select bank_id, session_id, turn_id from afterturn.turn_t",
    "units": """
        select bank_id, unit_id, session_name, turn_name, ordinal, seq, role, name, content, event_date, mentioned_at,
               fact_type, origin, metadata, source_memory_ids
          from afterturn.agent_memory_unit_t where active""",
    "sessions": """
        select bank_id, session_id, session_name, message_count, turn_count, metadata
          from afterturn.agent_session_history_t where active""",
    # Without summaries: when they are written, and so what they tell, depends on how fast the stages are.
    "messages_without_units": """
        select bank_id, session_id, seq, message from afterturn.session_message_t where seq >= 0""",
    "entities": """
        select bank_id, entity_id, metadata->>'normalised', mention_count
          from afterturn.agent_memory_entity_t where active""",
    "mentions": """
        select bank_id, unit_id, entity_id, mentions, name, kind, counted
          from afterturn.agent_memory_unit_entity_t where removed_at is null""",
    "cooccurrence": """
        select bank_id, entity_id_1, entity_id_2, cooccur_count, last_cooccurred
          from afterturn.agent_memory_entity_cooccur_t""",
    # Without the links of equal facts, which maintenance writes in its time; `consolidated_by` of facts says the same.
    "links": """
        select bank_id, from_unit_id, to_unit_id, link_type, weight
          from afterturn.agent_memory_link_t where active and link_type <> 'semantic'""",
    "reflections": """
        select bank_id, reflection_id, content from afterturn.agent_memory_reflection_t where active""",
    "facts": """
        select bank_id, unit_id, subject, fact_id, key, value, denied, valid_from, valid_to, superseded_by,
               consolidated_by
          from afterturn.fact_t""",
    "entity_names": "select bank_id, entity_id, name, kind, mentions from afterturn.entity_name_t",
    "entity_profiles": """
        select bank_id, entity_id, canonical_id, name, kind, folded, stem, mentions
          from afterturn.entity_profile_t""",
    "words": "select bank_id, unit_id, term, tf, length from afterturn.posting_t",
    "term_counts": "select bank_id, term, df from afterturn.term_t",
    "statistics": "select bank_id, units, tokens from afterturn.bank_statistics_t",
    # Without the numbers, whose last digits depend on the batch in which a vector was computed.
    "vectors": "select bank_id, unit_id, chunk from afterturn.unit_vector_t",
}
DIGEST = """
    select count(*) as rows,
           sha256(convert_to(coalesce(string_agg(r.line, E'\\n' order by r.line collate "C"), ''), 'UTF8')) as digest
      from (select q::text as line from ({query}) q) r"""
ROWS = "select q::text as line from ({query}) q"


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The comparison of a table: number of rows with and without faults, and of rows on only one side."""

    table: str
    rows: int
    rows_without_faults: int
    differing: int

    @property
    def equal(self) -> bool:
        """Whether both sides have the same rows."""
        return not self.differing


async def compare_tables(live: DatabaseObserver, undisturbed: DatabaseObserver) -> list[TableComparison]:
    """Return the comparison of every table of two databases."""
    return [await _compare_table(live, undisturbed, table, query) for table, query in COMPARED.items()]


async def _compare_table(
    live: DatabaseObserver, undisturbed: DatabaseObserver, table: str, query: str
) -> TableComparison:
    digest = text(DIGEST.format(query=query))
    (ours,), (theirs,) = await live.query(digest), await undisturbed.query(digest)
    differing = 0 if ours.digest == theirs.digest else await _count_differing(live, undisturbed, query)
    return TableComparison(table, ours.rows, theirs.rows, differing)


async def _count_differing(live: DatabaseObserver, undisturbed: DatabaseObserver, query: str) -> int:
    ours, theirs = await _read_rows(live, query), await _read_rows(undisturbed, query)
    return (ours - theirs).total() + (theirs - ours).total()


async def _read_rows(observer: DatabaseObserver, query: str) -> Counter[str]:
    return Counter(str(row.line) for row in await observer.query(text(ROWS.format(query=query))))
