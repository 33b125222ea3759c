"""Facts that the rules find in what was said: their ids, when they end, and those that no worker has written yet.

A turn's facts are written by the extraction stage and put in line by the projection stage. Until then a reader finds
them with the same rules in the newest turns that wait, under the ids that they will have (law L4).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.facts import MANY_VALUED, Identity
from store.driver_rows import DriverRow, fetch_rows
from store.expiry import LASTS
from store.off_loop import off_loop
from store.text.rules import VERSION, ExtractedFact, MessageText
from store.text.rules.facts import MINED_ROLE, find_facts, passes_at
from store.text.terms import Terms, analyse_text, lexical_text
from store.text.word_rules import WordRules

#: What kind of unit a fact of the rules is.
FACT_KIND = "world"
#: Turns that wait and are read with one question: the newest of a bank, and of the session that asks.
TURNS = 64
#: Messages that are read of them, and the longest of these: what is longer is read by a worker.
MESSAGES, CHARACTERS = 256, 8192
#: What all versions of the rules are called in the ids of their facts: by the name of the first.
_RULES, _RULES_BEGIN = "rules-1", "rules-"

# The projection row of a turn is undone until its facts are in line. A message's number is that among those of its
# turn that are remembered, as the extraction stage counts them. Each part is limited, however much waits.
WAITING = f"""
    , own as materialized (
        select distinct s.bank_id, s.turn_id
          from banks b,
               lateral (select u.bank_id, u.turn_id from afterturn.agent_memory_unit_t u
                         where u.host_id = :host and u.bank_id = b.bank_id and u.session_id = cast(:session as uuid)
                           and u.seq is not null order by u.seq desc limit :turns) s
    ), newest as materialized (
        select n.bank_id, n.turn_id
          from banks b,
               lateral (select l.bank_id, l.turn_id, l.position from afterturn.ledger_t l
                         where l.host_id = :host and l.bank_id = b.bank_id and l.stage = 'projection' and l.undone
                         order by l.position desc limit :turns) n
         order by n.position desc limit :turns
    ), waiting as materialized (
        select distinct w.bank_id, w.turn_id
          from (select * from own union all select * from newest) w
         where exists (select from afterturn.ledger_t l
                        where l.host_id = :host and l.stage = 'projection' and l.item_id = w.turn_id and l.undone)
    )
    select m.*, b.bank_name
      from waiting w
      join banks b on b.bank_id = w.bank_id,
           lateral (select u.bank_id, u.unit_id, u.turn_id, u.session_id, u.session_name, u.turn_name, u.user_id,
                           u.role, u.name, u.content, u.event_date, u.position, u.expires_at,
                           row_number() over (order by u.ordinal) - 1 as nth
                      from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = w.bank_id and u.turn_id = w.turn_id
                       and u.origin <> 'extraction' and u.active) m
     where m.role = '{MINED_ROLE}' and char_length(m.content) <= :characters and {LASTS.format(of="m")}
       and (cast(:user as uuid) is null or m.user_id = cast(:user as uuid))
     order by m.position desc limit :messages"""  # noqa: S608 - put together from constants
#: The one bank, while it lives.
ONE_BANK = f"""
    select b.bank_id, b.bank_name from afterturn.agent_memory_bank_t b
     where b.host_id = :host and b.bank_id = :bank and b.active and {LASTS.format(of="b")}"""  # noqa: S608 - put together from constants
# One that was forgotten meanwhile is not found again.
FOLDED = text("""
    select afterturn.folded(f.subject) as subject, afterturn.folded(f.key) as key, afterturn.folded(f.value) as value,
           exists (select from afterturn.agent_memory_unit_t u
                    where u.host_id = :host and u.bank_id = f.bank and u.unit_id = f.unit and not u.active) as forgotten
      from unnest(cast(:banks as uuid[]), cast(:units as uuid[]), cast(:subjects as text[]), cast(:keys as text[]),
                  cast(:values as text[])) with ordinality as f(bank, unit, subject, key, value, nth)
     order by f.nth""")


@dataclass(frozen=True, slots=True)
class SaidFact:
    """A fact of a turn that waits, as the stages will write it.

    `value` is folded as in the identity; `said` is where its message stands in the log.
    """

    unit_id: UUID
    identity: Identity = field(repr=False)
    value: str = field(repr=False)
    fact: ExtractedFact = field(repr=False)
    bank_name: str
    source: UUID
    user_id: UUID
    session_id: UUID
    session_name: str | None
    turn_name: str | None
    said_at: datetime
    said: int
    expires_at: datetime | None


def fact_unit_id(turn: UUID, fact: ExtractedFact, version: str = VERSION) -> UUID:
    """Return the id of the unit a fact of a turn becomes: one id, whichever version of the rules finds it.

    So what one version found and a caller forgot stays forgotten, and of a message that is read anew nothing is
    repeated that an older version found in the others of its turn.
    """
    reader = _RULES if version.startswith(_RULES_BEGIN) else version
    return uuid5(turn, f"fact:{reader}:{fact.ordinal}:{fact.slug}:{fact.key}:{fact.value}")


def fact_ends_at(fact: ExtractedFact, said_at: datetime, source_ends: datetime | None) -> datetime | None:
    """Return when a fact ends: what is to be done passes by, and no fact outlives what it was drawn from."""
    ends = (source_ends, passes_at(fact, said_at))
    return min((end for end in ends if end is not None), default=None)


def fact_metadata(fact: ExtractedFact, version: str = VERSION) -> dict[str, str]:
    """Return what the unit of a fact carries as its metadata."""
    return {
        "fact_id": fact.fact_id,
        "key": fact.key,
        "slug": fact.slug,
        "value": fact.value,
        "tier": fact.tier.value,
        "confidence": f"{fact.confidence:g}",
        "span": f"{fact.span.start}:{fact.span.end}",
        "extractor": version,
        **({"subject": fact.subject} if fact.subject else {}),
    }


def analyse_fact(fact: ExtractedFact, said_at: datetime, rules: WordRules) -> Terms:
    """Return the index terms of a fact; `rules`: how the bank's words are cut."""
    return analyse_text(lexical_text(None, said_at, fact.statement, rules), rules)


