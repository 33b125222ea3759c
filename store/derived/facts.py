"""Facts in time: a fact holds from when it was said until another value of the same subject and key is said.

What was said at one moment (a history without times comes in at one) follows in the order of its turns, in whatever
order these were read. Nothing is rewritten: supersession is derived from the facts that are there, so a fact that is
forgotten gives way to the one before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

#: Facts of which a subject has many at a time: who likes jazz still likes hiking. Their value is part of their key.
MANY_VALUED = ("user_like", "user_dislike", "user_preference", "user_allergy", "today_task", "weekly_task")

# Two people without a name are told apart by who they are.
STATED = """
    select u.host_id, u.bank_id, u.unit_id,
           afterturn.folded(coalesce(nullif(u.metadata->>'subject', ''), u.user_id::text)) as subject,
           u.metadata->>'fact_id' as fact_id,
           case when u.metadata->>'fact_id' = any(cast(:many as text[])) then afterturn.folded(u.metadata->>'value')
                else afterturn.folded(u.metadata->>'key') end as key,
           afterturn.folded(u.metadata->>'value') as value, u.position, u.event_date as valid_from,
           coalesce((select g.position from afterturn.turn_t g
                      where g.host_id = u.host_id and g.turn_id = u.turn_id), u.position) as said
      from afterturn.agent_memory_unit_t u
     where {scope} and u.active and u.origin = 'extraction'
       and u.metadata->>'fact_id' is not null and u.metadata->>'key' is not null and u.metadata->>'value' is not null"""
_FACTS = STATED.format(scope="u.host_id = :host and u.bank_id = :bank")
_COLUMNS = "(host_id, bank_id, unit_id, subject, fact_id, key, value, position, valid_from, said)"
REMOVE = text("""
    delete from afterturn.fact_t f using unnest(cast(:units as uuid[])) g(unit_id)
     where f.host_id = :host and f.bank_id = :bank and f.unit_id = g.unit_id
    returning f.fact_id, f.subject, f.key""")
# All that these turns state, what a rebuild came to before them included: nothing was derived from those yet.
ADD = text(f"""
    with stated as materialized ({_FACTS} and u.turn_id = any(cast(:turns as uuid[]))), added as (
        insert into afterturn.fact_t {_COLUMNS}
        select s.host_id, s.bank_id, s.unit_id, s.subject, s.fact_id, s.key, s.value, s.position, s.valid_from, s.said
          from stated s
        on conflict do nothing
    )
    select s.fact_id, s.subject, s.key from stated s""")  # noqa: S608 - put together from constants
CLEAR = text("delete from afterturn.fact_t where host_id = :host and bank_id = :bank")
ADD_ALL = text(f"""
    insert into afterturn.fact_t {_COLUMNS}
    {_FACTS}
       and (select true from afterturn.turn_t g where g.host_id = u.host_id and g.turn_id = u.turn_id) is not null
       and (select true from afterturn.ledger_t l
             where l.host_id = u.host_id and l.stage = 'projection' and l.item_id = u.turn_id
               and l.status <> 'done') is null
    returning fact_id, subject, key""")  # noqa: S608 - put together from constants
# Facts that follow each other with one value are one stretch; each ends where the next stretch begins.
LINED_UP = """
    lined as (
        select f.*, sum((f.value is distinct from f.before)::int) over w as stretch
          from (select f.*, lag(f.value) over (partition by {identity}
                                               order by f.valid_from, f.said, f.position, f.unit_id) as before
                  from {facts}) f
        window w as (partition by {identity} order by f.valid_from, f.said, f.position, f.unit_id)
    ), begun as (
        select distinct on ({identity}, f.stretch) f.* from lined f
         order by {identity}, f.stretch, f.valid_from, f.said, f.position, f.unit_id
    )"""
_OF_IDENTITIES = """
    unnest(cast(:fact_ids as text[]), cast(:subjects as text[]), cast(:keys as text[])) as t(fact_id, subject, key),
    lateral (select f.fact_id, f.subject, f.key, f.unit_id, f.value, f.valid_from, f.said, f.position, f.valid_to,
                    f.superseded_by
               from afterturn.fact_t f
              where f.host_id = :host and f.bank_id = :bank and f.fact_id = t.fact_id
                and f.subject = t.subject and f.key = t.key offset 0) f"""
LINE_UP = text(f"""
    with {LINED_UP.format(identity="f.fact_id, f.subject, f.key", facts=_OF_IDENTITIES)}
    update afterturn.fact_t f set valid_to = b.valid_from, superseded_by = b.unit_id
      from lined l
      left join begun b on b.fact_id = l.fact_id and b.subject = l.subject and b.key = l.key
                       and b.stretch = l.stretch + 1
     where f.host_id = :host and f.bank_id = :bank and f.unit_id = l.unit_id
       and (f.valid_to, f.superseded_by) is distinct from (b.valid_from, b.unit_id)""")  # noqa: S608 - put together from constants


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """What a fact is about: facts of one identity follow each other in time."""

    fact_id: str
    subject: str
    key: str


async def refresh_facts(
    connection: AsyncConnection, host: UUID, bank: UUID, turns: Sequence[UUID], gone: Sequence[UUID]
) -> list[Identity]:
    """Take in the facts of these turns, take out those of forgotten units; returns the identities of all of them."""
    place = {"host": host, "bank": bank}
    removed = (await connection.execute(REMOVE, {**place, "units": list(gone)})).all() if gone else []
    arguments = {**place, "turns": list(turns), "many": list(MANY_VALUED)}
    added = (await connection.execute(ADD, arguments)).all() if turns else []
    return await _line_up(connection, host, bank, {Identity(*row) for row in (*removed, *added)})


async def rebuild_facts(connection: AsyncConnection, host: UUID, bank: UUID) -> list[Identity]:
    """Put all facts of a bank's counted turns in line, from nothing; returns their identities."""
    place = {"host": host, "bank": bank}
    await connection.execute(CLEAR, place)
    rows = (await connection.execute(ADD_ALL, {**place, "many": list(MANY_VALUED)})).all()
    return await _line_up(connection, host, bank, {Identity(*row) for row in rows})


async def _line_up(connection: AsyncConnection, host: UUID, bank: UUID, touched: set[Identity]) -> list[Identity]:
    identities = sorted(touched)
    if identities:
        await connection.execute(LINE_UP, {"host": host, "bank": bank, **identity_columns(identities)})
    return identities


def identity_columns(identities: Sequence[Identity]) -> dict[str, list[str]]:
    """Return identities as the parameters `fact_ids`, `subjects` and `keys`."""
    return {
        "fact_ids": [one.fact_id for one in identities],
        "subjects": [one.subject for one in identities],
        "keys": [one.key for one in identities],
    }
