"""Facts that a message implies of an earlier one: those of a bare correction, and of a denial without a value.

"Correction: not Bonn, Cologne." names two values and no subject. It is of the fact that the speaker's last message with
the wrong value states, among the newest of the session; where no such message has it, of the speaker's one fact that
holds with this value. Nothing is corrected where neither is found, or where the last message with the value says
something else ("Book a hotel in Bonn.").

"We no longer have a dog" names a kind, and none of its values. It ends the speaker's facts of these kinds that hold;
those that no worker has put in order yet; and those that the newest messages of the session state before it. A denial
without kinds ("Just kidding") ends what the last of these states.
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
from store.text.rules.endings import Ending, end_fact, find_endings, take_back
from store.text.rules.facts import MINED_ROLE, find_facts
from store.text.rules.model import ExtractedFact, MessageText

#: The newest messages of the session that are read before a correction, and before a denial: as many turns as one claim
#: may hold, and some. A longer message is read in part.
MESSAGES_BEFORE_CORRECTION, MESSAGES_BEFORE_ENDING, CHARACTERS = 8, 32, 2048
#: Most facts that one denial ends, and most facts of a user that are searched for those which no worker has
#: put in order yet.
MOST, SEARCHED = 16, 4000

# The last messages of the speaker before each of these, the newest first.
BEFORE = text("""
    select c.unit_id as later, left(m.content, :characters) as content, m.name
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
# The speaker's facts with a value.
WITH_VALUE = text("""
    select a.nth, f.fact_id, f.subject, f.key
      from unnest(cast(:banks as uuid[]), cast(:subjects as text[]), cast(:values as text[]))
           with ordinality as a(bank_id, subject, value, nth),
           lateral (select f.* from afterturn.fact_t f
                     where f.host_id = :host and f.bank_id = a.bank_id and f.subject = afterturn.folded(a.subject)
                       and f.valid_to is null and not f.denied and f.value = afterturn.folded(a.value)
                     limit 8) f""")
