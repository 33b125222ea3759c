"""Plays dialogues into a running stack over HTTP, waits until every stage is through, and asks."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from afterturn_client import AsyncAfterturn, Message, NewTurn, TurnReceipt

from deploy.lab.bench.quality.figures import DEPTH, CategoryMeans, QuestionScore, average_scores, score_answer
from deploy.lab.bench.quality.material import Dialogue, DialogueMessage
from deploy.lab.bench.quality.settling import NotSettled, wait_until_settled
from deploy.local.stack import Stack

Say = Callable[[str], None]

#: So much is written in one request; the service takes 2 MiB.
TURNS_TOGETHER, CHARACTERS_TOGETHER = 50, 400_000
#: What is switched off in turn when that is asked for: arms, and rules of the ranking.
PARTS = (
    *("dense", "lexical", "time", "recent", "heads"),
    *("substance", "speaker", "session", "short question", "assistant", "length", "recency"),
)


@dataclass(frozen=True, slots=True)
class QualityReport:
    """The figures by category, the same with each part switched off; milliseconds of a whole call."""

    turns: int
    figures: Sequence[CategoryMeans]
    without: Mapping[str, Sequence[CategoryMeans]]
    p50_ms: float
    p95_ms: float


async def measure_quality(stack: Stack, dialogues: Sequence[Dialogue], say: Say, *, ablate: bool) -> QualityReport:
    """Write each dialogue into a bank of its own and ask its questions. Raises NotSettled, AfterturnError."""
    async with AsyncAfterturn(stack.api, stack.api_key(), timeout_s=60.0, allow_http=True) as memory:
        run = QualityRun(memory, f"quality-{uuid4().hex[:8]}", dialogues)
        await run.write(say)
        scored, times = await run.ask()
        say(f"{len(scored)} questions asked")
        without = {}
        for part in PARTS if ablate else ():
            without[part] = average_scores((await run.ask(part))[0])
            say(f"asked again without {part}")
    times.sort()
    turns = sum(len(dialogue.said) for dialogue in dialogues)
    return QualityReport(turns, average_scores(scored), without, times[len(times) // 2], times[int(len(times) * 0.95)])


@dataclass(frozen=True, slots=True)
class QualityRun:
    """One run: its banks are named after it."""

    memory: AsyncAfterturn
    name: str
    dialogues: Sequence[Dialogue]

    def bank(self, dialogue: Dialogue) -> str:
        """Name a dialogue's bank."""
        return f"{self.name}-{self.dialogues.index(dialogue)}"

    async def write(self, say: Say) -> None:
        """Write everything, dialogue by dialogue, and wait after each until no stage has work left."""
        for dialogue in self.dialogues:
            bank, one_of_each = self.bank(dialogue), {one.session: one.id for one in dialogue.said}
            last = 0
            for some in split_batches(dialogue.said):
                for receipt in await self.memory.add_turns(_make_turns(some, bank)):
                    if not isinstance(receipt, TurnReceipt):
                        raise NotSettled(f"bank {bank}: a turn was refused")
                    last = receipt.position
            await wait_until_settled(self.memory, bank, last, one_of_each.items())
            say(f"{len(dialogue.said)} turns written into bank {bank}")

    async def ask(self, without: str | None = None) -> tuple[list[QuestionScore], list[float]]:
        """Ask every question, one after the other; return how good the answers were and how long they took (ms).

        An item that stands for several turns has found them all, each in a place of its own.
        """
        scored, times = [], []
        left_out = [without] if without else []
        for dialogue in self.dialogues:
            sessions = {one.id: one.session for one in dialogue.said}
            for asked in dialogue.asked:
                began = time.perf_counter()
                answer = await self.memory.recall(asked.text, bank=self.bank(dialogue), k=DEPTH, without=left_out)
                times.append((time.perf_counter() - began) * 1000)
                found = [turn for one in answer.results for turn in one.turn_ids]
                scored.append(score_answer(asked.category, found, asked.evidence, sessions))
        return scored, times


def split_batches(said: Sequence[DialogueMessage]) -> Iterator[Sequence[DialogueMessage]]:
    """Yield all of it in its order, in parts that a request holds."""
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
