"""Reads the statistics, directives and texts without a vector of a bank, before it is searched."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from afterturn_client.contract.knowledge import Directive
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import DriverRow, fetch_rows
from store.ledger.freshness import IN_PASSING, build_freshness, lower_embedded, read_freshness
from store.off_loop import run_off_loop
from store.recall import filters
from store.recall.as_of import correct_frequency, read_as_of
from store.recall.deduplication import RecentMessages
from store.recall.ended_units import read_ended_units
from store.recall.lexical import POSTING, Statistics
from store.recall.names import NAMES, name_marks, resolve_names
from store.recall.pending_facts import read_pending_facts
from store.recall.preparation_queries import PREPARE, PREPARE_SKIPPING, WORDS
from store.recall.query import RecallQuery
from store.recall.question import EFFORT, parse_question, rename_speakers
from store.recall.recent_arm import build_recent_parameters
from store.recall.state import DEFAULT_MEAN_LENGTH, RecallState
from store.recall.tail import CHARACTERS, UnembeddedText
from store.recall.unstored_units import join_unstored, list_texts_to_embed

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
    key = {"host": state.host, "bank": state.bank}
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
