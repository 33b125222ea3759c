"""A bank's derived state: updated step by step, or rebuilt from nothing.

Both give the same rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Delete,
    Integer,
    Select,
    Table,
    TextClause,
    Uuid,
    bindparam,
    cast,
    delete,
    func,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity, schema
from store.derived import entity_profiles, facts, projection
from store.derived.postings import rebuild_words
from store.derived.reflections import consolidate_facts
from store.derived.temporal_links import link_turns
from store.log.envelope import Origin
from store.log.locks import hold_lock
from store.schema import in_bank, same_bank

# A rebuild excludes the bank's writers; counting excludes rebuilds, the end of the bank, and writes of links.
LOCK_ALONE = select(func.afterturn.enter_log(bindparam("host", type_=Uuid)), hold_lock("bank", "bank"))

# A ledger row without a turn: its item is a separate id, so that it is not counted as a turn.
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
    "fact_t": (
        "unit_id, subject, fact_id, key, value, position, valid_from, said, denied, valid_to, superseded_by, weight, "
        "consolidated_by"
    ),
}


def _find_table(name: str) -> Table:
    return schema.METADATA.tables[f"afterturn.{name}"]


def _clear_table(name: str) -> Delete:
    return delete(_find_table(name)).where(in_bank(_find_table(name)))


def _fill_table(name: str, expected: TextClause | Select[*tuple[Any, ...]]) -> Insert:
    columns = [_find_table(name).c[column] for column in TABLES[name].split(", ")]
    of_bank = (bindparam("host", type_=Uuid), bindparam("bank", type_=Uuid))
    found = expected.columns(*columns) if isinstance(expected, TextClause) else expected
    rows = select(*found.subquery("expected").c, *of_bank)
    return insert(_find_table(name)).from_select([*columns, "host_id", "bank_id"], rows)


# There are many postings, of which most are correct, so only wrong ones are rewritten.
_POSTING, _WORD = schema.POSTING.c, schema.UNIT_WORD.c
_RIGHT = (
    select(true())
    .select_from(schema.UNIT_WORD)
    .where(
        same_bank(schema.UNIT_WORD, schema.POSTING, "unit_id"),
        _WORD.posted,
        *(_POSTING[name].is_not_distinct_from(_WORD[name]) for name in ("session_id", "seq", "length")),
        _POSTING.tf == cast(_WORD.terms[_POSTING.term].astext, Integer),
    )
)
REPOST = (
    _clear_table("posting_t").where(_RIGHT.scalar_subquery().is_(None)),
    _fill_table("posting_t", projection.EXPECTED_POSTINGS).on_conflict_do_nothing(),
)
_TIE, _ENTITY = schema.UNIT_ENTITY.c, schema.ENTITY.c
_STANDS = _TIE.removed_at.is_(None)
MARK_LINKS = (
    update(schema.UNIT_ENTITY).values(counted=_STANDS).where(in_bank(schema.UNIT_ENTITY), _TIE.counted != _STANDS)
)
_MENTIONED = projection.EXPECTED_MENTIONS.columns(_ENTITY.entity_id, _ENTITY.mention_count).subquery("mentioned")
MENTIONS = (
    update(schema.ENTITY)
    .values(mention_count=_MENTIONED.c.mention_count)
    .where(
        in_bank(schema.ENTITY),
        _ENTITY.entity_id == _MENTIONED.c.entity_id,
        _ENTITY.mention_count != _MENTIONED.c.mention_count,
    )
)
SETTLE_FORGOTTEN = _clear_table("forgotten_unit_t")
COUNTED: Mapping[str, TextClause | Select[*tuple[Any, ...]]] = {
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
class ProjectionStep:
    """The result of a step: whether more words or ended mentions wait, and whether reflections are to be embedded."""

    more: bool
    reflected: bool


async def advance_bank(connection: AsyncConnection, origin: Origin, turns: Sequence[UUID]) -> ProjectionStep:
    """Update a bank's derived state by these turns, each counted once, and by the units that ended since.

    Inside the tenant's transaction, after `lock_bank`; a bank has one such writer at a time. New reflections and links
    are appended as events of `origin`. Call again while the result says that more waits.
    """
    host, bank = origin.host, origin.bank
    changed = await projection.count_links(connection, host, bank, turns)
    words = await projection.count_words(connection, host, bank)
    await entity_profiles.refresh_profiles(connection, host, bank, changed)
    stated = await facts.refresh_facts(connection, host, bank, turns, words.forgotten)
    reflected = await consolidate_facts(connection, origin, stated)
    if stated:
        await link_turns(connection, origin, turns)
    return ProjectionStep(words.more or await projection.has_removed_links(connection, host, bank), reflected)


async def request_recount(connection: AsyncConnection, origin: Origin, position: int) -> None:
    """Open a row of the projection stage for a bank in which the event at `position` ended something."""
    arguments = {"host": origin.host, "bank": origin.bank, "position": position, "at": origin.at}
    item = identity.named_id(origin.bank, identity.NamedKind.RECOUNT, position)
    await connection.execute(RECOUNT_ROW, {**arguments, "item": item})


async def rebuild_bank(connection: AsyncConnection, host: UUID, bank: UUID) -> None:
    """Rebuild a bank's derived state from nothing, for the turns whose projection is done.

    The bank's writers wait until it ends. Reflections are events and stay as they are.
    """
    place = {"host": host, "bank": bank}
    await connection.execute(LOCK_ALONE, place)
    await rebuild_words(connection, host, bank)
    for statement in RECOUNT:
        await connection.execute(statement, place)
    await entity_profiles.rebuild_profiles(connection, host, bank)
    await facts.rebuild_facts(connection, host, bank)
