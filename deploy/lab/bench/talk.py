"""Generates the turns of benchmarks: messages between a person and an agent, the same for the same seed."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from store.memory.turns import NewMessage, NewTurn

BANK = "bench"
_WORDS = """
    about after again agenda airport always answer apartment appointment asked autumn bakery because before bicycle
    birthday booked bought brother budget calendar called cancelled changed children clinic coffee colleague concert
    cooking cousin daughter deadline decided dentist different dinner doctor document evening exercise family
    february festival finally finished flight flowers forgot friend garden guitar happened history holiday hospital
    invited january journey kitchen language later learning letter library london looking lunch manager market
    meeting message moved museum neighbour nothing november office orders painting paris parents party phone photos
    planning project question reading remember report restaurant running saturday school sister something station
    story summer surgery teacher thought thursday ticket tomorrow train travel tuesday usually vacation violin
    visited waiting walking wedding weekend winter working wrote yesterday
"""
WORDS = _WORDS.split()
#: Least and largest number of words in a message, as in recorded conversations with an assistant.
LENGTHS = (8, 60)


class TurnGenerator:
    """An endless iterator of turns of one session, each with `messages` messages."""

    def __init__(self, session: str, messages: int = 2) -> None:
        self._session, self._messages = session, messages
        self._chance = random.Random(f"{session}/{messages}")  # noqa: S311 - a seed, not a secret
        self._said = 0

    def __iter__(self) -> Iterator[NewTurn]:
        return self

    def __next__(self) -> NewTurn:
        self._said += 1
        roles = ("user", "assistant")
        messages = [NewMessage(roles[n % 2], make_sentence(self._chance)) for n in range(self._messages)]
        return NewTurn(BANK, self._session, f"turn-{self._messages}-{self._said}", messages)

    def take(self, count: int) -> list[NewTurn]:
        """Return the next `count` turns."""
        return [next(self) for _ in range(count)]


def build_completed_turn(bank: str, session: str, turn: str, said: Sequence[str]) -> dict[str, Any]:
    """Return the body of after_turn for a turn in which the user and then the agent said this."""
    items = [
        {"type": "message", "role": role, "content": [{"type": f"{side}_text", "text": text}]}
        for (role, side), text in zip((("user", "input"), ("assistant", "output")), said, strict=True)
    ]
    named = {"bank": bank, "session_id": session, "turn_id": turn}
    return {**named, "input_items": items[:1], "output_items": items[1:]}


def make_sentence(chance: random.Random) -> str:
    """Return a sentence of random words, with a name and a number among them."""
    words = chance.choices(WORDS, k=chance.randint(*LENGTHS))
    words[len(words) // 2] = chance.choice(("Ana", "Boris", "Carla", "Daniel", "Eva"))
    return " ".join([*words, str(chance.randint(1, 999))]) + "."
