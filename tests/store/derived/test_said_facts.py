"""Facts of waiting turns: how many are read."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import product
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from store.derived import said_facts
from store.retention import FactRetention
from store.text.rules import MessageText, TurnText, extract_turn
from store.text.rules.extract import MAX_FACTS_OF_TURN

WORDS = ["rain", "paint", "hik", "cook", "sail", "danc", "knit", "surf"]
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
ENDS = said_facts._EndOfFacts(FactRetention(), UUID(int=0))


def message(turn: int, position: int, content: str) -> Any:
    at = NOON + timedelta(seconds=position)
    of = {
        "bank_id": UUID(int=0),
        "turn_id": UUID(int=turn),
        "role": "user",
        "name": None,
        "nth": position,
        "expires_at": None,
    }
    return SimpleNamespace(**of, content=content, position=position, event_date=at, update_ts=at)


def values(rows: list[Any]) -> list[str]:
    return [fact.value for _, fact in said_facts._find_facts(rows, NOON, ENDS)]


def test_the_first_facts_of_the_newest_turns_are_read_and_told_in_the_order_they_were_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [message(n // 2, n, f"I hate {WORDS[n]}s. I hate {WORDS[n]}ing.") for n in range(8)]
    everything = [f"{WORDS[n]}{part}" for n in range(8) for part in ("s", "ing")]
    assert values(rows) == everything
    monkeypatch.setattr(said_facts, "MAX_FACTS_OF_TURN", 3)
    assert values(rows) == [one for n, one in enumerate(everything) if n % 4 < 3]
    monkeypatch.setattr(said_facts, "FACTS", 7)
    assert values(rows[::-1]) == [one for n, one in enumerate(everything) if n % 4 < 3][-7:]


def test_turns_of_very_many_facts_are_read_up_to_the_limits() -> None:
    names = ["".join(one) for one in product(("ba", "do", "fa", "go"), repeat=3)]
    said = " ".join(f"{phrase} {one}." for one in names[:32] for phrase in ("I hate", "My favourite food is"))
    rows = [message(n // 16, n, said) for n in range(64 + 16)]
    found = said_facts._find_facts(rows, NOON, ENDS)
    of_turn = Counter(row.turn_id.int for row, _ in found)
    assert len(found) == said_facts.FACTS
    assert max(of_turn.values()) == MAX_FACTS_OF_TURN
    assert of_turn[0] == 0, "the oldest turn is left to the worker"


def test_of_a_turn_of_very_many_facts_those_are_read_that_the_worker_will_write() -> None:
    said = [" ".join(f"I hate {word}{n}{end}." for end in range(20)) for n in range(10) for word in WORDS]
    rows = [message(0, n, content) for n, content in enumerate(said)]
    written = extract_turn(TurnText(tuple(MessageText("user", content) for content in said))).facts
    assert len(written) == MAX_FACTS_OF_TURN
    assert [fact for _, fact in said_facts._find_facts(rows, NOON, ENDS)] == list(written)
