"""Ranks the pool of a recall: scores and rules, duplicates, successors, and the evidence of the best units."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from uuid import UUID

import numpy as np
from afterturn_client.contract.recall import Evidence
from numpy.typing import NDArray

from store.database import Database
from store.derived.persons import parse_confidence
from store.memory.reflections import KIND
from store.off_loop import run_off_loop
from store.recall.answer_end import limit_unsure, select_helpful
from store.recall.arms import Arm, score_pool
from store.recall.candidates import read_whole_texts
from store.recall.deduplication import DistinctUnit, deduplicate_ranking
from store.recall.evidence import weigh_evidence
from store.recall.fusion import Ranking, fuse_scores
from store.recall.pinned_arm import PinnedArm, limit_pinned
from store.recall.pool import Candidate, CandidatePool
from store.recall.query import Recalled
from store.recall.question import find_named_speakers
from store.recall.rules import PINS, mute_lines
from store.recall.state import RecallState
from store.recall.supersession import (
    COMPARED,
    NEWER,
    asks_for_withdrawn,
    find_alike,
    find_successors,
    list_with_successors,
    put_newer_of_alike_first,
)

#: Characters of candidates that are ranked in the time in which one character of a text is cut into words.
RANKED_CHARACTERS = 4

Scores = Mapping[str, NDArray[np.float64]]


class _Ranked(NamedTuple):
    """A pool, its order, and its distinct units, best first."""

    pool: CandidatePool
    ranking: Ranking
    distinct: Sequence[DistinctUnit]


class _Later(NamedTuple):
    """By place: the places of units that say later what takes a unit's place, and the pairs that say the same."""

    successors: Mapping[int, Sequence[int]]
    alike: Sequence[tuple[int, int]]


async def rank_pool(
    database: Database, state: RecallState, arms: Sequence[Arm], pool: CandidatePool, wanted: int
) -> tuple[Sequence[Recalled], Evidence]:
    """Return the best `wanted` units of a pool with their whole texts, and the flags of their evidence."""
    state.characters += sum(len(candidate.text) for candidate in pool.candidates)
    effort = _estimate_effort(state, pool)
    # Of a pool of ordinary texts each takes milliseconds: other calls have their turn between them.
    muted_pool, scores, blind = await run_off_loop(effort, _score_unmuted, state, pool)
    state.degraded += blind
    await asyncio.sleep(0)
    weights = {arm.name: arm.weight for arm in arms}
    ranked = _Ranked(pool, *await run_off_loop(effort, _order_pool, state, muted_pool, scores, weights, wanted))
    await asyncio.sleep(0)
    later = await run_off_loop(effort, _find_later, state, ranked)
    state.steps.done("rank")
    places = list_with_successors(_choose_places(state, ranked, wanted), later.successors)
    items = await _build_items(database, state, ranked, later, places)
    named = find_named_speakers(state.question, state.speakers)
    length = state.statistics.mean_length
    flags = weigh_evidence(
        ranked.ranking,
        pool,
        state.question,
        named,
        state.settings.evidence,
        mean_length=length,
        is_understood=state.is_understood,
    )
    return items, flags


def _estimate_effort(state: RecallState, pool: CandidatePool) -> int:
    """Return the effort of ranking, in characters of text to analyse: those of reflections, which are in no index."""
    analysed = sum(len(candidate.text) for candidate in pool.candidates if candidate.kind == KIND)
    return state.characters // RANKED_CHARACTERS + analysed


def _score_unmuted(state: RecallState, pool: CandidatePool) -> tuple[CandidatePool, Scores, Sequence[str]]:
    """Return the pool with lines muted, each arm's scores of it, and the arms that failed."""
    muted_pool = mute_lines(pool, state.question)
    scores, blind = score_pool(state.found, muted_pool)
    return muted_pool, scores, blind


