"""Writes dialogues into a running stack over HTTP, waits until every stage is done, and asks the questions."""

import asyncio
import time
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import uuid4

from afterturn_client import AsyncAfterturn, Message, NewTurn, RecallAnswer, TurnReceipt

from deploy.lab.bench.quality.changes import ChangeScore, ChangeShares, ToldResult, count_changes, score_change
from deploy.lab.bench.quality.figures import (
    ALL_WITHIN,
    DEPTH,
    WITHIN,
    CategoryMeans,
    QuestionScore,
    average_scores,
    find_share,
    score_answer,
)
from deploy.lab.bench.quality.flags import (
    ELSEWHERE,
    SWAPPED,
    FlaggedAnswer,
    FlagShares,
    count_flags,
    list_elsewhere,
    name_group,
    swap_names,
)
from deploy.lab.bench.quality.material import Dialogue, DialogueMessage, DialogueQuestion
from deploy.lab.bench.quality.settling import StageNotSettled, wait_until_settled
from deploy.local.stack import Stack
from deploy.notices import Say
from store.recall.fusion import HEADS
from store.recall.names import NAMES
from store.recall.recaller import ARMS
from store.recall.reflections import REFLECTIONS
from store.recall.rules import PINNED, RULES
from store.recall.supersession import NEWER

Answer = TypeVar("Answer")

#: Limits of one request in turns and characters; the service accepts 2 MiB.
TURNS_TOGETHER, CHARACTERS_TOGETHER = 50, 400_000
#: Questions asked concurrently when they are not timed: as many as keep two cores busy.
AT_ONCE = 4
#: The parts that `--ablate` disables in turn: arms, and rules of the ranking. A dialogue's bank has no pins.
PARTS = [
    *(arm.name for arm in ARMS if arm.name != PINNED),
    *(HEADS, NAMES, REFLECTIONS, NEWER),
    *(name for name, _ in RULES),
]


@dataclass(frozen=True, slots=True)
class QualityReport:
    """The figures by category, those with each part disabled, the flags, and the milliseconds of a whole call.

    `tokens` is the budget of the figure WITHIN, 0 when it was not measured. `changes`: how answers treat what is
    outdated; none where the data does not say what is.
    """

    turns: int
    figures: Sequence[CategoryMeans]
    without: Mapping[str, Sequence[CategoryMeans]]
    flags: Sequence[FlagShares]
    changes: Sequence[ChangeShares]
    tokens: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class AskedQuestions:
    """The scores of the answers to all questions, their flags, and their times in milliseconds."""

    scored: Sequence[QuestionScore]
    flagged: Sequence[FlaggedAnswer]
    changed: Sequence[ChangeScore]
    times: Sequence[float]


