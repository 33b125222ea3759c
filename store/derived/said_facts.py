"""Facts that rules extract from messages: ids, expiry, and facts of turns that no worker has processed yet.

A turn's facts are written by the extraction stage and ordered in time by the projection stage. Until then a reader
finds them by the same rules in the newest waiting turns, under the ids that they will have (law L4).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import (
    CTE,
    Integer,
    Select,
    Uuid,
    bindparam,
    exists,
    func,
    or_,
    select,
    text,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.facts import DENIED, MANY_VALUED, Identity
from store.derived.implied_facts import ImplyingMessages, SaidMessage, WaitingFact
from store.driver_rows import DriverRow, fetch_rows
from store.expiry import row_lasts
from store.ledger.stages import Stage
from store.off_loop import run_off_loop
from store.retention import FactRetention, TierRetention
from store.schema import BANK, LEDGER, UNIT, in_bank
from store.sql_constants import ONE, inline
from store.text.rules import VERSION, ExtractedFact, MessageText
from store.text.rules.extract import MAX_FACTS_OF_TURN
from store.text.rules.facts import MINED_ROLE, find_facts
from store.text.terms import Terms, analyse_text, lexical_text
from store.text.word_rules import WordRules
from store.text_lengths import has_at_most

#: The fact type of the rules' units.
FACT_KIND = "world"
#: The most waiting turns that one question reads: the newest of a bank, and of the asking session.
TURNS = 64
#: The most messages of them that are read, and the most characters of one; a longer message is left to the worker.
MESSAGES, CHARACTERS = 256, 8192
#: The most facts that are read of them, the newest; older ones are left to the worker.
FACTS = 2_000
#: The cost of reading a fact, in characters of text that are cut into words in the same time.
_EFFORT = 64
#: The version name in the fact ids of all versions of the rules: that of the first.
_RULES, _RULES_BEGIN = "rules-1", "rules-"
#: The columns of a message that are read.
MESSAGE_COLUMNS = (
    *("bank_id", "unit_id", "turn_id", "session_id", "session_name", "turn_name", "user_id", "role", "name"),
    *("content", "event_date", "position", "expires_at", "update_ts"),
)

_UNIT, _LEDGER, _BANK = UNIT.alias("u"), LEDGER.alias("l"), BANK.alias("b")
_HOST, _USER, _TURNS = bindparam("host", type_=Uuid), bindparam("user", type_=Uuid), bindparam("turns", type_=Integer)
#: Selects the bank, if it exists.
ONE_BANK = select(_BANK.c.bank_id, _BANK.c.bank_name).where(in_bank(_BANK), _BANK.c.active, row_lasts(_BANK))
# `forgotten`: the fact's unit has ended already.
FOLDED = text("""
    select afterturn.folded(f.subject) as subject, afterturn.folded(f.key) as key, afterturn.folded(f.value) as value,
           exists (select from afterturn.agent_memory_unit_t u
                    where u.host_id = :host and u.bank_id = f.bank and u.unit_id = f.unit and not u.active) as forgotten
      from unnest(cast(:banks as uuid[]), cast(:units as uuid[]), cast(:subjects as text[]), cast(:keys as text[]),
                  cast(:values as text[])) with ordinality as f(bank, unit, subject, key, value, nth)
     order by f.nth""")


@dataclass(frozen=True, slots=True)
class SaidFact:
    """A fact of a waiting turn, as the stages will write it.

    `value` is folded as in the identity; `said` is the log position of its message. `alone`: its turn has
    no other speaker.
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
    alone: bool


def fact_unit_id(turn: UUID, fact: ExtractedFact, version: str = VERSION) -> UUID:
    """Return the id of a fact's unit, which is the same for every version of the rules.

    So a fact that a caller forgot stays forgotten under a newer version, and a turn that is read again adds no fact
    that an older version found.
    """
    return name_fact_unit(turn, fact.ordinal, (fact.slug, fact.key, fact.value), version)


def name_fact_unit(turn: UUID, ordinal: int, said: tuple[str, str, str], version: str) -> UUID:
    """Return the id of a fact's unit by what it is: `ordinal` of its message, and its slug, key and value (`said`)."""
    reader = _RULES if version.startswith(_RULES_BEGIN) else version
    return uuid5(turn, f"fact:{reader}:{ordinal}:{':'.join(said)}")


def fact_ends_at(
    fact: ExtractedFact, said_at: datetime, source_ends: datetime | None, retention: TierRetention
) -> datetime | None:
    """Return when a fact expires: with its source, or earlier where its tier is a passing one; None: never."""
    ends = (source_ends, retention.compute_end(fact.fact_id, fact.tier, said_at))
    return min((end for end in ends if end is not None), default=None)


