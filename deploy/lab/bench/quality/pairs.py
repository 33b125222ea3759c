"""The data of the paraphrase benchmark: pairs of a statement and a question in other words, and their contexts."""

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from afterturn_client import Message, NewTurn

from deploy.lab.bench.talk import make_sentence
from deploy.lab.demo.data import load_demo

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