async def measure_quality(
    stack: Stack, dialogues: Sequence[Dialogue], say: Say, *, ablate: bool, tokens: int = 0
) -> QualityReport:
    """Write each dialogue into its own bank, ask its questions, and return the figures.

    `tokens`: also ask for answers of this size. Raises StageNotSettled, AfterturnError.
    """
    async with AsyncAfterturn(stack.api, stack.api_key(), timeout_s=60.0, allow_http=True) as memory:
        run = QualityRun(memory, f"quality-{uuid4().hex[:8]}", dialogues)
        await run.write(say)
        asked = await run.ask(at_once=1)
        say(f"{len(asked.scored)} questions asked")
        scored = await run.ask_within(asked.scored, tokens) if tokens else asked.scored
        flags = count_flags([*asked.flagged, *await run.ask_unanswerable()])
        without = {}
        for part in PARTS if ablate else ():
            without[part] = average_scores((await run.ask(part)).scored)
            say(f"asked again without {part}")
    times = sorted(asked.times)
    return QualityReport(
        sum(len(dialogue.said) for dialogue in dialogues),
        average_scores(scored),
        without,
        flags,
        count_changes(asked.changed),
        tokens,
        p50_ms=times[len(times) // 2],
        p95_ms=times[int(len(times) * 0.95)],
    )


@dataclass(frozen=True, slots=True)
class QualityRun:
    """A run over dialogues, whose banks are named after it."""

    memory: AsyncAfterturn
    name: str
    dialogues: Sequence[Dialogue]

    def bank(self, dialogue: Dialogue) -> str:
        """Return the name of a dialogue's bank."""
        return f"{self.name}-{self.dialogues.index(dialogue)}"

    async def write(self, say: Say) -> None:
        """Write the dialogues, and wait after each until no stage has work left."""
        for dialogue in self.dialogues:
            bank, one_of_each = self.bank(dialogue), {one.session: one.id for one in dialogue.said}
            last = 0
            for some in split_batches(dialogue.said):
                for receipt in await self.memory.add_turns(_make_turns(some, bank)):
                    if not isinstance(receipt, TurnReceipt):
                        raise StageNotSettled(f"bank {bank}: a turn was refused")
                    last = receipt.position
            await wait_until_settled(self.memory, bank, last, one_of_each.items())
            say(f"{len(dialogue.said)} turns written into bank {bank}")

    async def ask(self, without: str | None = None, *, at_once: int = AT_ONCE) -> AskedQuestions:
        """Ask every question, `at_once` of them concurrently; only times of sequential questions are meaningful.

        A result with several turns counts as all of them, at consecutive ranks.
        """
        left_out = [without] if without else []

        async def ask_one(bank: str, question: DialogueQuestion) -> tuple[RecallAnswer, float]:
            began = time.perf_counter()
            answer = await self.memory.recall(question.text, bank=bank, k=DEPTH, without=left_out)
            return answer, (time.perf_counter() - began) * 1000

        asked = [(dialogue, one) for dialogue in self.dialogues for one in dialogue.asked]
        answers = await ask_each((ask_one(self.bank(dialogue), one) for dialogue, one in asked), at_once)
        sessions = {dialogue.name: {one.id: one.session for one in dialogue.said} for dialogue in self.dialogues}
        stale = {dialogue.name: dialogue.list_stale() for dialogue in self.dialogues}
        scored, flagged, changed, times = [], [], [], []
        for (dialogue, one), (answer, took) in zip(asked, answers, strict=True):
            scored.append(score_answer(one.category, _list_turns(answer), one.evidence, sessions[dialogue.name]))
            flagged.append(FlaggedAnswer(name_group(one), answer.evidence))
            told = [ToldResult(result.turn_ids, result.former) for result in answer.results]
            changed.append(score_change(one, stale[dialogue.name], told))
            times.append(took)
        return AskedQuestions(scored, flagged, changed, times)

    async def ask_within(self, scored: Sequence[QuestionScore], tokens: int) -> list[QuestionScore]:
        """Ask every question with a budget of `tokens`; return the scores with the share of the evidence found.

        Such an answer has at most 100 passages; one passage of a message is enough to count as found.
        """
        asked = [(self.bank(dialogue), one) for dialogue in self.dialogues for one in dialogue.asked]
        answers = await ask_each(self.memory.recall(one.text, bank=bank, max_tokens=tokens) for bank, one in asked)
        found = []
        for one, (_, question), answer in zip(scored, asked, answers, strict=True):
            share = find_share(_list_turns(answer), question.evidence)
            found.append(replace(one, figures={**one.figures, WITHIN: share, ALL_WITHIN: float(share == 1)}))
        return found

    async def ask_unanswerable(self) -> list[FlaggedAnswer]:
        """Ask each bank questions without an answer, with swapped names or of another dialogue; return the flags."""
        asked = [
            (group, self.bank(dialogue), text)
            for nth, dialogue in enumerate(self.dialogues)
            for group, texts in {SWAPPED: swap_names(dialogue), ELSEWHERE: list_elsewhere(self.dialogues, nth)}.items()
            for text in texts
        ]
        answers = await ask_each(self.memory.recall(text, bank=bank, k=1) for _, bank, text in asked)
        return [FlaggedAnswer(group, one.evidence) for (group, _, _), one in zip(asked, answers, strict=True)]


async def ask_each(questions: Iterable[Awaitable[Answer]], at_once: int = AT_ONCE) -> list[Answer]:
    """Return the answers in the order of the questions; at most `at_once` run concurrently."""
    places = asyncio.Semaphore(at_once)

    async def ask(question: Awaitable[Answer]) -> Answer:
        async with places:
            return await question

    return list(await asyncio.gather(*map(ask, questions)))


def _list_turns(answer: RecallAnswer) -> list[str]:
    return [turn for one in answer.results for turn in one.turn_ids]


def split_batches(said: Sequence[DialogueMessage]) -> Iterator[Sequence[DialogueMessage]]:
    """Yield the messages in order, in batches that fit into a request."""
    part: list[DialogueMessage] = []
    room = CHARACTERS_TOGETHER
    for one in said:
        if part and (len(part) == TURNS_TOGETHER or len(one.text) > room):
            yield part
            part, room = [], CHARACTERS_TOGETHER
        part.append(one)
        room -= len(one.text)
    if part:
        yield part


def _make_turns(said: Sequence[DialogueMessage], bank: str) -> list[NewTurn]:
    return [
        NewTurn(
            one.session,
            [Message(one.role, one.text, name=one.name, timestamp=one.at)],
            turn_id=one.id,
            bank=bank,
            occurred_at=one.at,
            gateway=False,
        )
        for one in said
    ]
