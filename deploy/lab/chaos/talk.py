"""Generates the turns of a chaos run: people, places and facts from a seed, no two turns alike."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from deploy.components.bootstrap import HOST
from store import identity

BANKS = ("chaos-1", "chaos-2", "chaos-3")
FIRST = datetime(2026, 1, 5, 8, tzinfo=UTC)
PEOPLE = (
    "Ana Lima",
    "Boris Novak",
    "Carla Rossi",
    "Daniel Weber",
    "Eva Horvat",
    "Frida Larsen",
    "Goran Kos",
    "Ines Costa",
)
PLACES = ("Porto", "Lisbon", "Vienna", "Zagreb", "Oslo", "Turin", "Prague", "Lyon")
THINGS = ("the garden", "a violin", "the budget", "their bicycles", "an old letter", "the bakery", "a train to the sea")
LIKINGS = ("jazz", "hiking", "chess", "old maps", "green tea", "pottery", "rowing")
#: One turn in this many states a fact.
FACT_EVERY = 3


@dataclass(frozen=True, slots=True)
class ChaosTurn:
    """A turn as an agent sends it."""

    number: int
    bank: str
    session: str
    name: str
    user: str
    at: datetime
    asked: str = field(repr=False)
    answered: str = field(repr=False)

    @property
    def session_id(self) -> UUID:
        """The id of the turn's session in the service."""
        return identity.session_id(identity.bank_id(identity.host_id(HOST), self.bank), self.session)

    @property
    def id(self) -> UUID:
        """The id of the turn in the service."""
        return identity.turn_id(self.session_id, self.name)


def make_conversations(turns: int, seed: int) -> list[list[ChaosTurn]]:
    """Return `turns` turns as sessions of about equal length."""
    count = min(turns, max(12, min(64, turns // 25)))
    chance = random.Random(f"talk/{seed}")  # noqa: S311 - a seed, not a secret
    sessions: list[list[ChaosTurn]] = [[] for _ in range(count)]
    for number in range(turns):
        sessions[number % count].append(_make_turn(number, number % count, chance))
    return sessions


def _make_turn(number: int, session: int, chance: random.Random) -> ChaosTurn:
    one, other = chance.sample(PEOPLE, 2)
    place, thing = chance.choice(PLACES), chance.choice(THINGS)
    fact = _make_fact(number, chance) if number % FACT_EVERY == 0 else ""
    return ChaosTurn(
        number,
        BANKS[session % len(BANKS)],
        f"session-{session}",
        f"turn-{number}",
        f"user-{session}",
        FIRST + timedelta(minutes=number),
        f"Note {number}: {one} met {other} in {place} about {thing}.{fact}",
        f"Note {number} is kept: {one} and {other}, {place}.",
    )


def _make_fact(number: int, chance: random.Random) -> str:
    if number % 2:
        return f" I like {chance.choice(LIKINGS)}."
    return f" I moved to {chance.choice(PLACES)}."


def index_by_words(sessions: Sequence[Sequence[ChaosTurn]]) -> dict[tuple[str, str], ChaosTurn]:
    """Return the turns by their pair of messages."""
    return {(turn.asked, turn.answered): turn for session in sessions for turn in session}
