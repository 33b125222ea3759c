"""Reads the statistics, directives and texts without a vector of a bank, before it is searched."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from afterturn_client.contract.knowledge import Directive
from sqlalchemy import (
    ARRAY,
    CTE,
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    ScalarSelect,
    Select,
    SmallInteger,
    Text,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    column,
    distinct,
    exists,
    func,
    null,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store import schema
from store.driver_rows import DriverRow, fetch_rows
from store.ledger.freshness import IN_PASSING, build_freshness, lower_embedded, read_freshness
from store.off_loop import run_off_loop
from store.recall import filters
from store.recall.as_of import correct_frequency, read_as_of
from store.recall.deduplication import RecentMessages
from store.recall.ended_units import read_ended_units
from store.recall.filters import ENDED_BY, has_not_expired, known_by_then
from store.recall.lexical import POSTING, Statistics
from store.recall.names import NAMES, name_marks, resolve_names
from store.recall.pending_facts import read_pending_facts
from store.recall.pending_word_queries import WORD, pack_postings, select_pending_postings
from store.recall.pinned_arm import PINNED
from store.recall.query import RecallQuery
from store.recall.question import EFFORT, parse_question, rename_speakers
from store.recall.recent_arm import JUST_SAID, build_recent_parameters
from store.recall.state import DEFAULT_MEAN_LENGTH, RecallState
from store.recall.tail import CHARACTERS, TAIL, UnembeddedText
from store.recall.unstored_units import join_unstored, list_texts_to_embed
from store.schema import (
    BANK,
    BANK_STATISTICS,
    DIRECTIVE,
    SESSION_HISTORY,
    TERM,
    UNIT,
    in_bank,
    same_bank,
)
from store.sql_constants import ONE, ZERO, inline

_UNIT = UNIT.alias("u")


# The bank ------------------------------------------------------------------------------------------------------------


def count_units(bank: FromClause, counted: FromClause) -> ColumnElement[int]:
    """Return how many units a bank holds; `counted` is its row of statistics, if there is one.

    The projection stage counts them; before its first pass the sessions' own counters serve.
    """
    history = SESSION_HISTORY.alias("h")
    of_sessions = select(func.sum(history.c.message_count)).where(same_bank(history, bank)).scalar_subquery()
    units: ColumnElement[int] = func.coalesce(counted.c.units, of_sessions, ZERO)
    return units


def _select_bank() -> Select[*tuple[Any, ...]]:
    """Select the size of the bank, if it is active or ended by its expiry, and lasted at the question's moment."""
    bank, counted = BANK.alias("b"), BANK_STATISTICS.alias("s")
    mean_length = case((counted.c.units > ZERO, cast(counted.c.tokens, Double) / cast(counted.c.units, Double)))
    return (
        select(count_units(bank, counted).label("units"), mean_length.label("mean_length"))
        .join_from(bank, counted, same_bank(counted, bank), isouter=True)
        .where(in_bank(bank), or_(bank.c.active, bank.c.update_ts >= bank.c.expires_at), has_not_expired(bank))
    )


# Whether a unit of the bank has ended: if none has, the arms need no condition for it. By the index `unit_expiring`.
_HAS_ENDED = exists().where(
    in_bank(_UNIT), _UNIT.c.active, _UNIT.c.expires_at.is_not(None), _UNIT.c.expires_at <= ENDED_BY
)


# The question's words ------------------------------------------------------------------------------------------------

#: Units above which the stored count of a term is taken; units at which counting a rarer term stops.
_COMMON, _MOST_COUNTED = inline(1000), inline(5000)
#: Units of each term whose speakers are read, in the word index and among the pending ones.
_SAMPLE = inline(24)


def _select_terms() -> Select[*tuple[Any, ...]]:
    """Select for each of `terms` how many units hold it, the speakers of some of them, and its pending postings."""
    terms = func.unnest(bindparam("terms", type_=ARRAY(Text))).table_valued(column("term", Text))
    term, counted, waiting = terms.render_derived("q"), TERM.alias("t"), _group_waiting()
    frequency, sample = _count_units_with(term, counted, waiting), _select_speakers(term, waiting)
    return (
        select(
            term.c.term,
            frequency.c.df,
            sample.c.speakers,
            func.encode(waiting.c.packed, inline("base64")).label("packed"),
        )
        .join_from(term, waiting, waiting.c.term == term.c.term, isouter=True)
        .join(counted, and_(in_bank(counted), counted.c.term == term.c.term), isouter=True)
        .join(frequency, true())
        .join(sample, true())
    )


def _group_waiting() -> CTE:
    """Return the pending postings, grouped by term."""
    word = select_pending_postings(in_bank(WORD)).subquery("p")
    return (
        select(
            word.c.term,
            func.count().label("df"),
            func.array_agg(word.c.unit_id).label("units"),
            pack_postings(word).label("packed"),
        )
        .group_by(word.c.term)
        .cte("waiting")
        .prefix_with("materialized")
    )