def _order_pool(
    state: RecallState, pool: CandidatePool, scores: Scores, weights: Mapping[str, float], wanted: int
) -> tuple[Ranking, Sequence[DistinctUnit]]:
    """Return the order of a pool by its arms' scores and the rules, and as many distinct units as are needed."""
    query = state.query
    pins = min(PINS, limit_pinned(query.most))
    ranking = fuse_scores(pool, scores, weights, state.question, pins=pins, without=query.without)
    return ranking, list(islice(deduplicate_ranking(ranking, pool, state.skipped), max(wanted, COMPARED)))


def _find_later(state: RecallState, ranked: _Ranked) -> _Later:
    candidates = ranked.pool.candidates
    said = [] if NEWER in state.query.without else [(candidates[one.index], one.said_last) for one in ranked.distinct]
    return _Later(find_successors(said, state.question.text), find_alike(said))


def _choose_places(state: RecallState, ranked: _Ranked, wanted: int) -> Sequence[int]:
    """Return the places of the best units: `wanted` of them, or up to where they stop helping."""
    best, pool = ranked.distinct[:wanted], ranked.pool
    if not state.query.ends_early:
        return range(len(best))
    indexes = [one.index for one in best]
    scored = [(pool.candidates[at], pool.asking[at], float(ranked.ranking.scores[at])) for at in indexes]
    most = limit_unsure(pool, ranked.ranking, state.question, state.statistics)
    return select_helpful(scored, state.question, most=most)


async def _build_items(
    database: Database, state: RecallState, ranked: _Ranked, later: _Later, places: Sequence[int]
) -> Sequence[Recalled]:
    """Return the units of these places, with their texts and successors; of two that say the same the newer first."""
    candidates = [ranked.pool.candidates[one.index] for one in ranked.distinct]
    texts = await _read_whole_texts(database, state, [candidates[place] for place in places])
    items = dict[int, Recalled]()
    for place in places:
        successors = tuple(candidates[at].unit_id for at in later.successors.get(place, ()))
        items[place] = _build_recalled(ranked.distinct[place], ranked, texts, successors, state)
    pairs = [pair for pair in later.alike if items.keys() >= {*pair}]
    near = [(items[older].unit_id, items[newer].unit_id) for older, newer in pairs]
    return list(put_newer_of_alike_first(list(items.values()), near))


async def _read_whole_texts(database: Database, state: RecallState, units: Sequence[Candidate]) -> Mapping[UUID, str]:
    """Return the whole texts of those units that were ranked by the beginning of their text."""
    cut = [unit.unit_id for unit in units if not unit.whole]
    if not cut:
        return {}
    async with database.tenant(state.host) as connection:
        texts = await read_whole_texts(connection, state, cut)
    state.characters += sum(len(text) for text in texts.values())
    return texts


def _build_recalled(
    found: DistinctUnit, ranked: _Ranked, texts: Mapping[UUID, str], successors: tuple[UUID, ...], state: RecallState
) -> Recalled:
    index, ranking = found.index, ranked.ranking
    unit: Candidate = ranked.pool.candidates[index]
    return Recalled(
        unit_id=unit.unit_id,
        kind=unit.kind,
        text=texts.get(unit.unit_id, unit.text),
        cut=not unit.whole and unit.unit_id not in texts,
        score=float(ranking.scores[index]),
        session_name=unit.session_name,
        turn_name=unit.turn_name,
        turn_names=found.turns,
        role=unit.role,
        name=unit.name,
        occurred_at=unit.occurred_at,
        arms=ranking.found_by(index),
        explain=ranking.explain(index) if state.query.explain else None,
        confidence=parse_confidence(unit.confidence),
        pinned=PinnedArm.name in ranking.moved and ranking.moved[PinnedArm.name][index] > 0,
        successors=successors,
        user_id=unit.user_id,
        withdrawn=unit.withdrawn is not None and asks_for_withdrawn(unit.text, unit.withdrawn, state.question.text),
    )
