"""Recall: what the memory holds for a question, now."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from uuid import UUID

from embeddings.protocol import Embedder, Reranker
from store import identity
from store.database import Database
from store.database_outage import may_pass, timed_out
from store.derived.persons import parse_confidence
from store.ledger.freshness import Freshness, read_freshness
from store.off_loop import off_loop
from store.recall import filters
from store.recall.arms import Arm, Search
from store.recall.as_of import restore_texts
from store.recall.budget import cut_to_budget, select_directives
from store.recall.candidates import load_pool, whole_texts
from store.recall.deduplication import Folded, Recent, deduplicate_ranking
from store.recall.dense_arm import DenseArm, search_settings
from store.recall.evidence import weigh_evidence
from store.recall.fusion import Ranking, fuse_scores
from store.recall.lexical_arm import LexicalArm
from store.recall.meaning import Meaning, Meanings
from store.recall.pinned_arm import PinnedArm, most_first
from store.recall.pool import Candidate, Pool
from store.recall.preparation import TENANT_AND_ONE_PLAN, Preparation, prepare_search
from store.recall.query import Evidence, RecallAnswer, Recalled, RecallQuery
from store.recall.question import EFFORT, Question, named_speakers, parse_question
from store.recall.recent_arm import RecentArm
from store.recall.reranking import NAME as RERANK
from store.recall.reranking import LastLook
from store.recall.rules import mute_echoes
from store.recall.run_arms import ArmFailed, Consulted, query_arms, score_pool
from store.recall.settings import RankingSettings, RecallSettings
from store.recall.steps import Steps
from store.recall.time_arm import TimeArm
from store.recall.vector_writeback import Keeping
from store.tenancy.languages import Languages
from store.text.times import find_spans

#: A question is read so far; the sentence model reads less.
MAX_CHARACTERS = 8192

#: So many characters of candidates are ranked while one of a text is cut into words.
RANKED_CHARACTERS = 4

ARMS: tuple[Arm, ...] = (DenseArm(), LexicalArm(), TimeArm(), RecentArm(), PinnedArm())


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many units an answer is made of, and what it must not repeat; `speakers` may be named by the question."""

    count: int
    without: Recent | None
    speakers: Collection[str] = ()