def _count_units_with(term: FromClause, counted: FromClause, waiting: CTE) -> FromClause:
    """Return how many units hold a term: the projection stage's count if it is high, else a count of the postings.

    The second includes the newest turns.
    """
    posting = schema.POSTING.alias("p")
    posted = select().where(in_bank(posting), posting.c.term == term.c.term).limit(_MOST_COUNTED).correlate(term)
    now = select(func.count()).select_from(posted.subquery("p")).scalar_subquery()
    df = case((counted.c.df > _COMMON, counted.c.df), else_=now) + func.coalesce(waiting.c.df, ZERO)
    return select(df.label("df")).correlate(term, counted, waiting).lateral("f")


def _select_speakers(term: FromClause, waiting: CTE) -> FromClause:
    """Return the speakers of a few of the units that hold a term.

    A speaker's name is indexed with the words of each of their messages, so a small sample shows whether a word is a
    participant's name, without a list of participants. Marks of names (terms with a colon) are no words.
    """
    posting, is_word = schema.POSTING.alias("p"), term.c.term.not_like(inline("%:%"))
    each = func.unnest(waiting.c.units).table_valued(column("unit_id", Uuid)).render_derived("n")
    posted = select(posting.c.unit_id).where(in_bank(posting), posting.c.term == term.c.term, is_word)
    holder = union_all(
        posted.limit(_SAMPLE).correlate(term), select(each.c.unit_id).where(is_word).limit(_SAMPLE).correlate(term)
    ).lateral("p")
    speaker = (
        select(_UNIT.c.name, _UNIT.c.role)
        .where(in_bank(_UNIT), _UNIT.c.unit_id == holder.c.unit_id, _UNIT.c.seq.is_not(None))
        .limit(ONE)
        .lateral("u")
    )
    speakers = func.array_agg(distinct(func.coalesce(speaker.c.name, speaker.c.role)))
    return select(speakers.label("speakers")).join_from(holder, speaker, true()).lateral("s")


# Directives and the newest message ------------------------------------------------------------------------------------


def _select_directives() -> Select[*tuple[Any, ...]]:
    """Select the bank's directives by falling priority; with `known_at`, those that were not changed after it."""
    directive = DIRECTIVE.alias("v")
    return (
        select(*(directive.c[name] for name in ("directive_id", "name", "content", "priority", "laid_down_by")))
        .where(
            in_bank(directive),
            directive.c.active,
            known_by_then(directive),
            func.octet_length(directive.c.content) <= bindparam("directive_bytes", type_=Integer),
        )
        .order_by(directive.c.priority.desc(), directive.c.name, directive.c.directive_id)
        .limit(bindparam("directives", type_=Integer))
    )


_NEWEST = (
    select(_UNIT.c.seq)
    .where(in_bank(_UNIT), _UNIT.c.session_id == bindparam("session", type_=Uuid), _UNIT.c.seq.is_not(None))
    .order_by(_UNIT.c.seq.desc())
    .limit(ONE)
    .scalar_subquery()
)


# The whole statement -------------------------------------------------------------------------------------------------


def _as_json(rows: Select[*tuple[Any, ...]]) -> ScalarSelect[str]:
    """Return the rows of a query as one text: a JSON array with an array for each row."""
    row = rows.subquery("r")
    return select(cast(func.json_agg(func.json_build_array(*row.c)), Text)).select_from(row).scalar_subquery()


_WORDS = _as_json(_select_terms()).label("terms")
WORDS = select(_WORDS)


