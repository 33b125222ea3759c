"""An answer of an open size ends where it stops helping."""

from dataclasses import replace
from uuid import UUID

import numpy as np

from store.recall.answer_end import MOST_UNSURE, SURE, is_acknowledgement, limit_unsure, select_helpful
from store.recall.fusion import Ranking
from store.recall.lexical import Statistics
from store.recall.pool import Candidate
from store.recall.question import parse_question
from store.recall.short_questions import split_questions
from tests.store.conftest import NOON
from tests.store.recall.test_fusion import candidate, pool_of
from tests.tables import each_row

QUESTION = parse_question("Where does the spare key hang?")


def select(*said: tuple[str, float], pinned: int | None = None, most: int | None = None) -> list[int]:
    """Return the places of what an answer holds of these texts with their scores."""
    units = [
        Candidate(
            UUID(int=n), "experience", text, True, None, "s", "t", None, "user", None, NOON, (), pinned=n == pinned
        )
        for n, (text, _) in enumerate(said)
    ]
    ranked = [(unit, split_questions(unit.text), score) for unit, (_, score) in zip(units, said, strict=True)]
    return select_helpful(ranked, QUESTION, most=most)


def test_it_ends_at_the_drop_of_scores_and_at_the_floor() -> None:
    said = ("behind the fuse box", 1.0), ("in the shed", 0.31), ("on the boat", 0.29), ("x y z", 0.05)
    assert select(*said) == [0, 1]
    assert select(("a guess", 0.09)) == []
    assert select(*said, pinned=3) == [0, 1, 3]


def test_a_flat_answer_ends_behind_the_most_that_help_and_keeps_pins() -> None:
    flat = [(f"in drawer {n}", 0.5) for n in range(9)]
    assert select(*flat) == list(range(9))
    assert select(*flat, pinned=7, most=3) == [0, 1, 2, 7]


@each_row(
    "best, known, names, expected",
    [
        (SURE - 0.01, ("key",), (None, None), MOST_UNSURE),
        (SURE, ("key",), (None, None), None),
        (SURE - 0.01, ("key", "spare", "hang"), (None, None), None),
        (SURE - 0.01, ("key",), ("Ana", "Ben"), None),
    ],
)
def test_an_answer_is_short_where_an_agents_memory_lacks_what_is_asked_for(
    best: float, known: tuple[str, ...], names: tuple[str | None, str | None], expected: int | None
) -> None:
    pool = pool_of([replace(candidate(n, "text", "s"), name=name, role="user") for n, name in enumerate(names)])
    judged = np.array([0.1, best])
    # What session and recency add to a score is no evidence.
    ranking = Ranking([1, 0], judged + 1, judged, {}, {})
    statistics = Statistics(100, 8.0, dict.fromkeys(known, 5))
    assert limit_unsure(pool, ranking, QUESTION, statistics) == expected


def test_acknowledgements_and_echoes_are_never_in_it() -> None:
    said = ("Where does the spare key hang?", 1.5), ("Noted.", 1.2), ("It hangs behind the fuse box.", 1.0)
    assert select(*said) == [2]


@each_row(
    "text",
    [
        "Noted.",
        "Thanks, that's all for today.",
        "OK!",
        "Danke, alles klar.",
        "\u041f\u043e\u043d\u044f\u043b, \u0441\u043f\u0430\u0441\u0438\u0431\u043e",
    ],
)
def test_thanks_and_receipts_acknowledge(text: str) -> None:
    assert is_acknowledgement(text)


@each_row("text", ["Noted: 95 euros from July.", "Yes, on Friday.", "Great work by Jonas!", "Good old Rex"])
def test_what_tells_something_is_no_acknowledgement(text: str) -> None:
    assert not is_acknowledgement(text)
