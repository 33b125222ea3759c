"""Counts co-occurrence, mentions and term statistics of a bank as turns come in.

Each counting statement reads one snapshot and marks the rows it counted in the same statement; a bank has one writer
at a time. The `EXPECTED_*` queries return what the tables must hold, counted from nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, FromClause, Integer, Select, cast, exists, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.log.locks import SHARE_BANK, hold_lock
from store.schema import ENTITY_COOCCUR, UNIT, UNIT_ENTITY, in_bank, same_bank

#: The most units with links changed for other reasons (a unit was forgotten) that one run counts as well.
OTHERS_LIMIT = 1000

#: Entities of a unit that make pairs, those it names first: pairs grow with the square, and what names more is a list.
PAIRED = 32
# A link counted before has `counted`; it counts afterwards unless it is removed. A pair counts when both of its links
# do and are among the first PAIRED of their unit; the change of its count is the value after minus that before. The
# changed rows are joined by their keys once more, because a plan for many links would read those of every bank.
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
        select t.unit_id, l.entity_id, l.mentions, l.name, l.kind, l.counted as before, l.after, u.event_date,
               l.counted and row_number() over (
                   partition by t.unit_id, l.counted order by l.place, l.entity_id) <= :paired as paired_before,
               l.after and row_number() over (
                   partition by t.unit_id, l.after order by l.place, l.entity_id) <= :paired as paired_after
          from touched t,
               lateral (select l.entity_id, l.mentions, coalesce(l.name, '') as name, coalesce(l.kind, '') as kind,
                               l.place, l.counted, l.removed_at is null as after
                          from afterturn.agent_memory_unit_entity_t l
                         where l.host_id = :host and l.bank_id = :bank and l.unit_id = t.unit_id offset 0) l,
               lateral (select u.event_date from afterturn.agent_memory_unit_t u
                         where u.host_id = :host and u.bank_id = :bank and u.unit_id = t.unit_id offset 0) u
    ), pairs as (
        select a.entity_id as first, b.entity_id as second,
               sum((a.paired_after and b.paired_after)::int - (a.paired_before and b.paired_before)::int) as change,
               max(a.event_date) filter (where a.paired_after and b.paired_after) as newest,
               bool_or(a.paired_before and b.paired_before) as lost
          from links a join links b on b.unit_id = a.unit_id and a.entity_id < b.entity_id
         where (a.paired_before or a.paired_after) and (b.paired_before or b.paired_after)
           and (a.paired_after and b.paired_after) <> (a.paired_before and b.paired_before)
         group by 1, 2
    ), marked as (
        update afterturn.agent_memory_unit_entity_t l set counted = k.after
          from links k
         where l.host_id = :host and l.bank_id = :bank and l.unit_id = k.unit_id and l.entity_id = k.entity_id
           and k.before <> k.after and l.unit_id = any (array(select k.unit_id from links k))
    ), mentioned as (
        update afterturn.agent_memory_entity_t e set mention_count = e.mention_count + m.change
          from (select k.entity_id, sum((k.after::int - k.before::int) * k.mentions)::int as change
                  from links k where k.before <> k.after group by 1) m
         where e.host_id = :host and e.bank_id = :bank and e.entity_id = m.entity_id
           and e.entity_id = any (array(select k.entity_id from links k))
    ), named as (
        insert into afterturn.entity_name_t as t (host_id, bank_id, entity_id, name, kind, mentions)
        select cast(:host as uuid), cast(:bank as uuid), k.entity_id, k.name, k.kind,
               sum((k.after::int - k.before::int) * k.mentions)
          from links k where k.before <> k.after group by k.entity_id, k.name, k.kind
        on conflict (host_id, bank_id, entity_id, name, kind) do update set mentions = t.mentions + excluded.mentions
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
    select p.first, p.second from pairs p where p.lost
    union all
    select distinct k.entity_id, cast(null as uuid) from links k where k.before <> k.after""").bindparams(paired=PAIRED)
FORGET_PAIRS = text("""
    delete from afterturn.agent_memory_entity_cooccur_t c
     using unnest(cast(:first as uuid[]), cast(:second as uuid[])) as p(first, second)
     where c.host_id = :host and c.bank_id = :bank and c.entity_id_1 = p.first and c.entity_id_2 = p.second
       and c.cooccur_count = 0""")