def _select_preparation(newest: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """Build the statement: one round trip, and one snapshot, of which the answer's freshness is true."""
    fresh = (
        func.afterturn.freshness(
            bindparam("host", type_=Uuid), bindparam("bank", type_=Uuid), bindparam("most", type_=BigInteger)
        )
        .table_valued(
            column("shown", BigInteger),
            column("first_undone", Text),
            column("pending", BigInteger),
            column("more_pending", Boolean),
        )
        .alias("f")
    )
    bank = _select_bank().subquery("b")
    lists = func.afterturn.lists_to_read(
        bindparam("bank", type_=Uuid),
        bank.c.units,
        bindparam("read_units", type_=Integer),
        bindparam("generation", type_=SmallInteger),
    )
    return select(
        fresh,
        bank,
        case((bank.c.units > bindparam("exact_units", type_=BigInteger), lists)).label("lists"),
        _WORDS,
        _as_json(TAIL).label("tail"),
        newest.label("newest"),
        _as_json(_select_directives()).label("standing"),
        _as_json(JUST_SAID).label("just_said"),
        func.array(PINNED.scalar_subquery()).label("pinned"),
        _HAS_ENDED.label("has_ended"),
        func.afterturn.first_without_vector(bindparam("host", type_=Uuid), bindparam("bank", type_=Uuid)).label(
            "without_vector"
        ),
    ).join_from(fresh, bank, true(), isouter=True)


PREPARE = _select_preparation(cast(null(), Integer))
#: Variant that also reads the newest message number of the asking session, so that the search can leave the newest
#: messages out.
PREPARE_SKIPPING = _select_preparation(_NEWEST)


#: The name in `RecallQuery.without` that leaves the bank's directives out.
DIRECTIVES = "directives"
#: Bytes of a directive per token of the room for directives; a longer one is not read, as it could not fit.
BYTES_PER_TOKEN = 16
#: Most speakers whose names are looked for in the question; they speak in units that hold its words.
MOST_SPEAKERS = 500


async def prepare_search(connection: AsyncConnection, state: RecallState) -> bool:
    """Fill the state's fields of the bank, in the tenant's transaction; return False for a bank that does not exist.

    Of a bank that does not exist only the freshness is read. Units that ended by the question's moment are not read.
    Units written after this may be found by the search, without a promise.
    """
    query, question = state.query, state.question
    key = state.place
    state.earlier = await read_as_of(connection, state.host, query, question.rules[0])
    by_name = NAMES not in query.without
    terms = list(question.words)
    arguments = {
        **_tail_arguments(key, state),
        **filters.filter_parameters(query, state.bank, state.earlier, state.now),
        **build_recent_parameters(state.now, question),
        "terms": [*terms, *name_marks(question)] if by_name else terms,
    }
    statement = PREPARE_SKIPPING if query.skip_recent else PREPARE
    [row] = await fetch_rows(connection, statement, arguments)
    if row.units is None:
        state.freshness = await read_freshness(connection, state.host, state.bank)
        return False
    state.freshness = lower_embedded(build_freshness(row), row.without_vector)
    state.more_pending = row.more_pending
    state.speakers, frequency, state.pending_postings = _of_words(row)
    if by_name and (names := await resolve_names(connection, state, frequency)):
        renamed = rename_speakers(question.text, names)
        state.question = await run_off_loop(EFFORT * len(renamed), parse_question, renamed, rules=question.rules)
        terms = list(state.question.words)
        [words] = await fetch_rows(connection, WORDS, {**key, "terms": terms})
        state.speakers, frequency, state.pending_postings = _of_words(words)
    pending, ended = await read_pending_facts(connection, state), await read_ended_units(connection, state)
    state.unstored = join_unstored(pending, ended)
    for term, packed in state.unstored.words.items():
        frequency[term] = frequency.get(term, 0) + len(packed) // POSTING.itemsize
    units = max(int(row.units), *frequency.values(), 1)
    state.statistics = Statistics(
        units, row.mean_length or DEFAULT_MEAN_LENGTH, correct_frequency(frequency, state.earlier, terms)
    )
    state.unembedded = [UnembeddedText(UUID(unit), *rest) for unit, *rest in orjson.loads(row.tail or "[]")]
    state.unembedded = list_texts_to_embed(state) if state.unstored.candidates else state.unembedded
    state.directives = [_read_directive(one) for one in orjson.loads(row.standing or "[]")]
    state.skipped = _recent_window(query, state.bank, row.newest)
    state.lists = row.lists or 0
    state.pinned = [*row.pinned, *(unit for unit, one in ended.candidates.items() if one.pinned)]
    state.just_said = [(UUID(unit), datetime.fromisoformat(at)) for unit, at in orjson.loads(row.just_said or "[]")]
    ended_by = state.now if row.has_ended else None
    state.filters = filters.filter_parameters(query, state.bank, state.earlier, ended_by)
    return True


def _read_directive(values: Sequence[Any]) -> Directive:
    directive, name, content, priority, author = values
    return Directive(directive_id=UUID(directive), name=name, content=content, priority=priority, laid_down_by=author)


def _of_words(row: DriverRow) -> tuple[frozenset[str], dict[str, int], dict[str, bytes]]:
    """Return the speakers of units that hold the asked words, how many units hold each, and the pending postings."""
    found = orjson.loads(row.terms or "[]")
    speakers = frozenset(islice((name for _, _, names, _ in found for name in names or () if name), MOST_SPEAKERS))
    frequency = {term: df for term, df, *_ in found if df}
    return speakers, frequency, {term: b64decode(packed) for term, *_, packed in found if packed}


def _recent_window(query: RecallQuery, bank: UUID, newest: int | None) -> RecentMessages | None:
    session = filters.own_session(query, bank)
    return None if session is None or newest is None else RecentMessages(session, newest - query.skip_recent + 1)


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
        "directive_bytes": settings.directive_tokens * BYTES_PER_TOKEN,
        "directives": 0 if DIRECTIVES in state.query.without else settings.directives,
        "generation": state.generation,
    }
