"""What a bank is more than its turns: co-occurrence, mention counts and term statistics, counted as they come in.

Each counting statement sees one snapshot and marks what it counted in the same breath; a bank has one writer at a
time. The `EXPECTED_*` queries say what the tables must hold if everything were counted from nothing.
"""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

#: Units whose links changed otherwise (a unit was forgotten) that one run takes along.
OTHERS_LIMIT = 1000

# A link's state before is `counted`, after is "not removed". A pair of links holds when both do; the change of a
# pair's count is what it is after less what it was before.
COUNT_LINKS = text("""
    with touched as (
        select u.unit_id from afterturn.agent_memory_unit_t u
         where u.host_id = :host and u.bank_id = :bank and u.turn_id = any(cast(:turns as uuid[]))
           and (select true from afterturn.agent_memory_unit_entity_t l
                 where l.host_id = :host and l.bank_id = :bank and l.unit_id = u.unit_id
                   and l.counted <> (l.removed_at is null) limit 1)
        union
        (select l.unit_id from afterturn.agent_memory_unit_entity_t l
          where l.host_id = :host and l.bank_id = :bank and l.counted <> (l.removed_at is null) limit :others)
    ), links as materialized (
        select t.unit_id, l.entity_id, l.mentions, l.counted as before, l.after, u.event_date
          from touched t,
               lateral (select l.entity_id, l.mentions, l.counted, l.removed_at is null as after
                          from afterturn.agent_memory_unit_entity_t l
                         where l.host_id = :host and l.bank_id = :bank and l.unit_id = t.unit_id offset 0) l,
               lateral (select u.event_date from afterturn.agent_memory_unit_t u
                         where u.host_id = :host and u.bank_id = :bank and u.unit_id = t.unit_id offset 0) u
    ), pairs as (
        select a.entity_id as first, b.entity_id as second,
               sum((a.after and b.after)::int - (a.before and b.before)::int) as change,
               max(a.event_date) filter (where a.after and b.after) as newest,
               bool_or(a.before and b.before) as lost
          from links a join links b on b.unit_id = a.unit_id and a.entity_id < b.entity_id
         where (a.after and b.after) <> (a.before and b.before)
         group by 1, 2
    ), marked as (
        update afterturn.agent_memory_unit_entity_t l set counted = k.after
          from links k
         where l.host_id = :host and l.bank_id = :bank and l.unit_id = k.unit_id and l.entity_id = k.entity_id
           and k.before <> k.after
    ), mentioned as (
        update afterturn.agent_memory_entity_t e set mention_count = e.mention_count + m.change
          from (select k.entity_id, sum((k.after::int - k.before::int) * k.mentions)::int as change
                  from links k where k.before <> k.after group by 1) m
         where e.host_id = :host and e.bank_id = :bank and e.entity_id = m.entity_id
    ), counted as (
        insert into afterturn.agent_memory_entity_cooccur_t as c
            (host_id, bank_id, entity_id_1, entity_id_2, cooccur_count, last_cooccurred)
        select cast(:host as uuid), cast(:bank as uuid), p.first, p.second, p.change,
               coalesce(p.newest, '-infinity')
          from pairs p
        on conflict (host_id, bank_id, entity_id_1, entity_id_2) do update
           set cooccur_count = c.cooccur_count + excluded.cooccur_count,
               last_cooccurred = greatest(c.last_cooccurred, excluded.last_cooccurred)
    )
    select p.first, p.second from pairs p where p.lost""")
FORGET_PAIRS = text("""
    delete from afterturn.agent_memory_entity_cooccur_t c
     using unnest(cast(:first as uuid[]), cast(:second as uuid[])) as p(first, second)
     where c.host_id = :host and c.bank_id = :bank and c.entity_id_1 = p.first and c.entity_id_2 = p.second
       and c.cooccur_count = 0""")
