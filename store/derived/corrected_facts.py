"""Tells which fact a bare correction is of: "Correction: not Bonn, Cologne." names two values and no subject.

It is of the fact that the speaker's last message with the wrong value states, among the newest of the session; where no
such message has it, of the speaker's one fact that holds with this value. Nothing is corrected where neither is found,
or where the last message with the value says something else ("Book a hotel in Bonn.").
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.facts import Identity
from store.driver_rows import DriverRow, fetch_rows
from store.text.rules.corrections import Correction, correct_fact, find_corrections
from store.text.rules.facts import MINED_ROLE, find_facts
from store.text.rules.model import ExtractedFact, MessageText

#: The newest messages of the session, before the correction, that are read; a longer one is read in part.
MESSAGES, CHARACTERS = 8, 2048

# The last messages of each correction's speaker before it, the newest first, and the speaker's facts with the value.
BEFORE = text("""
    select c.unit_id as correction, left(m.content, :characters) as content, m.name
      from unnest(cast(:banks as uuid[]), cast(:units as uuid[])) as a(bank_id, unit_id),
           lateral (select u.* from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = a.bank_id and u.unit_id = a.unit_id
                       and u.seq is not null limit 1) c,
           lateral (select u.content, u.name, u.seq from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = a.bank_id and u.session_id = c.session_id
                       and u.seq is not null and u.seq < c.seq and u.role = :mined_role and u.active
                       and u.user_id = c.user_id and u.name is not distinct from c.name
                     order by u.seq desc limit :messages) m
     order by c.unit_id, m.seq desc""")
HOLDING = text("""
    select a.nth, f.fact_id, f.subject, f.key
      from unnest(cast(:banks as uuid[]), cast(:subjects as text[]), cast(:values as text[]))
           with ordinality as a(bank_id, subject, value, nth),
           lateral (select f.* from afterturn.fact_t f
                     where f.host_id = :host and f.bank_id = a.bank_id and f.subject = afterturn.folded(a.subject)
                       and f.valid_to is null and not f.denied and f.value = afterturn.folded(a.value)
                     limit 8) f""")


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message by what names its speaker."""

    bank: UUID
    unit_id: UUID
    user_id: UUID
    name: str | None = field(repr=False)

    @property
    def subject(self) -> str:
        """The name of the speaker, or the id of a user without one."""
        return (self.name or "").strip() or str(self.user_id)


@dataclass(frozen=True, slots=True)
class SaidCorrection(SaidMessage):
    """A bare correction and its message."""

    correction: Correction = field(repr=False)


@dataclass(frozen=True, slots=True)
class WaitingFact:
    """A fact that no worker has put in order yet, by its identity and folded value; `denied`: it ends that fact."""

    identity: Identity = field(repr=False)
    value: str = field(repr=False)
    denied: bool


async def find_corrected(
    connection: AsyncConnection, host: UUID, said: Sequence[SaidCorrection], waiting: Sequence[WaitingFact] = ()
) -> list[ExtractedFact | None]:
    """Return the fact that each correction states, in their order, None for a correction of nothing that is known.

    Takes the tenant's transaction; `waiting` are facts in the order they were said.
    """
    if not said:
        return []
    places = {"host": host, "banks": [one.bank for one in said]}
    arguments = {"units": [one.unit_id for one in said], "messages": MESSAGES, "characters": CHARACTERS}
    rows = await fetch_rows(connection, BEFORE, {**places, **arguments, "mined_role": MINED_ROLE})
    before = {unit: [*messages] for unit, messages in groupby(rows, key=lambda row: row.correction)}
    asked = {"subjects": [one.subject for one in said], "values": [one.correction.wrong for one in said]}
    holding: dict[int, list[Identity]] = {}
    for row in await fetch_rows(connection, HOLDING, {**places, **asked}):
        holding.setdefault(row.nth - 1, []).append(Identity(row.fact_id, row.subject, row.key))
    return [
        _resolve_correction(one, before.get(one.unit_id, ()), _settle_waiting(holding.get(nth, ()), one, waiting))
        for nth, one in enumerate(said)
    ]


def _settle_waiting(
    holding: Sequence[Identity], one: SaidCorrection, waiting: Sequence[WaitingFact]
) -> Sequence[Identity]:
    """Return the identities that hold with the wrong value once the waiting facts are in order."""
    subject, wrong = one.subject.casefold(), one.correction.wrong.casefold()
    found: Mapping[Identity, None] = dict.fromkeys(holding)
    for fact in waiting:
        if fact.identity.subject != subject:
            continue
        kept = {
            identity: None for identity in found if identity != fact.identity or (fact.denied and fact.value != wrong)
        }
        found = kept if fact.denied or fact.value != wrong else {**kept, fact.identity: None}
    return [*found]


def _resolve_correction(
    one: SaidCorrection, messages: Sequence[DriverRow], holding: Sequence[Identity]
) -> ExtractedFact | None:
    """Return the fact that a correction states; `messages` are those before it, the newest first."""
    wrong = one.correction.wrong.casefold()
    later = set[tuple[str, str]]()
    name = (one.name or "").strip() or None
    for row in messages:
        message = MessageText(MINED_ROLE, row.content, row.name)
        facts = [fact for fact in find_facts(message, 0) if not fact.denied]
        if not re.search(rf"(?<!\w){re.escape(wrong)}(?!\w)", row.content.casefold()):
            later.update((fact.fact_id, fact.key) for fact in facts)
            continue
        corrected = [before for before in find_corrections(message, 0) if before.right.casefold() == wrong]
        if corrected:
            wrong = corrected[-1].wrong.casefold()
            continue
        stated = ((fact.fact_id, fact.key) for fact in facts if fact.value.casefold() == wrong)
        told = (correct_fact(one.correction, *of, name) for of in stated if of not in later)
        return next((fact for fact in told if fact is not None), None)
    found = (correct_fact(one.correction, of.fact_id, of.key, name) for of in holding)
    known = [fact for fact in found if fact is not None]
    return known[0] if len(known) == 1 else None
