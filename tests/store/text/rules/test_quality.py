import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from store.text.rules import VERSION, Extraction, MentionKind, MessageText, TurnText, extract_turn
from tests.figures import FIGURE

HERE = Path(__file__).parent
SETS = {"first": ("labelled.jsonl", "labelled_more.jsonl"), "blind": ("blind.jsonl",)}
AT_LEAST = {"first": 300, "blind": 100}
HELD = {"first": (0.85, 0.75), "blind": (0.85, 0.75)}
#: What this version of the rules finds in all the sets, as a digest.
FOUND = {"rules-18": "b8da964d76c6f80574206d399c54fdee096669ffb6568162b6f528ef99161e24"}
Label = tuple[int, int, str]


@dataclass(frozen=True)
class Example:
    content: str
    labels: frozenset[Label]
    days: dict[tuple[int, int], str | None]
    found: Extraction


@dataclass(frozen=True)
class Labelled:
    name: str
    rows: list[dict[str, Any]]
    files: dict[str, list[Example]]

    @property
    def examples(self) -> list[Example]:
        return [example for examples in self.files.values() for example in examples]


@dataclass(frozen=True)
class Score:
    """Right means: the very same characters and the same kind."""

    right: int
    found: int
    labelled: int

    @property
    def precision(self) -> float:
        return self.right / self.found

    @property
    def recall(self) -> float:
        return self.right / self.labelled

    def __str__(self) -> str:
        return f"precision {self.precision:.3f}, recall {self.recall:.3f} on {self.labelled} mentions"


def _score(examples: list[Example]) -> Score:
    found = [set(_found(example)) for example in examples]
    right = sum(len(mine & example.labels) for mine, example in zip(found, examples, strict=True))
    return Score(right, sum(map(len, found)), sum(len(example.labels) for example in examples))


def _example(row: dict[str, Any]) -> Example:
    said = datetime.fromisoformat(row["occurred_at"])
    return Example(
        row["content"],
        frozenset((m["start"], m["end"], m["kind"]) for m in row["mentions"]),
        {(m["start"], m["end"]): m.get("day") for m in row["mentions"] if m["kind"] == "date"},
        extract_turn(TurnText((MessageText(row["role"], row["content"]),), said)),
    )


def _rows(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / file).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module", params=SETS)
def labelled(request: pytest.FixtureRequest) -> Labelled:
    read = {file: _rows(file) for file in SETS[request.param]}
    files = {file: [_example(row) for row in rows] for file, rows in read.items()}
    return Labelled(request.param, [row for rows in read.values() for row in rows], files)


def _found(example: Example) -> Iterator[Label]:
    for mention in example.found.mentions:
        assert mention.span is not None
        yield mention.span.start, mention.span.end, mention.kind.value


def test_the_labels_are_where_they_say(labelled: Labelled) -> None:
    for row in labelled.rows:
        for label in row["mentions"]:
            assert row["content"][label["start"] : label["end"]] == label["surface"]
            assert label["kind"] in set(MentionKind)
    assert sum(len(example.labels) for example in labelled.examples) >= AT_LEAST[labelled.name]


def test_mentions_are_found_with_precision_and_recall(
    labelled: Labelled, record_property: Callable[[str, object], None]
) -> None:
    record_property(FIGURE, f"extraction, {labelled.name} set: {_score(labelled.examples)}")
    precision, recall = HELD[labelled.name]
    for file, examples in labelled.files.items():
        score = _score(examples)
        record_property(FIGURE, f"  {file}: {score}")
        assert score.precision >= precision
        assert score.recall >= recall


def test_every_day_that_is_told_is_the_right_one(labelled: Labelled) -> None:
    """A date found where none is labelled is an error of precision, counted above."""
    for example in labelled.examples:
        for mention in example.found.mentions:
            if mention.kind is MentionKind.DATE and mention.span is not None:
                day = mention.day.isoformat() if mention.day else None
                assert day == example.days.get((mention.span.start, mention.span.end), day), example.content


def test_rules_that_find_something_else_have_a_version_of_their_own() -> None:
    found = [asdict(_example(row).found) for files in SETS.values() for file in files for row in _rows(file)]
    digest = hashlib.sha256(json.dumps(found, default=str, sort_keys=True).encode()).hexdigest()
    assert {VERSION: digest} == FOUND, "give the rules a new version, then write its digest here"