async def read_said_facts(
    connection: AsyncConnection,
    banks: str,
    asked: dict[str, Any],
    *,
    session: UUID | None = None,
    user: UUID | None = None,
) -> list[SaidFact]:
    """Return the facts of the newest turns that wait, in the order they were said, inside the tenant's transaction.

    `banks` is a query of `bank_id` and `bank_name` that takes what is `asked` (with `host` and `now`); the newest turns
    of `session` are read with those of the banks, and of one `user` alone where one is named.
    """
    limits = {"turns": TURNS, "messages": MESSAGES, "characters": CHARACTERS}
    arguments = {**asked, **limits, "session": session, "user": user}
    rows = await fetch_rows(connection, _read_waiting(banks), arguments)
    if not rows:
        return []
    found = await off_loop(sum(len(row.content) for row in rows), _find_facts, rows, asked["now"])
    return await _fold(connection, asked["host"], found) if found else []


@cache
def _read_waiting(banks: str) -> TextClause:
    return text(f"with banks as materialized ({banks}) {WAITING}")


def _find_facts(rows: Sequence[DriverRow], now: datetime) -> list[tuple[DriverRow, ExtractedFact]]:
    """Return what these messages state and has not ended, the first said first."""
    ordered = sorted(rows, key=lambda row: (row.event_date, row.position))
    found = (
        (row, fact) for row in ordered for fact in find_facts(MessageText(row.role, row.content, row.name), row.nth)
    )
    return [
        (row, fact)
        for row, fact in found
        if (ends := fact_ends_at(fact, row.event_date, row.expires_at)) is None or ends > now
    ]


async def _fold(
    connection: AsyncConnection, host: UUID, found: Sequence[tuple[DriverRow, ExtractedFact]]
) -> list[SaidFact]:
    """Return them under the identities that the projection stage will give them."""
    units = [fact_unit_id(row.turn_id, fact) for row, fact in found]
    arguments = {
        "host": host,
        "banks": [row.bank_id for row, _ in found],
        "units": units,
        "subjects": [fact.subject or str(row.user_id) for row, fact in found],
        "keys": [fact.value if fact.fact_id in MANY_VALUED else fact.key for _, fact in found],
        "values": [fact.value for _, fact in found],
    }
    folded = await fetch_rows(connection, FOLDED, arguments)
    return [
        SaidFact(
            unit_id=unit,
            identity=Identity(fact.fact_id, named.subject, named.key),
            value=named.value,
            fact=fact,
            bank_name=row.bank_name,
            source=row.unit_id,
            user_id=row.user_id,
            session_id=row.session_id,
            session_name=row.session_name,
            turn_name=row.turn_name,
            said_at=row.event_date,
            said=row.position,
            expires_at=fact_ends_at(fact, row.event_date, row.expires_at),
        )
        for unit, (row, fact), named in zip(units, found, folded, strict=True)
        if not named.forgotten
    ]
