"""What has to be known of a bank before it can be searched."""

from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import DriverRow, fetch_rows
from store.ledger.freshness import FRESHNESS, IN_PASSING, of_row, read_freshness
from store.memory.directives import Directive
from store.off_loop import off_loop
from store.recall import filters
from store.recall.as_of import correct_frequency, read_as_of
from store.recall.deduplication import Recent
from store.recall.ended_units import read_ended_units
from store.recall.lexical import POSTING, Statistics
from store.recall.names import NAMES, name_marks, resolve_names
from store.recall.pending_facts import read_pending_facts
from store.recall.pinned_arm import MOST, PINNED
from store.recall.query import RecallQuery
from store.recall.question import EFFORT, parse_question, rename_speakers
from store.recall.recent_arm import JUST_SAID, recent_parameters
from store.recall.state import DEFAULT_MEAN_LENGTH, RecallState
from store.recall.tail import CHARACTERS, TAIL, Fresh
from store.recall.unindexed import build_tail, join_unindexed
from store.recall.waiting import PACKED, WAITING

#: What a question calls the bank's directives to leave them out.
DIRECTIVES = "directives"
#: A directive that has more for each token there is room for is not read: no text has so few tokens.
BYTES_PER_TOKEN = 16
#: Most speakers of the units with the question's words whose names are looked for in the question.
MOST_SPEAKERS = 500

# The projection stage counts units and words; before its first pass the sessions' own counters serve. A bank that ended
# by its own time was there before.
BANK = text("""
    select coalesce(s.units, (select sum(h.message_count) from afterturn.agent_session_history_t h
                               where h.host_id = b.host_id and h.bank_id = b.bank_id), 0) as units,
           case when s.units > 0 then s.tokens::float8 / s.units end as mean_length
      from afterturn.agent_memory_bank_t b
      left join afterturn.bank_statistics_t s on s.host_id = b.host_id and s.bank_id = b.bank_id
     where b.host_id = :host and b.bank_id = :bank and (b.active or b.update_ts >= b.expires_at)
       and (b.expires_at is null or b.expires_at > cast(:ended_by as timestamptz))""")

# Whether something has ended: where nothing has, no arm looks for it. By the index `unit_expiring`.
HAS_ENDED = """exists (
    select from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.bank_id = :bank and u.active and u.expires_at is not null
       and u.expires_at <= cast(:ended_by as timestamptz))"""

# How many units hold each term: as counted by the projection stage where that is many, else counted now, so that
# the newest turns count too. And who speaks in a few of them: a speaker's name stands in the words of each of his
# messages, so a small sample tells whether a word is a participant's name, without a list of participants.
TERMS = text(f"""
    with waiting as materialized (
        select p.term, count(*) as df, array_agg(p.unit_id) as units, {PACKED} as packed
          from ({WAITING.format(unit="")}) p group by p.term
    )
    select q.term, f.df, s.speakers, w.packed
      from unnest(cast(:terms as text[])) q(term)
      left join waiting w on w.term = q.term
      left join afterturn.term_t t on t.host_id = :host and t.bank_id = :bank and t.term = q.term
     cross join lateral (
           select case when t.df > 1000 then t.df else (
                  select count(*) from (select from afterturn.posting_t p
                                         where p.host_id = :host and p.bank_id = :bank and p.term = q.term
                                         limit 5000) p) end
                  + coalesce(w.df, 0) as df) f
     cross join lateral (
           select array_agg(distinct coalesce(u.name, u.role)) as speakers
             from ((select p.unit_id from afterturn.posting_t p
                     where p.host_id = :host and p.bank_id = :bank and p.term = q.term and q.term not like '%:%'
                     limit 24)
                   union all
                   (select n.unit_id from unnest(w.units) n(unit_id) where q.term not like '%:%' limit 24)) p,
                  lateral (select u.name, u.role from afterturn.agent_memory_unit_t u
                            where u.host_id = :host and u.bank_id = :bank and u.unit_id = p.unit_id
                              and u.seq is not null limit 1) u) s""")  # noqa: S608 - put together from constants

# What the bank's keepers have laid down, the most important first; of what was known at a moment, nothing that was
# changed after it.
STANDING = """
    select v.directive_id, v.name, v.content, v.priority, v.laid_down_by from afterturn.agent_memory_directive_t v
     where v.host_id = :host and v.bank_id = :bank and v.active
       and (cast(:known_at as timestamptz) is null or v.update_ts <= cast(:known_at as timestamptz))
       and octet_length(v.content) <= :directive_bytes
     order by v.priority desc, v.name, v.directive_id limit :directives"""

NEWEST = """
    select u.seq from afterturn.agent_memory_unit_t u
     where u.host_id = :host and u.bank_id = :bank and u.session_id = cast(:session as uuid) and u.seq is not null
     order by u.seq desc limit 1"""

_WORDS = f"""
    select cast(json_agg(json_build_array(t.term, t.df, t.speakers, encode(t.packed, 'base64'))) as text) as terms
      from ({TERMS}) t"""  # noqa: S608 - put together from constants
