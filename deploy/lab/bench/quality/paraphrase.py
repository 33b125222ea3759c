"""`afterturn bench paraphrase`: measures whether a new statement is found by other words as well as a settled one.

Its data are pairs of a statement and a question in other words, each among contexts.
"""

import random
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import fmean, median

from afterturn_client import AsyncAfterturn, Message, NewTurn, RecallAnswer, Recalled, TurnReceipt
from afterturn_client.calls import RecallOptions

from deploy.lab.bench.bench_database import open_bench_database
from deploy.lab.bench.measures import BenchOutcome, Measure, MeasureTarget
from deploy.lab.bench.quality.settling import StageNotSettled, wait_until_settled
from deploy.lab.bench.servers import BenchStack, find_stack_servers, open_bench_stack
from deploy.lab.bench.talk import make_sentence
from deploy.lab.demo.data import load_demo
from deploy.notices import Say

FILE = Path(__file__).with_name("paraphrases.toml")
#: Turns of generated talk that a bank holds before the first statement.
PRIOR_TURNS = 400


@dataclass(frozen=True, slots=True)
class ParaphrasePair:
    """A statement, its topic, and a question that it answers; `name` is the name of the statement's turn."""

    name: str
    about: str
    said: str = field(repr=False)
    asked: str = field(repr=False)


class PriorContent(StrEnum):
    """The content of a bank before the first statement."""

    NOTHING = "nothing"
    DEMO = "the demo's conversation"
    TALK = "made-up talk"


class AskingSession(StrEnum):
    """The session of the question: that of the statement, another one, or none."""

    SAME = "same"
    OTHER = "other"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class PairContext:
    """A context in which statements are made and asked for.

    `running`: all statements are in one session, else each in its own. `speaker` is the speaker's name, if known;
    `replied`: the turn includes the assistant's answer; `after` is the number of turns between statement and question.
    """

    name: str
    before: PriorContent = PriorContent.NOTHING
    running: bool = False
    asked_from: AskingSession = AskingSession.SAME
    speaker: str | None = None
    replied: bool = False
    after: int = 0

    def session(self, pair: ParaphrasePair) -> str:
        """Return the name of the statement's session."""
        return "running" if self.running else pair.name

    def asking(self, pair: ParaphrasePair) -> str | None:
        """Return the name of the question's session, None without one."""
        return {AskingSession.SAME: self.session(pair), AskingSession.OTHER: "another", AskingSession.NONE: None}[
            self.asked_from
        ]

    def turns(self, pair: ParaphrasePair, bank: str) -> Sequence[NewTurn]:
        """Return the turn of the statement, and the turns after it."""
        messages = [Message("user", pair.said, name=self.speaker)]
        if self.replied:
            messages.append(Message("assistant", "Thank you for telling me, I will keep that in mind."))
        told = NewTurn(self.session(pair), messages, turn_id=pair.name, bank=bank, gateway=False)
        chance = random.Random(pair.name)  # noqa: S311 - a seed, not a secret
        return [told, *(_make_turn(self.session(pair), bank, make_sentence(chance)) for _ in range(self.after))]


CONTEXTS = (
    PairContext("nothing before"),
    PairContext("nothing before, one session", running=True),
    PairContext("nothing before, asked from elsewhere", asked_from=AskingSession.OTHER),
    PairContext("demo before", PriorContent.DEMO),
    PairContext("demo before, one session", PriorContent.DEMO, running=True),
    PairContext("demo before, asked from elsewhere", PriorContent.DEMO, asked_from=AskingSession.OTHER),
    PairContext("demo before, asked from no session", PriorContent.DEMO, running=True, asked_from=AskingSession.NONE),
    PairContext("demo before, answered", PriorContent.DEMO, replied=True),
    PairContext("demo before, said by name", PriorContent.DEMO, running=True, speaker="Marta"),
    PairContext("talk before and after", PriorContent.TALK, after=2),
)


def read_pairs() -> Sequence[ParaphrasePair]:
    """Return all pairs, in the order of the file."""
    fields = tomllib.loads(FILE.read_text(encoding="utf-8"))
    told = [(about, said, asked) for about, ones in fields.items() for said, asked in ones.items()]
    return [ParaphrasePair(f"pair-{nth}", *one) for nth, one in enumerate(told)]


def make_prior_turns(context: PairContext, bank: str) -> Sequence[NewTurn]:
    """Return the turns that a bank holds before the first statement."""
    if context.before is PriorContent.DEMO:
        return [
            NewTurn(
                turn.session_id,
                [Message(m.role, m.content, name=m.name, timestamp=m.timestamp) for m in turn.messages],
                turn_id=turn.turn_id,
                bank=bank,
                occurred_at=turn.occurred_at,
                gateway=False,
            )
            for turn in load_demo().turns
        ]
    chance = random.Random(bank)  # noqa: S311 - a seed, not a secret
    count = PRIOR_TURNS if context.before is PriorContent.TALK else 0
    return [_make_turn(f"talk-{nth // 20}", bank, make_sentence(chance)) for nth in range(count)]


def _make_turn(session: str, bank: str, said: str) -> NewTurn:
    return NewTurn(session, [Message("user", said)], bank=bank, gateway=False)


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
            machine = await here.read_machine()
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
