"""Repairs words and vectors after a replay changed their rows.

A vector belongs to a text: that of a unit that has ended or changed its text is deleted, and the unit's turn goes to
the embedding stage again; likewise for reflections. Words are written at once.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.postings import UnitTerms, count_unit_terms, insert_postings
from store.derived.reflection_vectors import ChangedReflection, open_rows
from store.log.envelope import Origin
from store.replay.shadow import ReplayScope
from store.tenancy import languages

# Asked before the shadow's rows are put in place.
CHANGED = """
    create temp table changed_unit on commit drop as
    select host_id, bank_id, unit_id,
           n.unit_id is null or not n.active or o.content is not null and o.content <> n.content as stale
      from afterturn.agent_memory_unit_t o
      full join {schema}.agent_memory_unit_t n using (host_id, bank_id, unit_id)
     where (cast(:host as uuid) is null or host_id = :host) and (cast(:bank as uuid) is null or bank_id = :bank)
       and {some} and (o.content, o.active) is distinct from (n.content, n.active)"""
CHANGED_REFLECTIONS = """
    create temp table changed_reflection on commit drop as
    select host_id, bank_id, reflection_id
      from afterturn.agent_memory_reflection_t o
      full join {schema}.agent_memory_reflection_t n using (host_id, bank_id, reflection_id)
     where (cast(:host as uuid) is null or host_id = :host) and (cast(:bank as uuid) is null or bank_id = :bank)
       and (o.content, o.active) is distinct from (n.content, n.active)"""
DROP_VECTORS_OF_REFLECTIONS = text("""
    delete from afterturn.unit_vector_t v using changed_reflection c
     where v.host_id = c.host_id and v.bank_id = c.bank_id and v.unit_id = c.reflection_id""")
EMBED_REFLECTIONS_AGAIN = text("""
    update afterturn.ledger_t l set status = 'pending', attempts = 0, next_attempt_at = now(), updated_at = now()
      from changed_reflection c
     where l.host_id = c.host_id and l.bank_id = c.bank_id and l.session_id = c.reflection_id
       and l.stage = 'embedding' and l.status = 'done'""")
# Rows of the ledger may have been pruned with their turns.
REFLECTIONS = text("""
    select r.host_id, r.bank_id, r.reflection_id, max(e.position) as position, r.update_ts
      from changed_reflection c
      join afterturn.agent_memory_reflection_t r using (host_id, bank_id, reflection_id)
      join afterturn.event_store_t e
        on e.host_id = r.host_id and e.bank_id = r.bank_id and e.aggregate_key = cast(r.reflection_id as text)
     where r.active and r.content <> ''
     group by r.host_id, r.bank_id, r.reflection_id""")
DROP_WORDS = text("""
    select count(*)
      from (select host_id, bank_id, array_agg(unit_id) as units from changed_unit where stale group by 1, 2) c,
           lateral afterturn.drop_words(c.host_id, c.bank_id, c.units)""")
DROP_VECTORS = text("""
    delete from afterturn.unit_vector_t v using changed_unit c
     where c.stale and v.host_id = c.host_id and v.bank_id = c.bank_id and v.unit_id = c.unit_id""")
WORDLESS = text("""
    select u.host_id, u.bank_id, u.unit_id, u.name, u.role, u.event_date, u.content, u.origin,
           u.context
      from changed_unit c join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
     where u.active and not exists (select from afterturn.unit_word_t w where w.host_id = u.host_id
                                       and w.bank_id = u.bank_id and w.unit_id = u.unit_id)""")
OPEN_AGAIN = text("""
    select afterturn.unprune(u.host_id, array_agg(distinct u.turn_id))
      from changed_unit c join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
     where u.active and not exists (select from afterturn.unit_vector_t v where v.host_id = u.host_id
                                       and v.bank_id = u.bank_id and v.unit_id = u.unit_id)
     group by u.host_id""")
EMBED_AGAIN = text("""
    update afterturn.ledger_t l set status = 'pending', attempts = 0, next_attempt_at = now(), updated_at = now()
      from changed_unit c join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
     where u.active and l.host_id = u.host_id and l.stage = 'embedding' and l.turn_id = u.turn_id and l.status = 'done'
       and not exists (select from afterturn.unit_vector_t v where v.host_id = u.host_id
                          and v.bank_id = u.bank_id and v.unit_id = u.unit_id)""")


async def note_changes(connection: AsyncConnection, schema: str, scope: ReplayScope, *, any_: bool) -> None:
    """Note which units (none unless `any_`) and reflections the shadow in `schema` will change, for `mend_rows`.

    In the same transaction.
    """
    arguments = {"host": scope.host, "bank": scope.bank}
    await connection.execute(text(CHANGED.format(schema=schema, some="true" if any_ else "false")), arguments)
    await connection.execute(text(CHANGED_REFLECTIONS.format(schema=schema)), arguments)


async def mend_rows(connection: AsyncConnection) -> None:
    """Correct words and vectors of the units and reflections noted by `note_changes`, after their rows are in place."""
    await connection.execute(DROP_WORDS)
    await connection.execute(DROP_VECTORS)
    await connection.execute(DROP_VECTORS_OF_REFLECTIONS)
    await connection.execute(EMBED_REFLECTIONS_AGAIN)
    for row in (await connection.execute(REFLECTIONS)).all():
        origin = Origin(row.host_id, row.bank_id, row.host_id, row.update_ts)
        await open_rows(connection, origin, [ChangedReflection(row.reflection_id, row.reflection_id)], row.position)
    await _mend_words(connection, (await connection.execute(WORDLESS)).all())
    await connection.execute(OPEN_AGAIN)
    await connection.execute(EMBED_AGAIN)


async def _mend_words(connection: AsyncConnection, units: Sequence[Row[Any]]) -> None:
    by_bank: dict[tuple[UUID, UUID], list[UnitTerms]] = defaultdict(list)
    known = {host: await languages.read_languages(connection, host) for host in {unit.host_id for unit in units}}
    for unit in units:
        rules = languages.rules_for_writing(known[unit.host_id], unit.bank_id)
        by_bank[unit.host_id, unit.bank_id].append(count_unit_terms(unit, rules))
    for (host, bank), words in by_bank.items():
        await insert_postings(connection, host, bank, words)