# A pair that lost a unit may have lost its newest.
REDATE_PAIRS = text("""
    update afterturn.agent_memory_entity_cooccur_t c
       set last_cooccurred = (
            select max(u.event_date)
              from afterturn.agent_memory_unit_entity_t a
              join afterturn.agent_memory_unit_entity_t b using (host_id, bank_id, unit_id)
              join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
             where a.host_id = :host and a.bank_id = :bank and a.entity_id = p.first and b.entity_id = p.second
               and a.counted and b.counted)
      from unnest(cast(:first as uuid[]), cast(:second as uuid[])) as p(first, second)
     where c.host_id = :host and c.bank_id = :bank and c.entity_id_1 = p.first and c.entity_id_2 = p.second""")

COUNT_TERMS = text("""
    insert into afterturn.term_t as t (host_id, bank_id, term, df)
    select cast(:host as uuid), cast(:bank as uuid), p.term, count(*)
      from afterturn.agent_memory_unit_t u,
           lateral (select p.term from afterturn.posting_t p
                     where p.host_id = :host and p.bank_id = :bank and p.unit_id = u.unit_id offset 0) p
     where u.host_id = :host and u.bank_id = :bank and u.turn_id = any(cast(:turns as uuid[])) and u.active
     group by p.term
    on conflict (host_id, bank_id, term) do update set df = t.df + excluded.df""")
COUNT_UNITS = text("""
    insert into afterturn.bank_statistics_t as s (host_id, bank_id, units, tokens)
    select cast(:host as uuid), cast(:bank as uuid), count(*),
           coalesce(sum((select p.length from afterturn.posting_t p
                          where p.host_id = :host and p.bank_id = :bank and p.unit_id = u.unit_id limit 1)), 0)
      from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.bank_id = :bank and u.turn_id = any(cast(:turns as uuid[])) and u.active
    on conflict (host_id, bank_id) do update
       set units = s.units + excluded.units, tokens = s.tokens + excluded.tokens""")

EXPECTED_PAIRS = text("""
    select a.entity_id as entity_id_1, b.entity_id as entity_id_2, count(*)::int as cooccur_count,
           max(u.event_date) as last_cooccurred
      from afterturn.agent_memory_unit_entity_t a
      join afterturn.agent_memory_unit_entity_t b using (host_id, bank_id, unit_id)
      join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
     where host_id = :host and bank_id = :bank and a.entity_id < b.entity_id
       and a.removed_at is null and b.removed_at is null
     group by 1, 2 order by 1, 2""")
EXPECTED_MENTIONS = text("""
    select e.entity_id, coalesce(sum(l.mentions) filter (where l.removed_at is null), 0)::int as mention_count
      from afterturn.agent_memory_entity_t e
      left join afterturn.agent_memory_unit_entity_t l using (host_id, bank_id, entity_id)
     where host_id = :host and bank_id = :bank group by 1 order by 1""")
EXPECTED_TERMS = text("""
    select term, count(*) as df from afterturn.posting_t
     where host_id = :host and bank_id = :bank group by 1 order by 1""")
EXPECTED_STATISTICS = text("""
    select count(*) as units,
           coalesce(sum((select p.length from afterturn.posting_t p
                          where p.host_id = u.host_id and p.bank_id = u.bank_id and p.unit_id = u.unit_id limit 1)), 0)
               as tokens
      from afterturn.agent_memory_unit_t u where u.host_id = :host and u.bank_id = :bank and u.active""")


async def count_links(connection: AsyncConnection, host: UUID, bank: UUID, turns: Sequence[UUID]) -> None:
    """Count the links of these turns, and others of the bank that changed: pairs, their newest date, mentions."""
    arguments = {"host": host, "bank": bank, "turns": list(turns), "others": OTHERS_LIMIT}
    lost = (await connection.execute(COUNT_LINKS, arguments)).all()
    if lost:
        pairs = {"first": [row.first for row in lost], "second": [row.second for row in lost]}
        await connection.execute(FORGET_PAIRS, {"host": host, "bank": bank, **pairs})
        await connection.execute(REDATE_PAIRS, {"host": host, "bank": bank, **pairs})


async def count_words(connection: AsyncConnection, host: UUID, bank: UUID, turns: Sequence[UUID]) -> None:
    """Count the units of these turns and the terms they hold; the caller sees to it that no turn is counted twice."""
    arguments = {"host": host, "bank": bank, "turns": list(turns)}
    await connection.execute(COUNT_TERMS, arguments)
    await connection.execute(COUNT_UNITS, arguments)