# A pair that lost a unit may have lost the newest one, so its time is recomputed.
REDATE_PAIRS = text("""
    update afterturn.agent_memory_entity_cooccur_t c
       set last_cooccurred = (
            select max(u.event_date)
              from afterturn.agent_memory_unit_entity_t a
              join afterturn.agent_memory_unit_entity_t b using (host_id, bank_id, unit_id)
              join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
             where a.host_id = :host and a.bank_id = :bank and a.entity_id = p.first and b.entity_id = p.second
               and a.counted and b.counted
               and (select count(*) from afterturn.agent_memory_unit_entity_t o
                     where o.host_id = a.host_id and o.bank_id = a.bank_id and o.unit_id = a.unit_id
                       and o.counted and (o.place, o.entity_id) <= (a.place, a.entity_id)) <= :paired
               and (select count(*) from afterturn.agent_memory_unit_entity_t o
                     where o.host_id = b.host_id and o.bank_id = b.bank_id and o.unit_id = b.unit_id
                       and o.counted and (o.place, o.entity_id) <= (b.place, b.entity_id)) <= :paired)
      from unnest(cast(:first as uuid[]), cast(:second as uuid[])) as p(first, second)
     where c.host_id = :host and c.bank_id = :bank and c.entity_id_1 = p.first
       and c.entity_id_2 = p.second""").bindparams(paired=PAIRED)
PAIRS_OF_UNIT = text("""
    select a.entity_id as first, b.entity_id as second
      from afterturn.agent_memory_unit_entity_t a
      join afterturn.agent_memory_unit_entity_t b using (host_id, bank_id, unit_id)
     where a.host_id = :host and a.bank_id = :bank and a.unit_id = :unit and a.counted and b.counted
       and a.entity_id < b.entity_id""")

# The first condition is that of the index `unit_entity_uncounted`; links that come are counted with their turns.
REMOVED_LINKS = select(
    exists().where(
        in_bank(UNIT_ENTITY),
        UNIT_ENTITY.c.counted != UNIT_ENTITY.c.removed_at.is_(None),
        UNIT_ENTITY.c.removed_at.is_not(None),
    )
)

#: The most units whose words one statement moves into the word index.
UNITS_LIMIT = 500
# The lock of word indexing excludes only a rebuild and the end of the bank.
LOCK_WORDS = select(hold_lock("words", "bank"))
POST_WORDS = text("select carried, forgotten, terms from afterturn.post_words(:host, :bank, :units, :back)")
FORGET_TERMS = text("""
    delete from afterturn.term_t t using unnest(cast(:terms as text[])) f(term)
     where t.host_id = :host and t.bank_id = :bank and t.term = f.term and t.df = 0""")
FORGET_NAMES = text("""
    delete from afterturn.entity_name_t t using unnest(cast(:entities as uuid[])) f(entity_id)
     where t.host_id = :host and t.bank_id = :bank and t.entity_id = f.entity_id and t.mentions = 0""")


def select_first_links(link: FromClause, *holding: ColumnElement[bool]) -> Select[UUID, UUID, UUID, UUID]:
    """Return the query of the links (rows of UNIT_ENTITY) to the first PAIRED entities of their units, if `holding`."""
    place = func.row_number().over(
        partition_by=[link.c.host_id, link.c.bank_id, link.c.unit_id], order_by=[link.c.place, link.c.entity_id]
    )
    key = ("host_id", "bank_id", "unit_id", "entity_id")
    placed = select(*(link.c[name] for name in key), place.label("nth")).where(*holding).subquery("placed")
    return select(*(placed.c[name] for name in key)).where(placed.c.nth <= PAIRED)


def _expect_pairs() -> Select[UUID, UUID, int, datetime]:
    link, unit = UNIT_ENTITY.alias("l"), UNIT.alias("u")
    links = (
        select_first_links(link, in_bank(link), link.c.removed_at.is_(None)).cte("links").prefix_with("materialized")
    )
    one, other = links.alias("one"), links.alias("other")
    pair = one.c.entity_id, other.c.entity_id
    return (
        select(
            pair[0].label("entity_id_1"),
            pair[1].label("entity_id_2"),
            cast(func.count(), Integer).label("cooccur_count"),
            func.max(unit.c.event_date).label("last_cooccurred"),
        )
        .join_from(one, other, same_bank(one, other, "unit_id"))
        .join(unit, same_bank(one, unit, "unit_id"))
        .where(pair[0] < pair[1])
        .group_by(*pair)
        .order_by(*pair)
    )


EXPECTED_PAIRS = _expect_pairs()
_PAIR, _EXPECTED = ENTITY_COOCCUR.c, EXPECTED_PAIRS.subquery("expected")
REDATE_ALL = (
    update(ENTITY_COOCCUR)
    .values(last_cooccurred=_EXPECTED.c.last_cooccurred)
    .where(
        in_bank(ENTITY_COOCCUR),
        *(_PAIR[name] == _EXPECTED.c[name] for name in ("entity_id_1", "entity_id_2")),
        _PAIR.last_cooccurred != _EXPECTED.c.last_cooccurred,
    )
)
EXPECTED_MENTIONS = text("""
    select e.entity_id, coalesce(sum(l.mentions) filter (where l.removed_at is null), 0)::int as mention_count
      from afterturn.agent_memory_entity_t e
      left join afterturn.agent_memory_unit_entity_t l using (host_id, bank_id, entity_id)
     where host_id = :host and bank_id = :bank group by 1 order by 1""")
