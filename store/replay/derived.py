"""State outside the log: is it what its pipeline makes of the rows it has counted so far, and making it anew."""

from collections.abc import Iterable

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store import derived, projections
from store.replay.digest import Bank
from store.replay.report import Derived
from store.replay.shadow import Scope

SCOPE = "(cast(:host as uuid) is null or {0}host_id = :host) and (cast(:bank as uuid) is null or {0}bank_id = :bank)"
OF_ROW, OF_JOIN = SCOPE.format("r."), SCOPE.format("")

# Each query is empty when all is well; {of_row} and {of_join} are the scope.
CHECKS = {
    "cooccurrence": """
        select from (select host_id, bank_id, a.entity_id as entity_id_1, b.entity_id as entity_id_2,
                            count(*)::int as cooccur_count, max(u.event_date) as last_cooccurred
                       from afterturn.agent_memory_unit_entity_t a
                       join afterturn.agent_memory_unit_entity_t b using (host_id, bank_id, unit_id)
                       join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
                      where a.entity_id < b.entity_id and a.counted and b.counted group by 1, 2, 3, 4) e
        full join afterturn.agent_memory_entity_cooccur_t c using (host_id, bank_id, entity_id_1, entity_id_2)
        where {of_join} and (c.cooccur_count is distinct from e.cooccur_count
                           or c.last_cooccurred is distinct from e.last_cooccurred)""",
    "mention_counts": """
        select from afterturn.agent_memory_entity_t r
        where {of_row} and r.mention_count <> coalesce((
              select sum(l.mentions) from afterturn.agent_memory_unit_entity_t l
               where l.host_id = r.host_id and l.bank_id = r.bank_id and l.entity_id = r.entity_id
                 and l.counted), 0)""",
    "words": """
        select from afterturn.unit_word_t r
        left join afterturn.agent_memory_unit_t u
          on u.host_id = r.host_id and u.bank_id = r.bank_id and u.unit_id = r.unit_id
        where {of_row} and u.active is not true
        union all
        select from (select w.host_id, w.bank_id, w.unit_id, t.term, cast(t.tf as int) as tf
                       from afterturn.unit_word_t w, jsonb_each_text(w.terms) t(term, tf) where w.posted) e
        full join afterturn.posting_t p using (host_id, bank_id, term, unit_id)
        where {of_join} and e.tf is distinct from p.tf""",
    "vectors": """
        select from afterturn.unit_vector_t r
        left join afterturn.agent_memory_unit_t u
          on u.host_id = r.host_id and u.bank_id = r.bank_id and u.unit_id = r.unit_id
        left join afterturn.agent_memory_reflection_t f
          on f.host_id = r.host_id and f.bank_id = r.bank_id and f.reflection_id = r.unit_id
        where {of_row} and not coalesce(u.active, f.active, false)
        union all
        select from afterturn.agent_memory_unit_t r
        where {of_row} and r.active and r.turn_id is not null and not exists (
              select from afterturn.unit_vector_t v
               where v.host_id = r.host_id and v.bank_id = r.bank_id and v.unit_id = r.unit_id)
          and not exists (select from afterturn.ledger_t l
                           where l.host_id = r.host_id and l.turn_id = r.turn_id and l.status not in ('done', 'skipped')
                             and l.stage in ('embedding', 'extraction'))""",
}


BANKS = """
    select r.host_id, r.bank_id from afterturn.agent_memory_bank_t r where {of_row} order by 1, 2"""


async def check(connection: AsyncConnection, scope: Scope) -> list[Derived]:
    """Compare derived state with what it was derived from.

    Co-occurrence and mentions are those of the links counted so far; every word and vector belongs to something that
    lives, and every living unit of a turn has a vector or work that will make it.
    """
    arguments = {"host": scope.host, "bank": scope.bank}
    found = []
    for name, query in CHECKS.items():
        wrong = await connection.execute(text(f"select exists ({_scoped(query)})"), arguments)
        found.append(Derived(name, not wrong.scalar()))
    return found


async def banks(connection: AsyncConnection, scope: Scope) -> list[Bank]:
    """Return all banks of a scope."""
    rows = await connection.execute(text(_scoped(BANKS)), {"host": scope.host, "bank": scope.bank})
    return [Bank(*row) for row in rows]


async def rebuild(engine: AsyncEngine, concerned: Iterable[Bank]) -> None:
    """Make the derived state of banks again from nothing, words that wait included, a transaction for each bank."""
    for bank in concerned:
        async with engine.begin() as connection:
            await derived.rebuild(connection, bank.host, bank.bank)
            while (await projections.count_words(connection, bank.host, bank.bank)).more:
                pass


def _scoped(query: str) -> str:
    return query.format(of_row=OF_ROW, of_join=OF_JOIN)
