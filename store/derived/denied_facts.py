"""Tells which facts a denial without a value ends: "We no longer have a dog" names a kind, and none of its values.

They are the speaker's facts of these kinds that hold; those that no worker has put in order yet; and those that the
newest messages of the session state before it. One without kinds ("Just kidding") ends what the last of these states.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.corrected_facts import BEFORE, CHARACTERS, SaidMessage, WaitingFact
from store.driver_rows import DriverRow, fetch_rows
from store.text.rules.endings import Ending, end_fact, take_back
from store.text.rules.facts import MINED_ROLE, find_facts
from store.text.rules.model import ExtractedFact, MessageText

#: Most facts that one denial ends, and most facts of a user that are searched for those which no worker has
#: put in order yet.
MOST, SEARCHED = 16, 4000
#: The newest messages of the session that are read: as many turns as one claim may hold, and some.
MESSAGES = 32
# The facts of the asked kinds that hold, and all that the user has stated, with their values as they were said.
HOLDING = text("""
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
class SaidEnding(SaidMessage):
    """A denial without a value, and its message."""

    ending: Ending


async def find_ended(
    connection: AsyncConnection, host: UUID, said: Sequence[SaidEnding], waiting: Sequence[WaitingFact] = ()
) -> list[Sequence[ExtractedFact]]:
    """Return the denials that each of these is, in their order; none where no fact of its kinds is known.

    Takes the tenant's transaction; `waiting` are facts of other messages that no worker has put in order yet.
    """
    if not said:
        return []
    places = {"host": host, "banks": [one.bank for one in said], "units": [one.unit_id for one in said]}
    limits = {"messages": MESSAGES, "characters": CHARACTERS, "mined_role": MINED_ROLE}
    rows = await fetch_rows(connection, BEFORE, {**places, **limits})
    before = {unit: [*messages] for unit, messages in groupby(rows, key=lambda row: row.correction)}
    asked = [
        (one.bank, one.user_id, one.subject, ",".join(one.ending.kinds), nth)
        for nth, one in enumerate(said)
        if one.ending.kinds
    ]
    names = ("banks", "users", "subjects", "kinds", "nths")
    arguments = {name: [one[nth] for one in asked] for nth, name in enumerate(names)}
    limits = {"most": MOST, "searched": SEARCHED}
    held = await fetch_rows(connection, HOLDING, {"host": host, **limits, **arguments}) if asked else []
    return [
        _deny_all(one, [row for row in held if row.nth == nth], before.get(one.unit_id, ()), waiting)
        for nth, one in enumerate(said)
    ]


def _deny_all(
    one: SaidEnding, held: Sequence[DriverRow], messages: Sequence[DriverRow], waiting: Sequence[WaitingFact]
) -> Sequence[ExtractedFact]:
    name, subject = (one.name or "").strip() or None, one.subject.casefold()
    if not one.ending.kinds:
        said = [MessageText(MINED_ROLE, row.content, row.name) for row in messages[:1]]
        return [take_back(one.ending, fact, name) for of in said for fact in find_facts(of, 0) if not fact.denied]
    ended: dict[tuple[str, str], str] = {}
    for fact in waiting:
        if fact.identity.subject == subject and one.ending.ends(fact.identity.fact_id, fact.value) and not fact.denied:
            ended[fact.identity.fact_id, fact.identity.key] = fact.value
    for row in messages:
        for told in find_facts(MessageText(MINED_ROLE, row.content, row.name), 0):
            if one.ending.ends(told.fact_id, told.value) and not told.denied:
                ended[told.fact_id, told.key.casefold()] = told.value
    ended |= {(row.fact_id, row.key): row.value for row in held if one.ending.ends(row.fact_id, row.value)}
    return [end_fact(one.ending, kind, key, value, name) for (kind, key), value in sorted(ended.items())]
