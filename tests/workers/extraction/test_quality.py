import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from workers.extraction import Extraction, MentionKind, MessageText, TurnText, extract

LABELLED = Path(__file__).parent / "labelled.jsonl"
Label = tuple[int, int, str]


@dataclass(frozen=True)
class Example:
    content: str
    labels: frozenset[Label]
    days: dict[tuple[int, int], str | None]
    found: Extraction


def _example(line: str) -> Example:
    row: dict[str, Any] = json.loads(line)
    said = datetime.fromisoformat(row["occurred_at"])
    return Example(
        row["content"],
        frozenset((m["start"], m["end"], m["kind"]) for m in row["mentions"]),
        {(m["start"], m["end"]): m.get("day") for m in row["mentions"] if m["kind"] == "date"},
        extract(TurnText((MessageText(row["role"], row["content"]),), said)),
    )


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return [_example(line) for line in LABELLED.read_text(encoding="utf-8").splitlines()]


def _found(example: Example) -> Iterator[Label]:
    for mention in example.found.mentions:
        assert mention.span is not None
        yield mention.span.start, mention.span.end, mention.kind.value


def test_the_labels_are_where_they_say(examples: list[Example]) -> None:
    for line in LABELLED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for label in row["mentions"]:
            assert row["content"][label["start"] : label["end"]] == label["surface"]
            assert label["kind"] in set(MentionKind)
    assert sum(len(example.labels) for example in examples) >= 120


def test_mentions_are_found_with_precision_and_recall(
    examples: list[Example], capsys: pytest.CaptureFixture[str]
) -> None:
    """Right means: the very same characters and the same kind."""
    right, found, labelled = Counter[str](), Counter[str](), Counter[str]()
    for example in examples:
        mine = set(_found(example))
        found.update(kind for *_, kind in mine)
        labelled.update(kind for *_, kind in example.labels)
        right.update(kind for *_, kind in mine & example.labels)
    precision, recall = right.total() / found.total(), right.total() / labelled.total()
    with capsys.disabled():
        print(f"\nextraction: precision {precision:.3f}, recall {recall:.3f} on {labelled.total()} mentions")
    assert precision >= 0.85
    assert recall >= 0.75


def test_every_day_that_is_told_is_the_right_one(examples: list[Example]) -> None:
    for example in examples:
        for mention in example.found.mentions:
            if mention.kind is MentionKind.DATE and mention.span is not None:
                day = mention.day.isoformat() if mention.day else None
                assert day == example.days[mention.span.start, mention.span.end], example.content
