"""What is said, and what is asked for it in other words; and where both happen: the contexts."""

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from afterturn_client import Message, NewTurn

from deploy.lab.bench.talk import sentence
from deploy.lab.demo.data import load as load_demo

FILE = Path(__file__).with_name("paraphrases.toml")
#: Turns of made-up talk that a bank holds before.
TALKED = 400


@dataclass(frozen=True, slots=True)
class Pair:
    """A statement of a field of life, and the question it answers; `name` is the statement's turn."""

    name: str
    about: str
    said: str = field(repr=False)
    asked: str = field(repr=False)


class Before(StrEnum):
    """What a bank holds before the first statement."""

    NOTHING = "nothing"
    DEMO = "the demo's conversation"
    TALK = "made-up talk"


class AskedFrom(StrEnum):
    """Where it is asked: in the session where it was said, in another, or in none that is named."""

    SAME = "same"
    OTHER = "other"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Context:
    """Where a statement is said and asked for.

    `running`: all statements are said in one session, else each in its own. `speaker` is who says it, if he has a name;
    `replied`: the assistant's answer is part of the turn; `after` turns are said in that session before it is asked.
    """

    name: str
    before: Before = Before.NOTHING
    running: bool = False
    asked_from: AskedFrom = AskedFrom.SAME
    speaker: str | None = None
    replied: bool = False
    after: int = 0

    def session(self, pair: Pair) -> str:
        """Name the session a statement is said in."""
        return "running" if self.running else pair.name

    def asking(self, pair: Pair) -> str | None:
        """Name the session it is asked in."""
        return {AskedFrom.SAME: self.session(pair), AskedFrom.OTHER: "another", AskedFrom.NONE: None}[self.asked_from]

    def turns(self, pair: Pair, bank: str) -> Sequence[NewTurn]:
        """Return the turn of a statement, and those after it."""
        messages = [Message("user", pair.said, name=self.speaker)]
        if self.replied:
            messages.append(Message("assistant", "Thank you for telling me, I will keep that in mind."))
        told = NewTurn(self.session(pair), messages, turn_id=pair.name, bank=bank, gateway=False)
        chance = random.Random(pair.name)  # noqa: S311 - a seed, not a secret
        return [told, *(_talk(self.session(pair), bank, sentence(chance)) for _ in range(self.after))]


CONTEXTS = (
    Context("nothing before"),
    Context("nothing before, one session", running=True),
    Context("nothing before, asked from elsewhere", asked_from=AskedFrom.OTHER),
    Context("demo before", Before.DEMO),
    Context("demo before, one session", Before.DEMO, running=True),
    Context("demo before, asked from elsewhere", Before.DEMO, asked_from=AskedFrom.OTHER),
    Context("demo before, asked from no session", Before.DEMO, running=True, asked_from=AskedFrom.NONE),
    Context("demo before, answered", Before.DEMO, replied=True),
    Context("demo before, said by name", Before.DEMO, running=True, speaker="Marta"),
    Context("talk before and after", Before.TALK, after=2),
)


def pairs() -> Sequence[Pair]:
    """Return all pairs, in their order."""
    fields = tomllib.loads(FILE.read_text(encoding="utf-8"))
    told = [(about, said, asked) for about, ones in fields.items() for said, asked in ones.items()]
    return [Pair(f"pair-{nth}", *one) for nth, one in enumerate(told)]


def before(context: Context, bank: str) -> Sequence[NewTurn]:
    """Return what is said in a bank before."""
    if context.before is Before.DEMO:
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
    count = TALKED if context.before is Before.TALK else 0
    return [_talk(f"talk-{nth // 20}", bank, sentence(chance)) for nth in range(count)]


def _talk(session: str, bank: str, said: str) -> NewTurn:
    return NewTurn(session, [Message("user", said)], bank=bank, gateway=False)