class Recaller:
    """Answers questions to a bank; waits for no stage, and covers what has no vector yet itself.

    One call to the embedder, two short transactions around it, none open meanwhile; and then, where there is one, one
    call to the reranker. Embedder, arms and reranker may fail: the answer names them and comes from the others.
    """

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        settings: RecallSettings,
        arms: Sequence[Arm] = ARMS,
        *,
        reranker: Reranker | None = None,
        keeping: Keeping | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._settings = settings
        self._arms = arms
        self._languages = Languages(database)
        self._meanings = Meanings(embedder, settings, keeping)
        self._clock = clock
        self._last = None if reranker is None else LastLook(reranker, settings.rerank)

    async def recall(self, host: UUID, query: RecallQuery) -> RecallAnswer:
        """Return the best `k` units of the bank, best first; a bank that does not exist gives none."""
        steps = Steps()
        bank = identity.bank_id(host, query.bank)
        rules = await self._languages.asking(host, bank)
        asked = query.text[:MAX_CHARACTERS]
        question = await off_loop(EFFORT * len(asked), parse_question, asked, rules=rules)
        async with self._database.tenant(host, TENANT_AND_ONE_PLAN) as connection:
            prepared = await prepare_search(
                connection,
                host,
                query,
                question=question,
                settings=self._settings,
                generation=self._embedder.generation,
                now=self._moment(query),
            )
        steps.done("prepare")
        if not isinstance(prepared, Preparation):
            return RecallAnswer((), prepared, steps.milliseconds(), bank_known=False)
        counting = asyncio.create_task(self._freshness(host, bank, prepared), name="count what is undone")
        try:
            return await self._answer(host, query, question, prepared, fresh=counting, steps=steps)
        finally:
            counting.cancel()

    async def _freshness(self, host: UUID, bank: UUID, prepared: Preparation) -> Freshness:
        """Return how fresh the bank was; very many undone rows are counted beside the search, not before it."""
        if not prepared.more_pending:
            return prepared.freshness
        async with self._database.tenant(host) as connection:
            return replace(prepared.freshness, pending=(await read_freshness(connection, host, bank)).pending)

    async def _answer(
        self,
        host: UUID,
        query: RecallQuery,
        question: Question,
        prepared: Preparation,
        *,
        fresh: Awaitable[Freshness],
        steps: Steps,
    ) -> RecallAnswer:
        """Return what a prepared question is answered with."""
        bank = identity.bank_id(host, query.bank)
        meaning = await self._meanings.of(question, prepared, host=host, bank=bank)
        steps.done("embed")
        search = self._brief(host, query, question, prepared, meaning)
        last = None if RERANK in query.without else self._last
        wanted = Wanted(last.wanted(query.most) if last else query.most, prepared.recent, prepared.speakers)
        items, evidence, failed = await self._found(search, query, steps, wanted)
        steps.done("texts")
        degraded = [wrong for wrong in (meaning.wrong, *failed) if wrong]
        if last is not None:
            items, wrong = await last.look(question.text, items)
            degraded += [wrong] if wrong else []
            steps.done(RERANK)
        room = query.count_room(self._settings.answer_tokens)
        laid_down, used = await select_directives(prepared.directives, room, self._settings, self._embedder)
        best = [one for one in items[: query.most] if query.min_score is None or one.score >= query.min_score]
        weights = {word: prepared.statistics.idf(word) for word in question.words}
        kept = await cut_to_budget(best, None if room is None else room - used, weights, self._embedder)
        steps.done("budget")
        return RecallAnswer(
            kept, await fresh, steps.milliseconds(), tuple(degraded), laid_down, evidence=evidence, room=room
        )

    def _brief(
        self, host: UUID, query: RecallQuery, question: Question, prepared: Preparation, meaning: Meaning
    ) -> Search:
        """Return what every arm is told."""
        bank = identity.bank_id(host, query.bank)
        now = self._moment(query)
        return Search(
            host=host,
            bank=bank,
            question=question,
            statistics=prepared.statistics,
            generation=self._embedder.generation,
            vector=meaning.vector,
            tail=meaning.tail,
            filters=filters.filter_parameters(query, bank, prepared.earlier, prepared.ended_by),
            settings=_with_room(self._settings, query),
            lists=prepared.lists,
            times=find_spans(question.text, now),
            now=now,
            told_at=prepared.told_at,
            pinned=prepared.pinned,
            earlier=prepared.earlier,
            waiting=prepared.waiting,
        )

    def _moment(self, query: RecallQuery) -> datetime:
        """Return the moment a question is about: now, unless it says another."""
        return query.as_of or query.known_at or self._clock()

    async def _found(
        self, search: Search, query: RecallQuery, steps: Steps, wanted: Wanted
    ) -> tuple[Sequence[Recalled], Evidence, Sequence[str]]:
        """Return the best units, whether they are evidence, and which arms failed."""
        arms = [arm for arm in self._arms if arm.name not in query.without]
        consulted, pool = await self._read_pool(search, arms, steps)
        weights = {arm.name: arm.weight(self._settings) for arm in arms}
        ranking_settings = _with_fewer_pins(self._settings.ranking, query.most)

        def ranked() -> tuple[Ranking, Sequence[Folded], Sequence[str]]:
            heard = mute_echoes(pool, search.question)
            scores, blind = score_pool(consulted.found, heard)
            order = fuse_scores(heard, scores, weights, search.question, ranking_settings, without=query.without)
            return order, list(islice(deduplicate_ranking(order, heard, wanted.without), wanted.count)), blind

        effort = sum(len(candidate.text) for candidate in pool.candidates) // RANKED_CHARACTERS
        ranking, best, blind = await off_loop(effort, ranked)
        steps.done("rank")
        cut = [unit.unit_id for unit in (pool.candidates[one.index] for one in best) if not unit.whole]
        texts = await self._read_whole_texts(search, cut)
        items = [_build_recalled(one, pool, ranking, texts, explain=query.explain) for one in best]
        named = named_speakers(search.question, wanted.speakers)
        evidence = weigh_evidence(ranking.before_pins, pool, named, self._settings.evidence)
        return items, evidence, (*consulted.failed, *blind)

    async def _read_pool(self, search: Search, arms: Sequence[Arm], steps: Steps) -> tuple[Consulted, Pool]:
        """Return what the arms found, and the pool of it; where one fails, each is asked apart."""
        try:
            return await self._query_arms(search, arms, steps, apart=False)
        except ArmFailed as failure:
            cause = failure.__cause__
            if cause is not None and (may_pass(cause) or timed_out(cause)):
                raise cause from None
        return await self._query_arms(search, arms, steps, apart=True)

    async def _query_arms(
        self, search: Search, arms: Sequence[Arm], steps: Steps, *, apart: bool
    ) -> tuple[Consulted, Pool]:
        """Read in one transaction, which ends before anything is ranked: ranking holds no connection."""
        opened = search_settings(search.lists, filtered=filters.is_filtered(search.filters))
        async with self._database.tenant(search.host, opened) as connection:
            consulted = await query_arms(connection, arms, search, steps, apart=apart)
            pool = await load_pool(connection, search, list(consulted.found.values()))
        steps.done("load")
        return consulted, restore_texts(pool, search.earlier)

    async def _read_whole_texts(self, search: Search, units: Sequence[UUID]) -> Mapping[UUID, str]:
        """Return the full texts of units that ranking judged by their beginning."""
        if not units:
            return {}
        async with self._database.tenant(search.host) as connection:
            return await whole_texts(connection, search, units)


def _with_room(settings: RecallSettings, query: RecallQuery) -> RecallSettings:
    """Have each arm find as many as are asked for, and those that may be left out again."""
    room = max(settings.candidates, query.most) + query.skip_recent
    return settings if room == settings.candidates else settings.model_copy(update={"candidates": room})


def _with_fewer_pins(ranking: RankingSettings, k: int) -> RankingSettings:
    """Have no more pinned units come first than an answer of `k` has room for."""
    most = most_first(k)
    return ranking if ranking.pinned <= most else ranking.model_copy(update={"pinned": most})


def _build_recalled(
    found: Folded, pool: Pool, ranking: Ranking, texts: Mapping[UUID, str], *, explain: bool
) -> Recalled:
    index = found.index
    unit: Candidate = pool.candidates[index]
    return Recalled(
        unit_id=unit.unit_id,
        kind=unit.kind,
        text=texts.get(unit.unit_id, unit.text),
        cut=not unit.whole and unit.unit_id not in texts,
        score=float(ranking.scores[index]),
        session_id=unit.session_name,
        turn_id=unit.turn_name,
        turn_ids=found.turns,
        role=unit.role,
        name=unit.name,
        occurred_at=unit.occurred_at,
        arms=ranking.found_by(index),
        explain=ranking.explain(index) if explain else None,
        confidence=parse_confidence(unit.confidence),
        pinned=PinnedArm.name in ranking.moved and ranking.moved[PinnedArm.name][index] > 0,
    )
