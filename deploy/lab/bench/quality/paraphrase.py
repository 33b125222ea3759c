"""`afterturn bench paraphrase`: measures whether a new statement is found by other words as well as a settled one."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from afterturn_client import AsyncAfterturn, RecallAnswer, Recalled, TurnReceipt
from afterturn_client.calls import RecallOptions

from deploy.lab.bench.bench_database import open_bench_database
from deploy.lab.bench.measures import BenchOutcome, Machine, Measure, MeasureTarget
from deploy.lab.bench.quality.pairs import CONTEXTS, PairContext, ParaphrasePair, make_prior_turns, read_pairs
from deploy.lab.bench.quality.settling import StageNotSettled, wait_until_settled
from deploy.lab.bench.servers import BenchStack, find_stack_servers, open_bench_stack
from deploy.notices import Say

#: Number of results per answer, and the number of first results in which the statement should be.
DEPTH = 20
FIRST = 5
#: The place of a statement that was not found.
NOT_FOUND = DEPTH + 1
#: Turns per request while a bank is filled.
PRIOR_BATCH = 50
#: Opens the stack that `run` takes.
servers = open_bench_stack


@dataclass(frozen=True, slots=True)
class ParaphraseSizes:
    """The size of a run: number of pairs, and of contexts for each pair."""

    pairs: int = 200
    contexts: int = len(CONTEXTS)


FULL = ParaphraseSizes()


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer: the statement's place in it, the bank's embedded position, and the milliseconds of the call."""

    place: int
    embedded: int
    took_ms: float


@dataclass(frozen=True, slots=True)
class AskedPair:
    """A pair in a context, asked at once; `position` is the statement's log position, `last` that of its last turn."""

    pair: ParaphrasePair
    context: PairContext
    position: int
    last: int
    at_once: TimedAnswer


@dataclass(frozen=True, slots=True)
class PairResult:
    """The answers to the same question at once and after all stages."""

    asked: AskedPair
    settled: TimedAnswer


async def run(on: BenchStack, say: Say, sizes: ParaphraseSizes) -> BenchOutcome:
    """Store and ask every pair in every context, at once and settled; remove all afterwards. Raises StageNotSettled."""
    contexts, told = CONTEXTS[: sizes.contexts], read_pairs()[: sizes.pairs]
    async with open_bench_database(find_stack_servers(on.stack)) as here:
        database = here.database(1)
        try:
            key = await here.new_key(database)
            async with here.owner.connect() as connection:
                machine = await Machine.read(connection)
        finally:
            await database.close()
        async with AsyncAfterturn(on.stack.api, key, timeout_s=60.0, allow_http=True) as memory:
            talk = PairConversation(memory)
            for context in contexts:
                await talk.begin(context)
            say(f"{len(told)} pairs are said in {len(contexts)} contexts each")
            twice = [one for pair in told for one in await talk.both(pair, contexts)]
    for line in _list_misses(twice):
        say(line)
    sized = {"pairs": len(told), "contexts": len(contexts)}
    return BenchOutcome(machine, _compute_measures(twice), sized, dict(_compute_parts(twice, contexts)))