EXPECTED_NAMES = text("""
    select entity_id, coalesce(name, '') as name, coalesce(kind, '') as kind, sum(mentions)::int as mentions
      from afterturn.agent_memory_unit_entity_t
     where host_id = :host and bank_id = :bank and removed_at is null group by 1, 2, 3 order by 1, 2, 3""")
EXPECTED_POSTINGS = text("""
    select t.term, w.unit_id, w.session_id, w.seq, cast(t.tf as int) as tf, w.length
      from afterturn.unit_word_t w, jsonb_each_text(w.terms) t(term, tf)
     where w.host_id = :host and w.bank_id = :bank and w.posted""")
EXPECTED_TERMS = text("""
    select t.term, count(*) as df
      from afterturn.unit_word_t w, jsonb_object_keys(w.terms) t(term)
     where w.host_id = :host and w.bank_id = :bank and w.posted
     group by 1 order by 1""")
EXPECTED_STATISTICS = text("""
    select count(*) as units, coalesce(sum(w.length), 0) as tokens
      from afterturn.unit_word_t w where w.host_id = :host and w.bank_id = :bank and w.posted""")


async def count_links(connection: AsyncConnection, host: UUID, bank: UUID, turns: Sequence[UUID]) -> list[UUID]:
    """Count the links of these turns and changed ones of the bank: pairs, their newest dates, mentions, names.

    Returns the entities whose mentions changed.
    """
    arguments = {"host": host, "bank": bank, "turns": list(turns), "others": OTHERS_LIMIT}
    changed = (await connection.execute(COUNT_LINKS, arguments)).all()
    lost = [row for row in changed if row.second is not None]
    entities = [row.first for row in changed if row.second is None]
    if lost:
        pairs = {"first": [row.first for row in lost], "second": [row.second for row in lost]}
        await connection.execute(FORGET_PAIRS, {"host": host, "bank": bank, **pairs})
        await connection.execute(REDATE_PAIRS, {"host": host, "bank": bank, **pairs})
    return entities


async def redate_unit(connection: AsyncConnection, host: UUID, bank: UUID, unit: UUID) -> None:
    """Recompute the newest dates of the pairs that a unit counts for, after its own date changed."""
    place = {"host": host, "bank": bank}
    if pairs := (await connection.execute(PAIRS_OF_UNIT, {**place, "unit": unit})).all():
        columns = {"first": [pair.first for pair in pairs], "second": [pair.second for pair in pairs]}
        await connection.execute(REDATE_PAIRS, {**place, **columns})


async def redate_pairs(connection: AsyncConnection, host: UUID, bank: UUID) -> None:
    """Correct the newest dates of all pairs of a bank whose links are counted, after units changed in bulk."""
    await connection.execute(REDATE_ALL, {"host": host, "bank": bank})


async def has_removed_links(connection: AsyncConnection, host: UUID, bank: UUID) -> bool:
    """Return whether the counts of a bank still include links that were removed."""
    return bool((await connection.execute(REMOVED_LINKS, {"host": host, "bank": bank})).scalar_one())


@dataclass(frozen=True, slots=True)
class IndexedWords:
    """The result of indexing a bank's words: whether more may wait, and the units that had been forgotten."""

    more: bool
    forgotten: Sequence[UUID]


async def count_words(connection: AsyncConnection, host: UUID, bank: UUID) -> IndexedWords:
    """Move waiting words into the word index and count them, and remove those of forgotten units.

    At most UNITS_LIMIT units; the rest waits for the next call, and recalls find its words meanwhile.
    """
    place = {"host": host, "bank": bank}
    row = (await connection.execute(POST_WORDS, {**place, "units": UNITS_LIMIT, "back": True})).one()
    if row.terms:
        await connection.execute(FORGET_TERMS, {**place, "terms": row.terms})
    return IndexedWords(row.carried == UNITS_LIMIT, row.forgotten)


async def lock_words(connection: AsyncConnection, bank: UUID) -> None:
    """Lock a bank against indexing and counting of its words; take the other locks first."""
    await connection.execute(LOCK_WORDS, {"bank": bank})


async def index_words(connection: AsyncConnection, host: UUID, bank: UUID, limit: int = UNITS_LIMIT) -> bool:
    """Move the waiting words of at most `limit` units into the word index; return whether more may wait.

    Neither takes nor waits for the locks of deriving writers.
    """
    await connection.execute(SHARE_BANK, {"bank": bank})
    arguments = {"host": host, "bank": bank, "units": limit, "back": False}
    return bool((await connection.execute(POST_WORDS, arguments)).one().carried == limit)
