"""Runs a recall from the question to the ranked answer."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from afterturn_client.contract.freshness import Freshness
from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.prompt_tokens import ESTIMATE
from embeddings.protocol import Embedder, Reranker, TokenCounter, pin_model
from store import identity
from store.database import ONE_PLAN, Database, Settings, change_settings
from store.database_outage import is_statement_timeout, may_pass
from store.ledger.freshness import read_freshness
from store.off_loop import run_off_loop
from store.recall import filters
from store.recall.arms import Arm, ArmFailed, query_arms
from store.recall.as_of import restore_texts
from store.recall.budget import cut_to_budget, select_directives
from store.recall.candidates import load_pool
from store.recall.dense_arm import DenseArm, rank_tail_units, search_settings
from store.recall.fact_arm import FactArm
from store.recall.lexical_arm import LexicalArm
from store.recall.meaning import NAME as EMBEDDING
from store.recall.meaning import QuestionEmbedder
from store.recall.pinned_arm import PinnedArm
from store.recall.pool import CandidatePool
from store.recall.preparation import prepare_search
from store.recall.printing import AnswerPrinter
from store.recall.query import RecallAnswer, Recalled, RecallQuery
from store.recall.question import EFFORT, parse_question
from store.recall.ranking import rank_pool
from store.recall.recent_arm import RecentArm
from store.recall.reranking import NAME as RERANK
from store.recall.reranking import RerankStep
from store.recall.settings import RecallSettings
from store.recall.state import RecallState, StepTimer
from store.recall.supersession import put_newer_first
from store.recall.time_arm import TimeArm
from store.recall.told_times import resolve_times
from store.recall.users import name_users
from store.recall.vector_writeback import VectorWriteback
from store.tenancy.languages import Languages
from store.text.times import find_spans

#: Characters of a question that are read, from its beginning; the sentence model reads fewer.
MAX_CHARACTERS = 8192

#: Texts whose times are told before other calls have their turn: about two milliseconds.
TIMED_TEXTS = 4

ARMS: tuple[Arm, ...] = (DenseArm(), LexicalArm(), TimeArm(), FactArm(), RecentArm(), PinnedArm())
#: The parts without which a recall is answered all the same, by the names that `degraded` says.
OPTIONAL_PARTS = (EMBEDDING, *(arm.name for arm in ARMS), RERANK)


class Recaller:
    """The facade of recall: answers questions to a bank without waiting for a stage; embeds texts without a vector.

    The question is embedded beside the transaction that prepares the search; where the model is done in time, that
    transaction searches, too, else a second one does. Fresh texts are embedded while arms search, and another
    transaction reads what was found where they take longer. After them it calls the reranker, if there is one.
    Embedder, arms and reranker may fail: the answer names those that did and comes from the others.
    """

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        settings: RecallSettings,
        arms: Sequence[Arm] = ARMS,
        *,
        reranker: Reranker | None = None,
        writeback: VectorWriteback | None = None,
        counter: TokenCounter = ESTIMATE,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._settings = settings
        self._arms = arms
        self._languages = Languages(database)
        self._question_embedder = QuestionEmbedder(settings, writeback)
        self._clock = clock
        self._counter = counter
        self._rerank_step = None if reranker is None else RerankStep(reranker, settings.rerank)

    async def recall(self, host: UUID, query: RecallQuery) -> RecallAnswer:
        """Return the best units of the bank, best first: `k` of them, or the passages that a budget of tokens holds.

        There are none for a bank that does not exist.
        """
        model = pin_model(self._embedder)
        state = await self._begin(host, query, model)
        arms = [arm for arm in self._arms if arm.name not in query.without]
        self._question_embedder.begin(state, model)
        try:
            await asyncio.sleep(0)  # the model's thread begins now, not when the database is first waited for
            pool = await self._search(state, arms, model)
            if pool is None:
                return RecallAnswer((), state.freshness, state.steps.milliseconds(), bank_known=False)
            return await self._answer(state, arms, pool, model)
        finally:
            state.cancel_work()

    async def _begin(self, host: UUID, query: RecallQuery, model: Embedder) -> RecallState:
        """Return the state of a new recall, its question parsed by the rules of the bank's languages."""
        steps = StepTimer()
        bank, now = identity.bank_id(host, query.bank), query.as_of or query.known_at or self._clock()
        rules = await self._languages.asking(host, bank)
        asked = query.text[:MAX_CHARACTERS]
        question = await run_off_loop(EFFORT * len(asked), parse_question, asked, rules=rules)
        return RecallState(
            host=host,
            bank=bank,
            query=query,
            question=question,
            settings=_with_room(self._settings, query),
            generation=model.generation,
            now=now,
            retention=self._database.retention,
            times=find_spans(question.text, now),
            steps=steps,
        )

    async def _search(self, state: RecallState, arms: Sequence[Arm], model: Embedder) -> CandidatePool | None:
        """Return the pool of the units that the arms find; None for a bank that does not exist.

        After a failure each arm is queried in its own savepoint.
        """
        try:
            async with self._database.tenant(state.host, ONE_PLAN) as connection:
                if not await prepare_search(connection, state):
                    return None
                state.steps.done("prepare")
                if state.more_pending:
                    state.counting = asyncio.create_task(self._count_undone(state), name="count what is undone")
                pool = await self._search_at_once(connection, state, arms, model)
            if pool is not None:
                return pool
            await self._embed(state, model)
            return await self._query_arms(state, arms, apart=False)
        except ArmFailed as failure:
            cause = failure.__cause__
            if cause is not None and (may_pass(cause) or is_statement_timeout(cause)):
                raise cause from None
        state.found.clear()
        await self._embed(state, model)
        return await self._query_arms(state, arms, apart=True)

    async def _search_at_once(
        self, connection: AsyncConnection, state: RecallState, arms: Sequence[Arm], model: Embedder
    ) -> CandidatePool | None:
        """Query the arms in the transaction of the preparation as far as the question's vector is there.

        While the model works on the question, the arms that need no vector are queried. If it is done then, so are the
        others, and the pool is read. No connection waits for it.
        """
        if state.begun is None or state.begun.work is None or filters.is_filtered(state.filters):
            return None
        self._question_embedder.phrase(state, model)
        await query_arms(connection, [arm for arm in arms if not arm.needs_vector], state, apart=False)
        if state.begun is None or not await state.begun.has_ended():
            return None
        await self._embed(state, model)
        if (settings := _choose_settings(state)) is not ONE_PLAN:
            await change_settings(connection, settings)
        await query_arms(connection, [arm for arm in arms if arm.needs_vector], state, apart=False)
        return await self._load_pool(connection, state, arms) if _has_tail(state) else None

    async def _embed(self, state: RecallState, model: Embedder) -> None:
        if not state.is_embedded:
            await self._question_embedder.embed(state, model)
            state.steps.done("embed")

    async def _count_undone(self, state: RecallState) -> Freshness:
        """Return how fresh the bank was; very many undone rows are counted during the search, not before it."""
        async with self._database.tenant(state.host) as connection:
            counted = await read_freshness(connection, state.host, state.bank)
        return replace(state.freshness, pending=counted.pending)

    async def _answer(
        self, state: RecallState, arms: Sequence[Arm], pool: CandidatePool, model: Embedder
    ) -> RecallAnswer:
        """Return the answer to a question whose bank was searched."""
        query, settings, steps = state.query, state.settings, state.steps
        rerank_step = None if RERANK in query.without else self._rerank_step
        wanted = rerank_step.count_wanted(query.most) if rerank_step else query.most
        items, evidence = await rank_pool(self._database, state, arms, pool, wanted)
        steps.done("texts")
        if rerank_step is not None:
            items, wrong = await rerank_step.rerank(state.question.text, items)
            state.degraded += [wrong] if wrong else []
            steps.done(RERANK)
        items = put_newer_first(items)
        # WHY not isinstance with the protocol `UnderstandsSomeLanguages`: that takes as long as ranking three units.
        understands: str | None = getattr(model, "understands", None)
        room = query.count_room(settings.answer_tokens)
        directives, standing = await select_directives(state.directives, room, settings, query.form, self._counter)
        best = [one for one in items[: query.most] if query.min_score is None or one.score >= query.min_score]
        best = await name_users(self._database, state, best)
        weights = {word: state.statistics.idf(word) for word in state.question.words}
        printer = AnswerPrinter.of(query.form, best, merged=query.merged)
        left = None if room is None else room - standing
        kept, used = await cut_to_budget(best, left, weights, printer, self._counter)
        if state.question.time_words:
            kept = await _tell_times(kept)
        steps.done("budget")
        return RecallAnswer(
            kept,
            state.freshness if state.counting is None else await state.counting,
            # Whether arms are queried before or after the model is done differs from answer to answer.
            steps.milliseconds(("prepare", "embed", *(arm.name for arm in arms))),
            tuple(state.degraded),
            directives,
            evidence=replace(evidence, understands=understands or None),
            room=room,
            tokens=standing + used,
            characters=state.characters,
            unembedded=sum(fresh.unit_id not in state.tail_vectors for fresh in state.unembedded),
        )

    async def _query_arms(self, state: RecallState, arms: Sequence[Arm], *, apart: bool) -> CandidatePool:
        """Return the pool, read with the arms that are left in one transaction, or later where fresh texts are awaited.

        No connection waits for the model, and none is held while units are ranked.
        """
        opened, left = _choose_settings(state), [arm for arm in arms if arm.name not in state.found]
        if left:
            async with self._database.tenant(state.host, opened) as connection:
                await query_arms(connection, left, state, apart=apart)
                if _has_tail(state):
                    return await self._load_pool(connection, state, arms)
        if state.tail_embedding is not None:
            await state.tail_embedding
            state.steps.done("embed")
        async with self._database.tenant(state.host, opened) as connection:
            return await self._load_pool(connection, state, arms)

    async def _load_pool(self, connection: AsyncConnection, state: RecallState, arms: Sequence[Arm]) -> CandidatePool:
        # Scores are summed in the order of the arms, whichever were queried first.
        state.found = {arm.name: state.found[arm.name] for arm in arms if arm.name in state.found}
        rank_tail_units(state)
        pool = await load_pool(connection, state)
        state.steps.done("load")
        return restore_texts(pool, state.earlier)


def _choose_settings(state: RecallState) -> Settings:
    """Return the settings of the transaction that searches."""
    return search_settings(state.lists, filtered=filters.is_filtered(state.filters))


def _has_tail(state: RecallState) -> bool:
    """Return whether no fresh text is being embedded; raises the error of that work."""
    if state.tail_embedding is None or not state.tail_embedding.done():
        return state.tail_embedding is None
    state.tail_embedding.result()
    return True


def _with_room(settings: RecallSettings, query: RecallQuery) -> RecallSettings:
    """Return the settings with enough candidates for each arm: those asked for, and those that may be skipped."""
    room = max(settings.candidates, query.most) + query.skip_recent
    return settings if room == settings.candidates else settings.model_copy(update={"candidates": room})


async def _tell_times(items: Sequence[Recalled]) -> tuple[Recalled, ...]:
    """Return the items with the times that their texts name; other calls have their turn after every few texts."""
    told = list[Recalled]()
    for item in items:
        times = resolve_times(item.text, item.occurred_at)
        told.append(replace(item, times=times) if times else item)
        if not len(told) % TIMED_TEXTS:
            await asyncio.sleep(0)
    return tuple(told)