# The facts of the asked kinds that hold, and all that the user has stated, with their values as they were said.
OF_KINDS = text("""
    with asked as materialized (
        select * from unnest(cast(:banks as uuid[]), cast(:users as uuid[]), cast(:subjects as text[]),
                             cast(:kinds as text[]), cast(:nths as int[])) as a(bank_id, user_id, subject, kinds, nth))
    select a.nth, f.fact_id, f.key, u.metadata->>'value' as value
      from asked a,
           lateral (select f.* from afterturn.fact_t f
                     where f.host_id = :host and f.bank_id = a.bank_id
                       and f.fact_id = any(string_to_array(a.kinds, ','))
                       and f.subject = afterturn.folded(a.subject) and f.valid_to is null and not f.denied
                     order by f.key limit :most) f,
           lateral (select u.metadata from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = a.bank_id and u.unit_id = f.unit_id and u.active limit 1) u
    union
    select a.nth, u.fact_id, afterturn.folded(u.metadata->>'key'), u.metadata->>'value'
      from asked a,
           lateral (select s.* from (select u.bank_id, u.metadata, u.metadata->>'fact_id' as fact_id
                                       from afterturn.agent_memory_unit_t u
                                      where u.host_id = :host and u.user_id = a.user_id and u.origin = 'extraction'
                                        and u.active limit :searched) s
                     where s.bank_id = a.bank_id and s.fact_id = any(string_to_array(a.kinds, ','))
                       and not s.metadata ? 'denied'
                       and afterturn.folded(coalesce(nullif(s.metadata->>'subject', ''), a.subject))
                         = afterturn.folded(a.subject)
                     limit :most) u
     order by nth, fact_id, key""")


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message by its speaker and text; it is number `nth` of its turn."""

    bank: UUID
    unit_id: UUID
    user_id: UUID
    nth: int
    text: MessageText = field(repr=False)

    @property
    def name(self) -> str | None:
        """The name of the speaker; None without one."""
        return (self.text.name or "").strip() or None

    @property
    def subject(self) -> str:
        """The name of the speaker, or the id of a user without one."""
        return self.name or str(self.user_id)


@dataclass(frozen=True, slots=True)
class WaitingFact:
    """A fact that no worker has put in order yet, by its identity and folded value; `denied`: it ends that fact."""

    identity: Identity = field(repr=False)
    value: str = field(repr=False)
    denied: bool


class ImplyingMessages:
    """The bare corrections in some messages, and the denials without a value; false where there is none."""

    def __init__(self, said: Sequence[SaidMessage]) -> None:
        self._corrections = [(one, found) for one in said for found in find_corrections(one.text, one.nth)]
        self._endings = [(one, found) for one in said for found in find_endings(one.text, one.nth)]

    def __bool__(self) -> bool:
        return bool(self._corrections or self._endings)

    async def find_implied(
        self, connection: AsyncConnection, host: UUID, waiting: Sequence[WaitingFact] = ()
    ) -> list[tuple[SaidMessage, ExtractedFact]]:
        """Return the facts that corrections state, then the denials that endings are, each with its message.

        Takes the tenant's transaction. Nothing is implied of a fact that is not known. `waiting` are facts of other
        messages that no worker has put in order yet, in the order they were said.
        """
        corrected = await _find_corrected(connection, host, self._corrections, waiting) if self._corrections else []
        return corrected + (await _find_ended(connection, host, self._endings, waiting) if self._endings else [])


async def _find_corrected(
    connection: AsyncConnection,
    host: UUID,
    said: Sequence[tuple[SaidMessage, Correction]],
    waiting: Sequence[WaitingFact],
) -> list[tuple[SaidMessage, ExtractedFact]]:
    messages = [message for message, _ in said]
    before = await _read_before(connection, host, messages, MESSAGES_BEFORE_CORRECTION)
    asked = {
        "banks": [one.bank for one in messages],
        "subjects": [one.subject for one in messages],
        "values": [correction.wrong for _, correction in said],
    }
    holding: dict[int, list[Identity]] = {}
    for row in await fetch_rows(connection, WITH_VALUE, {"host": host, **asked}):
        holding.setdefault(row.nth - 1, []).append(Identity(row.fact_id, row.subject, row.key))
    found = []
    for nth, (one, correction) in enumerate(said):
        subject, wrong = one.subject.casefold(), correction.wrong.casefold()
        known = _settle_waiting(holding.get(nth, ()), subject, wrong, waiting)
        fact = _resolve_correction(one.name, correction, before.get(one.unit_id, ()), known)
        found += [] if fact is None else [(one, fact)]
    return found


async def _find_ended(
    connection: AsyncConnection, host: UUID, said: Sequence[tuple[SaidMessage, Ending]], waiting: Sequence[WaitingFact]
) -> list[tuple[SaidMessage, ExtractedFact]]:
    before = await _read_before(connection, host, [message for message, _ in said], MESSAGES_BEFORE_ENDING)
    asked = [
        (one.bank, one.user_id, one.subject, ",".join(ending.kinds), nth)
        for nth, (one, ending) in enumerate(said)
        if ending.kinds
    ]
    names = ("banks", "users", "subjects", "kinds", "nths")
    arguments = {name: [one[nth] for one in asked] for nth, name in enumerate(names)}
    limits = {"most": MOST, "searched": SEARCHED}
    held = await fetch_rows(connection, OF_KINDS, {"host": host, **limits, **arguments}) if asked else []
    return [
        (one, fact)
        for nth, (one, ending) in enumerate(said)
        for fact in _deny_all(
            one, ending, [row for row in held if row.nth == nth], before.get(one.unit_id, ()), waiting
        )
    ]


async def _read_before(
    connection: AsyncConnection, host: UUID, said: Sequence[SaidMessage], messages: int
) -> dict[UUID, list[DriverRow]]:
    """Return the last messages before each of these, by its unit."""
    places = {"host": host, "banks": [one.bank for one in said], "units": [one.unit_id for one in said]}
    limits = {"messages": messages, "characters": CHARACTERS, "mined_role": MINED_ROLE}
    rows = await fetch_rows(connection, BEFORE, {**places, **limits})
    return {unit: [*found] for unit, found in groupby(rows, key=lambda row: row.later)}


def _settle_waiting(
    holding: Sequence[Identity], subject: str, wrong: str, waiting: Sequence[WaitingFact]
) -> Sequence[Identity]:
    """Return the identities that hold with the wrong value once the waiting facts are in order."""
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
    name: str | None, correction: Correction, messages: Sequence[DriverRow], holding: Sequence[Identity]
) -> ExtractedFact | None:
    """Return the fact that a correction states; `messages` are those before it, the newest first."""
    wrong = correction.wrong.casefold()
    later = set[tuple[str, str]]()
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
        told = (correct_fact(correction, *of, name) for of in stated if of not in later)
        return next((fact for fact in told if fact is not None), None)
    found = (correct_fact(correction, of.fact_id, of.key, name) for of in holding)
    known = [fact for fact in found if fact is not None]
    return known[0] if len(known) == 1 else None


def _deny_all(
    speaker: SaidMessage,
    ending: Ending,
    held: Sequence[DriverRow],
    messages: Sequence[DriverRow],
    waiting: Sequence[WaitingFact],
) -> Sequence[ExtractedFact]:
    """Return the denials that an ending is; `messages` are those before it, the newest first."""
    name, subject = speaker.name, speaker.subject.casefold()
    if not ending.kinds:
        said = [MessageText(MINED_ROLE, row.content, row.name) for row in messages[:1]]
        return [take_back(ending, fact, name) for of in said for fact in find_facts(of, 0) if not fact.denied]
    ended: dict[tuple[str, str], str] = {}
    for fact in waiting:
        if fact.identity.subject == subject and ending.ends(fact.identity.fact_id, fact.value) and not fact.denied:
            ended[fact.identity.fact_id, fact.identity.key] = fact.value
    for row in messages:
        for told in find_facts(MessageText(MINED_ROLE, row.content, row.name), 0):
            if ending.ends(told.fact_id, told.value) and not told.denied:
                ended[told.fact_id, told.key.casefold()] = told.value
    ended |= {(row.fact_id, row.key): row.value for row in held if ending.ends(row.fact_id, row.value)}
    return [end_fact(ending, kind, key, value, name) for (kind, key), value in sorted(ended.items())]
