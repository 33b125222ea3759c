"""Deletes words and vectors that belong to texts which a replay changed or ended.

The embedding of their turns' messages is begun anew, so that status and counts tell of it. What else is missing
afterwards is made by `store.derived.completion`.
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
# A turn's own row embeds its messages alone.
NOTE_TURNS = text("""
    create temp table changed_turn on commit drop as
    select distinct u.host_id, u.turn_id
      from changed_unit c join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
     where u.active and u.content <> '' and u.turn_id is not null and u.origin <> 'extraction'
       and not exists (select from afterturn.unit_vector_t v
                        where v.host_id = u.host_id and v.bank_id = u.bank_id and v.unit_id = u.unit_id)""")
# Pruned rows are as they were again: the turn is counted where it was, and pruned again later.
RESTORE_PRUNED = text("""
    with back as materialized (
        select t.*, e.key as stage, e.value->>'status' as status, (e.value->>'attempts')::int as attempts,
               (e.value->>'at')::timestamptz as at, e.value->>'category' as category, e.value->>'reason' as reason,
               (e.value->>'target')::uuid as target
          from changed_turn c join afterturn.turn_t t using (host_id, turn_id), jsonb_each(t.ended) e
         where t.ended is not null
    ), opened as (
        insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position,
                                        status, attempts, error_category, error_reason, next_attempt_at, accepted_at,
                                        updated_at, target_id)
        select b.host_id, b.stage, b.turn_id,
               case s.stream when 'session' then b.session_id when 'bank' then b.bank_id else b.turn_id end,
               b.bank_id, b.session_id, b.turn_id, b.position, b.status, b.attempts, b.category, b.reason, b.at,
               b.accepted_at, b.at, b.target
          from back b join afterturn.stages() s on s.stage = b.stage
        on conflict do nothing
    ), discounted as (
        update afterturn.pruned_turns_t c set turns = c.turns - b.turns
          from (select host_id, stage, status, count(*) as turns from back group by 1, 2, 3) b
         where c.host_id = b.host_id and c.stage = b.stage and c.status = b.status
    )
    update afterturn.turn_t t set ended = null from changed_turn c
     where t.host_id = c.host_id and t.turn_id = c.turn_id and t.ended is not null""")
EMBED_AGAIN = text("""
    update afterturn.ledger_t l set status = 'pending', attempts = 0, next_attempt_at = now(), updated_at = now()
      from changed_turn c
     where l.host_id = c.host_id and l.stage = 'embedding' and l.item_id = c.turn_id and l.status = 'done'""")


async def note_changes(connection: AsyncConnection, schema: str, scope: ReplayScope, *, any_: bool) -> None:
    """Note which units (none unless `any_`) and reflections the shadow in `schema` will change, for `drop_stale`.

    In the same transaction.
    """
    arguments = {"host": scope.host, "bank": scope.bank}
    await connection.execute(text(CHANGED.format(schema=schema, some="true" if any_ else "false")), arguments)
    await connection.execute(text(CHANGED_REFLECTIONS.format(schema=schema)), arguments)


async def drop_stale(connection: AsyncConnection) -> None:
    """Delete words and vectors of the units and reflections noted by `note_changes`, after their rows are in place.

    Reopen the embedding of turns whose messages lack vectors then, whose rows may have been pruned.
    """
    await connection.execute(DROP_WORDS)
    await connection.execute(DROP_VECTORS)
    await connection.execute(DROP_VECTORS_OF_REFLECTIONS)
    await connection.execute(NOTE_TURNS)
    await connection.execute(RESTORE_PRUNED)
    await connection.execute(EMBED_AGAIN)