def fact_metadata(fact: ExtractedFact, version: str = VERSION) -> dict[str, str]:
    """Return the metadata of a fact's unit."""
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
        **({DENIED: "true"} if fact.denied else {}),
    }


def analyse_fact(fact: ExtractedFact, said_at: datetime, rules: WordRules) -> Terms:
    """Return the index terms of a fact by the bank's `rules`."""
    return analyse_text(lexical_text(None, said_at, fact.statement, rules), rules)


async def read_said_facts(
    connection: AsyncConnection,
    banks: Select[UUID, str],
    asked: dict[str, Any],
    retention: FactRetention,
    *,
    session: UUID | None = None,
    user: UUID | None = None,
) -> list[SaidFact]:
    """Return the facts of the newest waiting turns, in the order they were said, inside the tenant's transaction.

    `banks` is a query of `bank_id` and `bank_name` with the parameters `asked` (`host` and `now` among them);
    `retention` is that of the workers. The newest turns of `session` are read as well as those of the banks; with
    `user`, messages of that user alone.
    """
    limits = {"turns": TURNS, "messages": MESSAGES, "characters": CHARACTERS, "mined_role": MINED_ROLE}
    arguments = {**asked, **limits, "session": session, "user": user}
    rows = await fetch_rows(connection, _select_waiting(banks), arguments)
    if not rows:
        return []
    ends = _EndOfFacts(retention, asked["host"])
    found = await run_off_loop(sum(len(row.content) for row in rows), _find_facts, rows, asked["now"], ends)
    alone = _find_lone_turns(rows)
    facts = await _fold_facts(connection, found, alone, ends) if found else []
    waiting = [WaitingFact(one.identity, one.value, one.fact.denied) for one in facts]
    by_unit = {row.unit_id: row for row in sorted(rows, key=_order_said)}
    messages = [
        SaidMessage(row.bank_id, row.unit_id, row.user_id, row.nth, MessageText(row.role, row.content, row.name))
        for row in by_unit.values()
    ]
    stated = await ImplyingMessages(messages).find_implied(connection, asked["host"], waiting)
    implied = [(by_unit[one.unit_id], fact) for one, fact in stated]
    implied = [(row, fact) for row, fact in implied if ends.lasts(row, fact, asked["now"])]
    if implied:
        facts += await _fold_facts(connection, implied, alone, ends)
    return sorted(facts, key=lambda one: (one.said_at, one.said)) if implied else facts


@dataclass(frozen=True, slots=True)
class _EndOfFacts:
    """Computes when the facts of a tenant's waiting messages end."""

    retention: FactRetention
    host: UUID

    def of(self, row: DriverRow, fact: ExtractedFact) -> datetime | None:
        retention = self.retention.of(self.host, row.bank_id)
        return fact_ends_at(fact, row.event_date, row.expires_at, retention)

    def lasts(self, row: DriverRow, fact: ExtractedFact, now: datetime) -> bool:
        """Return whether a message's fact has not ended."""
        end = self.of(row, fact)
        return end is None or end > now


@cache
def _select_waiting(banks: Select[UUID, str]) -> Select[*tuple[Any, ...]]:
    """Return the query of the messages of the newest waiting turns in these banks.

    A turn waits until its projection row is done. `nth` numbers the remembered messages of a turn, as the extraction
    stage does. Each part is limited, however much waits.
    """
    seen = banks.cte("banks").prefix_with("materialized")
    waiting = _select_turns(seen)
    nth = (func.row_number().over(order_by=_UNIT.c.ordinal) - ONE).label("nth")
    message = (
        select(*(_UNIT.c[name] for name in MESSAGE_COLUMNS), nth)
        .where(
            _UNIT.c.host_id == _HOST,
            _UNIT.c.bank_id == waiting.c.bank_id,
            _UNIT.c.turn_id == waiting.c.turn_id,
            _UNIT.c.origin != inline("extraction"),
            _UNIT.c.active,
        )
        .lateral("m")
    )
    return (
        select(message, seen.c.bank_name)
        .join_from(waiting, seen, seen.c.bank_id == waiting.c.bank_id)
        .join(message, true())
        .where(
            message.c.role == bindparam("mined_role"),
            has_at_most(message.c.content, bindparam("characters", type_=Integer)),
            row_lasts(message),
            or_(_USER.is_(None), message.c.user_id == _USER),
        )
        .order_by(message.c.position.desc())
        .limit(bindparam("messages", type_=Integer))
    )


