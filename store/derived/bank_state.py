"""All that a bank is more than its turns: brought up to date step by step, or made again from nothing.

Both ways end in the same rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import TextClause, Uuid, bindparam, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived import entity_profiles, facts, projection
from store.derived.reflections import consolidate_facts
from store.derived.temporal_links import link_turns
from store.derived.unit_words import rebuild_words
from store.log.envelope import Origin
from store.log.locks import hold_lock

# A rebuild locks the bank's writers out; counting locks out rebuilds, the end of the bank, and links.
LOCK_ALONE = select(func.afterturn.enter_log(bindparam("host", type_=Uuid)), hold_lock("bank", "bank"))

# A row that is no turn: its item is its own id, so that it is not counted as one.
RECOUNT_ROW = text("""
    insert into afterturn.ledger_t
        (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, accepted_at)
    values (:host, 'projection', :item, :bank, :bank, :bank, :bank, :position, :at)
    on conflict do nothing""")

#: The derived tables and what identifies and fills their rows.
TABLES: Mapping[str, str] = {
    "agent_memory_entity_cooccur_t": "entity_id_1, entity_id_2, cooccur_count, last_cooccurred",
    "agent_memory_entity_t": "entity_id, mention_count",
    "unit_word_t": "unit_id, session_id, seq, length, terms",
    "posting_t": "term, unit_id, session_id, seq, tf, length",
    "term_t": "term, df",
    "bank_statistics_t": "units, tokens",
    "entity_name_t": "entity_id, name, kind, mentions",
    "entity_profile_t": "entity_id, canonical_id, name, kind, folded, stem, mentions",
    "fact_t": "unit_id, subject, fact_id, key, value, position, valid_from, said, valid_to, superseded_by",
}

_PLACE = "host_id = :host and bank_id = :bank"


def _clear_table(table: str) -> TextClause:
    return text(f"delete from afterturn.{table} where {_PLACE}")  # noqa: S608 - constants


def _fill_table(table: str, expected: TextClause) -> TextClause:
    return text(f"""
        insert into afterturn.{table} ({TABLES[table]}, host_id, bank_id)
        select e.*, cast(:host as uuid), cast(:bank as uuid) from ({expected.text}) e""")  # noqa: S608 - constants


# Postings are many, and mostly right: only the others are written.
REPOST = (
    text(f"""
        delete from afterturn.posting_t p
         where {_PLACE} and (p.unit_id, p.session_id, p.seq, p.tf, p.length) is distinct from (
               select (w.unit_id, w.session_id, w.seq, cast(w.terms->>p.term as int), w.length)
                 from afterturn.unit_word_t w
                where w.host_id = p.host_id and w.bank_id = p.bank_id and w.unit_id = p.unit_id and w.posted)"""),  # noqa: S608 - constants
    text(f"{_fill_table('posting_t', projection.EXPECTED_POSTINGS).text} on conflict do nothing"),
)
MARK_LINKS = text(f"""
    update afterturn.agent_memory_unit_entity_t set counted = (removed_at is null)
     where {_PLACE} and counted <> (removed_at is null)""")  # noqa: S608 - constants
MENTIONS = text(f"""
    update afterturn.agent_memory_entity_t n set mention_count = e.mention_count
      from ({projection.EXPECTED_MENTIONS.text}) e
     where n.host_id = :host and n.bank_id = :bank and n.entity_id = e.entity_id
       and n.mention_count <> e.mention_count""")  # noqa: S608 - constants
SETTLE_FORGOTTEN = text(f"delete from afterturn.forgotten_unit_t where {_PLACE}")  # noqa: S608 - constants
COUNTED = {
    "agent_memory_entity_cooccur_t": projection.EXPECTED_PAIRS,
    "entity_name_t": projection.EXPECTED_NAMES,
    "term_t": projection.EXPECTED_TERMS,
    "bank_statistics_t": projection.EXPECTED_STATISTICS,
}
RECOUNT = (
    *REPOST,
    *(
        statement
        for table, expected in COUNTED.items()
        for statement in (_clear_table(table), _fill_table(table, expected))
    ),
    MARK_LINKS,
    MENTIONS,
    SETTLE_FORGOTTEN,
)


@dataclass(frozen=True, slots=True)
class Advanced:
    """Whether more words wait than one transaction should carry, and whether reflections are to be embedded."""

    more: bool
    reflected: bool


async def advance_bank(connection: AsyncConnection, origin: Origin, turns: Sequence[UUID]) -> Advanced:
    """Bring a bank's derived state up to these turns, each of them once, and up to what was forgotten since.

    Inside the tenant's transaction, after `lock_bank`; a bank has one such writer at a time. Reflections and links that
    follow are appended as events of `origin`. Where more words wait, come again.
    """
    host, bank = origin.host, origin.bank
    changed = await projection.count_links(connection, host, bank, turns)
    words = await projection.count_words(connection, host, bank)
    await entity_profiles.refresh_profiles(connection, host, bank, changed)
    stated = await facts.refresh_facts(connection, host, bank, turns, words.forgotten)
    reflected = await consolidate_facts(connection, origin, stated)
    if stated:
        await link_turns(connection, origin, turns)
    return Advanced(words.more, reflected)


async def request_recount(connection: AsyncConnection, origin: Origin, position: int) -> None:
    """Have the projection stage look at a bank in which the event at `position` ended something."""
    arguments = {"host": origin.host, "bank": origin.bank, "position": position, "at": origin.at}
    await connection.execute(RECOUNT_ROW, {**arguments, "item": uuid5(origin.bank, f"recount:{position}")})


async def rebuild_bank(connection: AsyncConnection, host: UUID, bank: UUID) -> None:
    """Make a bank's derived state again from nothing, for the turns whose projection is done.

    Keeps the bank's writers waiting for as long as it takes. Reflections are events and stay as they are.
    """
    place = {"host": host, "bank": bank}
    await connection.execute(LOCK_ALONE, place)
    await rebuild_words(connection, host, bank)
    for statement in RECOUNT:
        await connection.execute(statement, place)
    await entity_profiles.rebuild_profiles(connection, host, bank)
    await facts.rebuild_facts(connection, host, bank)


async def read_contents(connection: AsyncConnection, host: UUID, bank: UUID) -> dict[str, list[tuple[Any, ...]]]:
    """Return the derived rows of a bank by table, in an order of their own: two equal states are equal values."""
    found = {}
    for table, shown in TABLES.items():
        query = text(f"select {shown} from afterturn.{table} where {_PLACE} order by {shown}")  # noqa: S608 - constants
        found[table] = [tuple(row) for row in await connection.execute(query, {"host": host, "bank": bank})]
    return found
