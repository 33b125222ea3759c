"""Reads facts of turns that no worker has extracted yet, so that recall finds them like stored ones (law L4).

The rules extract them from the newest pending turns, as for a profile. Their words and vectors are made with the
question, under the ids that they will have; a stored fact that one of them replaces is left out. A question that does
not ask for facts finds their messages instead, and skips this.
"""

from collections.abc import Sequence
from operator import itemgetter
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, bindparam, column, exists, func, select, text, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.facts import Identity, add_opposites, identity_columns
from store.derived.said_facts import FACT_KIND, ONE_BANK, SaidFact, analyse_fact, fact_metadata, read_said_facts
from store.driver_rows import DriverRow, fetch_rows
from store.off_loop import run_off_loop
from store.recall import filters
from store.recall.pool import Candidate
from store.recall.question import Question
from store.recall.state import RecallState, UnstoredUnits
from store.recall.unstored_units import pack_words
from store.schema import UNIT, in_bank
from store.sql_constants import ONE

_SOURCE, _WRITTEN = UNIT.alias("u"), UNIT.alias("w")
_FACT = (
    func.unnest(bindparam("facts", type_=ARRAY(Uuid)), bindparam("sources", type_=ARRAY(Uuid)))
    .table_valued(column("unit_id", Uuid), column("source", Uuid))
    .render_derived("f")
)
# A fact passes if its source message passes; earlier versions of a corrected text are not extracted again.
_PASSES = (
    select(_SOURCE.c.unit_id)
    .where(in_bank(_SOURCE), _SOURCE.c.unit_id == _FACT.c.source, filters.conditions_of_any_kind(_SOURCE))
    .limit(ONE)
    .lateral("s")
)
PASSING = select(
    _FACT.c.unit_id,
    exists().where(in_bank(_WRITTEN), _WRITTEN.c.unit_id == _FACT.c.unit_id).label("is_written"),
).join_from(_FACT, _PASSES, true())
# The facts of the same identities that were valid at that moment.
IN_LINE = text("""
    select f.unit_id, f.fact_id, f.subject, f.key, f.value, f.valid_from, f.said
      from unnest(cast(:fact_ids as text[]), cast(:subjects as text[]), cast(:keys as text[])) t(fact_id, subject, key),
           lateral (select f.* from afterturn.fact_t f
                     where f.host_id = :host and f.bank_id = :bank and f.fact_id = t.fact_id and f.subject = t.subject
                       and f.key = t.key and f.valid_from <= coalesce(cast(:as_of as timestamptz), 'infinity')
                       and (f.valid_to is null or f.valid_to > cast(:as_of as timestamptz)) offset 0) f,
           lateral (select from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.unit_id = f.unit_id and u.active
                       and (cast(:known_at as timestamptz) is null or u.update_ts <= cast(:known_at as timestamptz))
                     limit 1) u""")
#: The cost of analysing a fact, in characters of text that are cut into words in the same time.
_EFFORT = 120


async def read_pending_facts(connection: AsyncConnection, state: RecallState) -> UnstoredUnits:
    """Return the pending facts that pass the question's filters, in its transaction; none if it asks for no facts."""
    query = state.query
    # A fact has no role and no tags: a question that filters by them asks for no fact.
    if FACT_KIND not in query.kinds or query.roles or query.tags:
        return UnstoredUnits()
    place = state.place
    own = filters.own_session(query, state.bank)
    asked = {**place, "now": state.now}
    found = await read_said_facts(connection, ONE_BANK, asked, state.retention, session=own, user=query.user)
    if not found:
        return UnstoredUnits()
    wanted = {**filters.filter_parameters(query, state.bank, ended_by=state.now), "metadata": None}
    arguments = {**place, **wanted, "facts": [one.unit_id for one in found], "sources": [one.source for one in found]}
    written = {row.unit_id: row.is_written for row in await fetch_rows(connection, PASSING, arguments)}
    said = [one for one in found if one.unit_id in written]
    identities = identity_columns(add_opposites(one.identity for one in said))
    moments = {"as_of": query.as_of, "known_at": query.known_at}
    in_line = await fetch_rows(connection, IN_LINE, {**place, **moments, **identities}) if said else []
    replaced = _find_replaced(in_line, said)
    told = [one for one in said if not (written[one.unit_id] or one.unit_id in replaced or one.fact.denied)]
    told = [one for one in reversed(told) if query.metadata.items() <= fact_metadata(one.fact).items()]
    words = await run_off_loop(_EFFORT * len(told), _pack_words, told, state.question)
    return UnstoredUnits({one.unit_id: _build_candidate(one) for one in told}, words, replaced)


def _find_replaced(in_line: Sequence[DriverRow], said: Sequence[SaidFact]) -> frozenset[UUID]:
    """Return the units of facts after which another value of their identity was said. Pure."""
    facts = [
        *(
            (Identity(row.fact_id, row.subject, row.key), (row.valid_from, row.said), row.value, row.unit_id, False)
            for row in in_line
        ),
        *((one.identity, (one.said_at, one.said), one.value, one.unit_id, one.fact.denied) for one in said),
    ]
    last = dict[Identity, tuple[str, str] | None]()
    # The sort is stable: facts of one moment keep the order in which they were said.
    for of, _, value, _, denied in sorted(facts, key=itemgetter(1)):
        if not denied:
            last[of.line] = of.fact_id, value
        elif last.get(of.line) == (of.fact_id, value):
            last[of.line] = None
    return frozenset(unit for of, _, value, unit, _ in facts if last.get(of.line) != (of.fact_id, value))


def _pack_words(said: Sequence[SaidFact], question: Question) -> dict[str, bytes]:
    rules = question.rules[0]
    return pack_words(((one.unit_id, analyse_fact(one.fact, one.said_at, rules)) for one in said), question)


def _build_candidate(one: SaidFact) -> Candidate:
    return Candidate(
        unit_id=one.unit_id,
        kind=FACT_KIND,
        text=one.fact.statement,
        whole=True,
        session_id=one.session_id,
        session_name=one.session_name,
        turn_name=one.turn_name,
        seq=None,
        role=None,
        name=None,
        occurred_at=one.said_at,
        sources=(one.source,),
        user_id=one.user_id,
        confidence=f"{one.fact.confidence:g}",
    )
