"""Reads changes of mind: what held before and what holds now, and truths that hold beside each other.

Each conversation has two days, two weeks apart: on the first the user and, in some rows, two other people say what
holds; on the second what took its place, or what holds beside it. The agent acknowledges every statement.
"""

import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

from deploy.lab.bench.quality.agents import BEGIN, HEARD, STEP
from deploy.lab.bench.quality.material import Dialogue, DialogueMessage, DialogueQuestion

FILE = Path(__file__).with_name("changes.toml")
#: The category of questions about truths that hold beside each other.
PARALLEL = "parallel"
BETWEEN = timedelta(days=14)
#: A message: its id, its speaker's name, and its text.
Said = tuple[str, str | None, str]


@dataclass(frozen=True, slots=True)
class ToldResult:
    """A result of an answer: its turns, and whether it is marked as former."""

    turns: Sequence[str]
    former: bool


@dataclass(frozen=True, slots=True)
class ChangeScore:
    """How an answer treats a change of mind; the first two are None where nothing is outdated.

    `current_first`: the current statement is found, before the outdated one. `stale_former`: the outdated one is marked
    as former, or left out. `wrongly_former`: a result is marked that is not outdated by the labels.
    """

    category: str
    current_first: bool | None
    stale_former: bool | None
    wrongly_former: bool


@dataclass(frozen=True, slots=True)
class ChangeShares:
    """The shares of a category's answers; the first two of those questions of which an outdated statement is known."""

    category: str
    questions: int
    changes: int
    current_first: float
    stale_former: float
    wrongly_former: float


def read_changes(path: Path) -> Iterator[Dialogue]:
    """Yield the conversations of our file."""
    for talk in tomllib.loads(path.read_text(encoding="utf-8"))["talks"]:
        yield _make_talk(talk)


def _make_talk(talk: Any) -> Dialogue:
    changes: Sequence[Sequence[str]] = talk["changes"]
    parallel: Sequence[Sequence[str]] = talk["parallel"]
    told = [one for day in range(2) for one in _make_day(day, [*_list_said(day, changes, parallel)])]
    asked = [
        *(
            DialogueQuestion(one[1], one[0], frozenset({f"change-{nth}-1"}), frozenset({f"change-{nth}-0"}))
            for nth, one in enumerate(changes)
        ),
        *(
            DialogueQuestion(one[0], PARALLEL, frozenset({f"{PARALLEL}-{nth}-0", f"{PARALLEL}-{nth}-1"}))
            for nth, one in enumerate(parallel)
        ),
    ]
    return Dialogue(f"changes {talk['agent']}", told, asked)


def _list_said(day: int, changes: Sequence[Sequence[str]], parallel: Sequence[Sequence[str]]) -> Iterator[Said]:
    for nth, (_, _, *sides) in enumerate(changes):
        yield f"change-{nth}-{day}", None, sides[day]
    for nth, (_, first, second, *names) in enumerate(parallel):
        yield f"{PARALLEL}-{nth}-{day}", names[day] if names else None, (first, second)[day]


def _make_day(day: int, said: Sequence[Said]) -> Iterator[DialogueMessage]:
    session = f"day-{day}"
    for nth, (message, name, text) in enumerate(said):
        at = BEGIN + day * BETWEEN + 2 * nth * STEP
        yield DialogueMessage(message, session, "user", name, text, at)
        yield DialogueMessage(f"{message}-heard", session, "assistant", None, HEARD[nth % len(HEARD)], at + STEP)


def score_change(asked: DialogueQuestion, stale: frozenset[str], found: Sequence[ToldResult]) -> ChangeScore:
    """Return how an answer, best result first, treats a question; `stale` are all outdated messages of the dialogue."""
    wrongly = any(one.former and stale.isdisjoint(one.turns) for one in found)
    if not asked.stale:
        return ChangeScore(asked.category, None, None, wrongly)
    current = _find_first(found, asked.evidence)
    outdated = _find_first(found, asked.stale)
    first = current is not None and (outdated is None or current < outdated)
    marked = outdated is None or found[outdated].former
    return ChangeScore(asked.category, first, marked, wrongly)


def _find_first(found: Sequence[ToldResult], wanted: Collection[str]) -> int | None:
    return next((place for place, one in enumerate(found) if set(wanted) & set(one.turns)), None)


def count_changes(scored: Sequence[ChangeScore]) -> list[ChangeShares]:
    """Return the shares of each category, in alphabetical order, and of all; none where no message is outdated."""
    if all(one.current_first is None for one in scored):
        return []
    categories = sorted({one.category for one in scored})
    groups = {name: [one for one in scored if one.category == name] for name in categories}
    return [_count_group(name, group) for name, group in {**groups, "all": list(scored)}.items()]


def _count_group(category: str, scored: Sequence[ChangeScore]) -> ChangeShares:
    changed = [one for one in scored if one.current_first is not None]
    return ChangeShares(
        category,
        len(scored),
        len(changed),
        current_first=fmean([bool(one.current_first) for one in changed] or [0.0]),
        stale_former=fmean([bool(one.stale_former) for one in changed] or [0.0]),
        wrongly_former=fmean(one.wrongly_former for one in scored),
    )