@dataclass(frozen=True, slots=True)
class PairConversation:
    """Stores statements and asks for them; each context has one bank, in which the statements accumulate."""

    memory: AsyncAfterturn

    async def begin(self, context: PairContext) -> None:
        """Write a context's prior turns, and wait until every stage is done."""
        turns, position = make_prior_turns(context, context.name), 0
        for at in range(0, len(turns), PRIOR_BATCH):
            for receipt in await self.memory.add_turns(turns[at : at + PRIOR_BATCH]):
                if not isinstance(receipt, TurnReceipt):
                    raise StageNotSettled(f"bank {context.name}: a turn was refused")
                position = receipt.position
        if position:
            await wait_until_settled(self.memory, context.name, position, [])

    async def both(self, pair: ParaphrasePair, contexts: Sequence[PairContext]) -> list[PairResult]:
        """Store the statement and ask at once in each context, then ask again in each when every stage is done."""
        asked = [await self._at_once(pair, context) for context in contexts]
        return [PairResult(one, await self._settled(one)) for one in asked]

    async def _at_once(self, pair: ParaphrasePair, context: PairContext) -> AskedPair:
        positions = []
        for turn in context.turns(pair, context.name):
            (receipt,) = await self.memory.add_turns([turn])
            if not isinstance(receipt, TurnReceipt):
                raise StageNotSettled(f"bank {context.name}: a turn was refused")
            positions.append(receipt.position)
        return AskedPair(pair, context, positions[0], positions[-1], await self._ask(pair, context))

    async def _settled(self, asked: AskedPair) -> TimedAnswer:
        pair, context = asked.pair, asked.context
        await wait_until_settled(self.memory, context.name, asked.last, [(context.session(pair), pair.name)])
        return await self._ask(pair, context)

    async def _ask(self, pair: ParaphrasePair, context: PairContext) -> TimedAnswer:
        options = RecallOptions(bank=context.name, k=DEPTH)
        if (session := context.asking(pair)) is not None:
            options["session_id"] = session
        began = time.perf_counter()
        answer = await self.memory.recall(pair.asked, **options)
        took_ms = (time.perf_counter() - began) * 1000
        return TimedAnswer(_find_place(pair, answer), answer.freshness.embedded, took_ms)


def _find_place(pair: ParaphrasePair, answer: RecallAnswer) -> int:
    """Return the rank of a statement among the results, from 1; the assistant's reply does not count."""
    found = (place for place, one in enumerate(answer.results, start=1) if _is_statement(pair, one))
    return next(found, NOT_FOUND)


def _is_statement(pair: ParaphrasePair, found: Recalled) -> bool:
    return found.turn_id == pair.name and found.role != "assistant"


def _compute_share_in_first(answers: Iterable[TimedAnswer]) -> float:
    return fmean(answer.place <= FIRST for answer in answers)


def _compute_measures(twice: Sequence[PairResult]) -> Sequence[Measure]:
    at_once, then = (
        _compute_share_in_first(one.asked.at_once for one in twice),
        _compute_share_in_first(one.settled for one in twice),
    )
    missed = sum(one.asked.at_once.place == NOT_FOUND for one in twice)
    return [
        Measure("first_five_at_once", "share", at_once, MeasureTarget(">=", 0.99), then),
        Measure("missed_at_once", "questions", missed, MeasureTarget("<=", 0)),
    ]


def _compute_parts(twice: Sequence[PairResult], contexts: Sequence[PairContext]) -> Iterator[tuple[str, float]]:
    yield "missed_settled", sum(one.settled.place == NOT_FOUND for one in twice)
    yield "only_settled_in_the_first_five", sum(one.settled.place <= FIRST < one.asked.at_once.place for one in twice)
    yield "asked_before_it_had_a_vector", fmean(one.asked.at_once.embedded < one.asked.position for one in twice)
    yield "recall_p50_at_once_ms", median(one.asked.at_once.took_ms for one in twice)
    yield "recall_p50_settled_ms", median(one.settled.took_ms for one in twice)
    for context in contexts:
        own = [one for one in twice if one.asked.context == context]
        yield f"first_five_at_once, {context.name}", _compute_share_in_first(one.asked.at_once for one in own)
        yield f"first_five_settled, {context.name}", _compute_share_in_first(one.settled for one in own)


def _list_misses(twice: Iterable[PairResult]) -> Iterator[str]:
    """Yield a line for each statement that was not among the first five at once."""
    for asked, then in ((one.asked, one.settled) for one in twice if one.asked.at_once.place > FIRST):
        yield f"{asked.pair.asked} {asked.context.name}: place {asked.at_once.place}, settled {then.place}"