def _select_turns(seen: CTE) -> CTE:
    """Return the query of the waiting turns: the newest of the asking session, and the newest of the banks."""
    of_session = (
        select(_UNIT.c.bank_id, _UNIT.c.turn_id)
        .where(
            _UNIT.c.host_id == _HOST,
            _UNIT.c.bank_id == seen.c.bank_id,
            _UNIT.c.session_id == bindparam("session", type_=Uuid),
            _UNIT.c.seq.is_not(None),
        )
        .order_by(_UNIT.c.seq.desc())
        .limit(_TURNS)
        .lateral("s")
    )
    own = select(of_session).distinct().join_from(seen, of_session, true()).cte("own").prefix_with("materialized")
    undone = (
        select(_LEDGER.c.bank_id, _LEDGER.c.turn_id, _LEDGER.c.position)
        .where(
            _LEDGER.c.host_id == _HOST,
            _LEDGER.c.bank_id == seen.c.bank_id,
            _LEDGER.c.stage == inline(Stage.PROJECTION),
            _LEDGER.c.undone,
        )
        .order_by(_LEDGER.c.position.desc())
        .limit(_TURNS)
        .lateral("n")
    )
    newest = (
        select(undone.c.bank_id, undone.c.turn_id)
        .join_from(seen, undone, true())
        .order_by(undone.c.position.desc())
        .limit(_TURNS)
        .cte("newest")
        .prefix_with("materialized")
    )
    either = union_all(select(own), select(newest)).subquery("w")
    still = exists().where(
        _LEDGER.c.host_id == _HOST,
        _LEDGER.c.stage == inline(Stage.PROJECTION),
        _LEDGER.c.item_id == either.c.turn_id,
        _LEDGER.c.undone,
    )
    return select(either).distinct().where(still).cte("waiting").prefix_with("materialized")


def _find_facts(rows: Sequence[DriverRow], now: datetime, ends: _EndOfFacts) -> list[tuple[DriverRow, ExtractedFact]]:
    """Return the newest facts of these messages that have not ended, in the order they were said.

    Of each turn the first ones count, ended ones included: no worker will write more of it.
    """
    turns, found = dict[UUID, list[DriverRow]](), list[tuple[DriverRow, ExtractedFact]]()
    for row in sorted(rows, key=_order_said, reverse=True):
        turns.setdefault(row.turn_id, []).append(row)
    for turn in turns.values():
        if len(found) >= FACTS:
            break
        first = islice(_read_turn(turn), MAX_FACTS_OF_TURN)
        found += [(row, fact) for row, fact in first if ends.lasts(row, fact, now)]
    return sorted(found, key=lambda one: _order_said(one[0]))[-FACTS:]


def _find_lone_turns(rows: Sequence[DriverRow]) -> frozenset[UUID]:
    """Return the turns in which one person alone speaks."""
    speakers: dict[UUID, set[str | None]] = {}
    for row in rows:
        speakers.setdefault(row.turn_id, set()).add(row.name)
    return frozenset(turn for turn, names in speakers.items() if len(names) == 1)


def _order_said(row: DriverRow) -> tuple[datetime, int]:
    return _said_at(row), row.position


def _said_at(row: DriverRow) -> datetime:
    """Return when a message was said: not after it was accepted."""
    moment: datetime = min(row.event_date, row.update_ts)
    return moment


def _read_turn(rows: Iterable[DriverRow]) -> Iterator[tuple[DriverRow, ExtractedFact]]:
    """Yield the facts of a turn's messages in the order of its text."""
    for row in sorted(rows, key=lambda row: int(row.nth)):
        for fact in find_facts(MessageText(row.role, row.content, row.name), row.nth):
            yield row, fact


async def _fold_facts(
    connection: AsyncConnection,
    found: Sequence[tuple[DriverRow, ExtractedFact]],
    lone_turns: frozenset[UUID],
    ends: _EndOfFacts,
) -> list[SaidFact]:
    """Return the facts under the identities that the projection stage will give them, without forgotten ones."""
    units = await run_off_loop(_EFFORT * len(found), lambda: [fact_unit_id(row.turn_id, fact) for row, fact in found])
    arguments = {
        "host": ends.host,
        "banks": [row.bank_id for row, _ in found],
        "units": units,
        "subjects": [fact.subject or str(row.user_id) for row, fact in found],
        "keys": [fact.value if fact.fact_id in MANY_VALUED else fact.key for _, fact in found],
        "values": [fact.value for _, fact in found],
    }
    folded = await fetch_rows(connection, FOLDED, arguments)
    return await run_off_loop(_EFFORT * len(found), _build_facts, found, units, folded, lone_turns, ends)


def _build_facts(
    found: Sequence[tuple[DriverRow, ExtractedFact]],
    units: Sequence[UUID],
    folded: Sequence[DriverRow],
    lone_turns: frozenset[UUID],
    ends: _EndOfFacts,
) -> list[SaidFact]:
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
            said_at=_said_at(row),
            said=row.position,
            expires_at=ends.of(row, fact),
            alone=row.turn_id in lone_turns,
        )
        for unit, (row, fact), named in zip(units, found, folded, strict=True)
        if not named.forgotten
    ]
