"""Writes the index terms of units that a stage derived, and compares and repairs the stored words of a bank.

The words of a unit follow from its text, day and speaker, by the rules of its bank's language. Those of messages are
written with their turn.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import DriverRow
from store.tenancy import languages
from store.text.message_terms import analyse_message
from store.text.terms import analyse_text, lexical_text
from store.text.word_rules import WordRules

#: The origin of messages' units.
MESSAGE = "message"

# A unit that was forgotten meanwhile gets no words back.
INSERT = text("""
    insert into afterturn.unit_word_t (host_id, bank_id, unit_id, session_id, seq, length, terms)
    select cast(:host as uuid), cast(:bank as uuid), w.unit, u.session_id, u.seq, w.length, cast(w.terms as jsonb)
      from unnest(cast(:units as uuid[]), cast(:lengths as int[]), cast(:terms as text[])) as w(unit, length, terms)
      join afterturn.agent_memory_unit_t u
        on u.host_id = :host and u.bank_id = :bank and u.unit_id = w.unit and u.active
    on conflict do nothing""")


@dataclass(frozen=True, slots=True)
class UnitTerms:
    """The index terms of one unit with their counts, and its number of words."""

    unit_id: UUID
    counts: Mapping[str, int] = field(repr=False)
    length: int

    def same(self, terms: str | None, length: int | None) -> bool:
        """Return whether the unit's stored words are these; `terms` is JSON as the database returns it."""
        return terms is not None and length == self.length and orjson.loads(terms) == self.counts


def count_unit_terms(unit: Row[Any] | DriverRow, rules: WordRules, content: str | None = None) -> UnitTerms:
    """Return the terms of a unit's row (name, role, origin, context, event_date, content) by its bank's rules.

    A document's units and a memory are read with their title. `content`: a text to read in place of the row's.
    """
    said = unit.content if content is None else content
    title = unit.context if unit.origin in ("document", "memory") else None
    speaker = unit.name or unit.role or title
    if unit.origin == MESSAGE:
        terms = analyse_message(speaker, unit.event_date, said, rules)
    else:
        terms = analyse_text(lexical_text(speaker, unit.event_date, said, rules), rules)
    return UnitTerms(unit.unit_id, terms.counts, terms.length)


async def insert_postings(connection: AsyncConnection, host: UUID, bank: UUID, units: Sequence[UnitTerms]) -> None:
    """Write the words of units of one bank, once; the units are projected already in this transaction.

    Recalls find them from then on; the projection stage moves them into the word index.
    """
    if units:
        arguments = {
            "units": [one.unit_id for one in units],
            "lengths": [one.length for one in units],
            "terms": [orjson.dumps(one.counts).decode() for one in units],
        }
        await connection.execute(INSERT, {"host": host, "bank": bank, **arguments})


#: Units of one page.
PAGE = 500

UNITS = text("""
    select u.unit_id, u.name, u.role, u.context, u.origin, u.event_date, u.content, u.session_id, u.seq,
           w.unit_id is not null as worded, w.session_id as word_session_id, w.seq as word_seq, w.length,
           cast(w.terms as text) as terms
      from afterturn.agent_memory_unit_t u
      left join afterturn.unit_word_t w
        on w.host_id = u.host_id and w.bank_id = u.bank_id and w.unit_id = u.unit_id
     where u.host_id = :host and u.bank_id = :bank and u.unit_id > :place and u.active
     order by u.unit_id limit :page""")
DROP = text("select count(*) from afterturn.drop_words(:host, :bank, cast(:units as uuid[]))")
DROP_OF_NOTHING = text("""
    select count(*)
      from afterturn.drop_words(:host, :bank, array(
           select w.unit_id from afterturn.unit_word_t w
            where w.host_id = :host and w.bank_id = :bank
              and (select u.active from afterturn.agent_memory_unit_t u
                    where u.host_id = w.host_id and u.bank_id = w.bank_id and u.unit_id = w.unit_id) is not true))""")
# A unit that changed since it was read has words by the new rules already. Locked, so that a caller that forgets a unit
# meanwhile deletes its new words, too.
UNCHANGED = text("""
    select u.unit_id from unnest(cast(:units as uuid[]), cast(:versions as bigint[])) as t(unit_id, version)
      join afterturn.agent_memory_unit_t u
        on u.host_id = :host and u.bank_id = :bank and u.unit_id = t.unit_id and u.active
       and u.aggregate_version = t.version
     order by u.unit_id for share of u""")


@dataclass(frozen=True, slots=True)
class WrongWords:
    """A unit whose words are wrong: the right terms, whether it has any (`worded`), and the columns that differ."""

    terms: UnitTerms
    worded: bool
    columns: Sequence[str]


async def find_wrong_words(
    connection: AsyncConnection, host: UUID, bank: UUID, rules: languages.Rules
) -> AsyncGenerator[list[WrongWords]]:
    """Yield the units of a bank whose words are missing or wrong, in the order of their ids, a page at a time.

    While a change of the bank's language is under way, words by the old and by the new rules are right.
    """
    place, more = UUID(int=0), True
    while more:
        arguments = {"host": host, "bank": bank, "place": place, "page": PAGE}
        units = (await connection.execute(UNITS, arguments)).all()
        yield await asyncio.to_thread(_list_wrong, units, rules)
        more = len(units) == PAGE
        place = units[-1].unit_id if units else place


async def rebuild_words(connection: AsyncConnection, host: UUID, bank: UUID) -> None:
    """Rebuild a bank's language and the words of its units, inside a transaction that holds the bank exclusively.

    New words wait to be moved into the word index, like those of a new unit.
    """
    await languages.rebuild_language(connection, host, bank)
    rules = languages.choose_rules(await languages.read_languages(connection, host), bank)
    await connection.execute(DROP_OF_NOTHING, {"host": host, "bank": bank})
    async for wrong in find_wrong_words(connection, host, bank, rules):
        units = [one.terms.unit_id for one in wrong if one.worded]
        await connection.execute(DROP, {"host": host, "bank": bank, "units": units})
        await insert_postings(connection, host, bank, [one.terms for one in wrong])


async def lock_unchanged(
    connection: AsyncConnection, host: UUID, bank: UUID, versions: Mapping[UUID, int]
) -> Sequence[UUID]:
    """Return the living units that still have these versions, locked against a change; in the order of ids."""
    if not versions:
        return []
    arguments = {"host": host, "bank": bank, "units": list(versions), "versions": list(versions.values())}
    return (await connection.execute(UNCHANGED, arguments)).scalars().all()


def _list_wrong(units: Sequence[Row[Any]], rules: languages.Rules) -> list[WrongWords]:
    return [wrong for unit in units if (wrong := _compare_words(unit, rules.asking)) is not None]


def _compare_words(unit: Row[Any], accepted: Sequence[WordRules]) -> WrongWords | None:
    expected = [count_unit_terms(unit, rules) for rules in accepted]
    if not unit.worded:
        return WrongWords(expected[0], worded=False, columns=())
    columns = [
        *(name for name in ("session_id", "seq") if getattr(unit, name) != getattr(unit, f"word_{name}")),
        *([] if any(one.same(unit.terms, unit.length) for one in expected) else ["length", "terms"]),
    ]
    return WrongWords(expected[0], worded=True, columns=columns) if columns else None
