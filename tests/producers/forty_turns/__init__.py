"""A chat of 40 turns, and questions about it: what a prompt pays for an answer is measured on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

BEGUN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
#: Messages between two days of the chat, and minutes between two turns.
TURNS_A_DAY, MINUTES = 5, 7


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A turn of the chat: what the user said, and the assistant's answer."""

    number: int
    said_at: datetime
    user: str
    assistant: str


def read_chat() -> list[ChatTurn]:
    """Return the turns of the chat, in order: five a day, on eight days."""
    return [
        ChatTurn(number, BEGUN + timedelta(days=number // TURNS_A_DAY, minutes=MINUTES * number), user, assistant)
        for number, (user, assistant) in enumerate(_read_pairs("chat.txt"))
    ]


def read_questions() -> list[tuple[str, str]]:
    """Return questions about the chat, each with words that are in the message that answers it."""
    return list(_read_pairs("questions.txt"))


def _read_pairs(name: str) -> Iterator[tuple[str, str]]:
    for pair in Path(__file__).with_name(name).read_text(encoding="utf-8").strip().split("\n\n"):
        first, _, second = pair.partition("\n")
        yield first, second
