"""Writes the index terms of units that a stage derived; those of messages are written with their turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import DriverRow
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