WORDS = text(_WORDS)
# All of it in one statement: one round trip, and one moment that the answer's freshness is true of.
_PREPARE = f"""
    select f.*, b.units, b.mean_length,
           case when b.units > :exact_units then afterturn.lists_to_read(:bank, b.units, :read_units) end as lists,
           ({_WORDS}) as terms,
           (select cast(json_agg(json_build_array(t.unit_id, t.content, t.aggregate_version, t.is_own)) as text)
              from ({TAIL}) t) as tail,
           {{newest}} as newest,
           (select cast(json_agg(json_build_array(
                       v.directive_id, v.name, v.content, v.priority, v.laid_down_by)) as text)
              from ({STANDING}) v) as standing,
           (select cast(json_agg(json_build_array(r.unit_id, r.at)) as text) from ({JUST_SAID}) r) as just_said,
           array({PINNED}) as pinned, {HAS_ENDED} as has_ended
      from ({FRESHNESS}) f left join ({BANK}) b on true"""  # noqa: S608 - put together from constants
PREPARE = text(_PREPARE.format(newest="cast(null as int)"))
#: The same for who wants the newest of its session left out: other questions do not pay for that.
PREPARE_SKIPPING = text(_PREPARE.format(newest=f"({NEWEST})"))


async def prepare_search(connection: AsyncConnection, state: RecallState) -> bool:
    """Read all of it in the tenant's transaction; return False for a bank that does not exist: its freshness is read.

    What has ended by the moment the question is about is not read. What is written after this may be found by the
    search, but is not promised.
    """
    query, question = state.query, state.question
    key = {"host": state.host, "bank": state.bank}
    state.earlier = await read_as_of(connection, state.host, query, question.rules[0])
    by_name = NAMES not in query.without
    terms = list(question.words)
    arguments = {
        **_tail_arguments(key, state),
        **filters.filter_parameters(query, state.bank, state.earlier, state.now),
        **recent_parameters(state.now, state.settings),
        "terms": [*terms, *name_marks(question)] if by_name else terms,
    }
    statement = PREPARE_SKIPPING if query.skip_recent else PREPARE
    [row] = await fetch_rows(connection, statement, arguments)
    if row.units is None:
        state.freshness = await read_freshness(connection, state.host, state.bank)
        return False
    state.freshness, state.more_pending = of_row(row), row.more_pending
    state.speakers, frequency, state.waiting = _of_words(row)
    if by_name and (names := await resolve_names(connection, state, frequency)):
        renamed = rename_speakers(question.text, names)
        state.question = await off_loop(EFFORT * len(renamed), parse_question, renamed, rules=question.rules)
        terms = list(state.question.words)
        [words] = await fetch_rows(connection, WORDS, {**key, "terms": terms})
        state.speakers, frequency, state.waiting = _of_words(words)
    pending, ended = await read_pending_facts(connection, state), await read_ended_units(connection, state)
    state.unindexed = join_unindexed(pending, ended)
    for term, packed in state.unindexed.words.items():
        frequency[term] = frequency.get(term, 0) + len(packed) // POSTING.itemsize
    units = max(int(row.units), *frequency.values(), 1)
    state.statistics = Statistics(
        units, row.mean_length or DEFAULT_MEAN_LENGTH, correct_frequency(frequency, state.earlier, terms)
    )
    state.fresh = [Fresh(UUID(unit), *rest) for unit, *rest in orjson.loads(row.tail or "[]")]
    state.fresh = build_tail(state) if state.unindexed.candidates else state.fresh
    state.directives = [Directive(UUID(one), *rest) for one, *rest in orjson.loads(row.standing or "[]")]
    state.recent = _recent_window(query, state.bank, row.newest)
    state.lists = row.lists or 0
    state.pinned = [*row.pinned, *(unit for unit, one in ended.candidates.items() if one.pinned)]
    state.just_said = [(UUID(unit), datetime.fromisoformat(at)) for unit, at in orjson.loads(row.just_said or "[]")]
    ended_by = state.now if row.has_ended else None
    state.filters = filters.filter_parameters(query, state.bank, state.earlier, ended_by)
    return True


def _of_words(row: DriverRow) -> tuple[frozenset[str], dict[str, int], dict[str, bytes]]:
    """Return who speaks where the words asked for stand, how many units hold each word, and the postings that wait."""
    found = orjson.loads(row.terms or "[]")
    speakers = frozenset(islice((name for _, _, names, _ in found for name in names or () if name), MOST_SPEAKERS))
    frequency = {term: df for term, df, *_ in found if df}
    return speakers, frequency, {term: b64decode(packed) for term, *_, packed in found if packed}


def _recent_window(query: RecallQuery, bank: UUID, newest: int | None) -> Recent | None:
    session = filters.own_session(query, bank)
    return None if session is None or newest is None else Recent(session, newest - query.skip_recent + 1)


def _tail_arguments(key: Mapping[str, Any], state: RecallState) -> Mapping[str, Any]:
    settings = state.settings
    return {
        **key,
        "session": filters.own_session(state.query, state.bank),
        "chunks": settings.fresh_tail_chunks,
        "characters": CHARACTERS,
        "most": IN_PASSING,
        "exact_units": settings.exact_units,
        "read_units": settings.read_units,
        "pinned": MOST if settings.ranking.pinned else 0,
        "directive_bytes": settings.directive_tokens * BYTES_PER_TOKEN,
        "directives": 0 if DIRECTIVES in state.query.without else settings.directives,
        "generation": state.generation,
    }
