"""Deletes words and vectors that belong to texts which a replay changed or ended.

What is missing afterwards is made by `store.derived.completion`.
"""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.replay.shadow import ReplayScope

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
DROP_WORDS = text("""
    select count(*)
      from (select host_id, bank_id, array_agg(unit_id) as units from changed_unit where stale group by 1, 2) c,
           lateral afterturn.drop_words(c.host_id, c.bank_id, c.units)""")
DROP_VECTORS = text("""
    delete from afterturn.unit_vector_t v using changed_unit c
     where c.stale and v.host_id = c.host_id and v.bank_id = c.bank_id and v.unit_id = c.unit_id""")


async def note_changes(connection: AsyncConnection, schema: str, scope: ReplayScope, *, any_: bool) -> None:
    """Note which units (none unless `any_`) and reflections the shadow in `schema` will change, for `drop_stale`.

    In the same transaction.
    """
    arguments = {"host": scope.host, "bank": scope.bank}
    await connection.execute(text(CHANGED.format(schema=schema, some="true" if any_ else "false")), arguments)
    await connection.execute(text(CHANGED_REFLECTIONS.format(schema=schema)), arguments)


async def drop_stale(connection: AsyncConnection) -> None:
    """Delete words and vectors of the units and reflections noted by `note_changes`, after their rows are in place."""
    await connection.execute(DROP_WORDS)
    await connection.execute(DROP_VECTORS)
    await connection.execute(DROP_VECTORS_OF_REFLECTIONS)
