"""The figures of an order: what is found, how early, and in whose session."""

from collections.abc import Mapping

import pytest

from deploy.lab.bench.quality.figures import average_scores, find_share, score_answer

SESSIONS = {f"m{n}": "a" if n < 10 else "b" for n in range(40)}


def _named(found: list[str], evidence: set[str]) -> Mapping[str, float]:
    return score_answer("any", found, evidence, SESSIONS).figures


def test_recall_is_the_share_of_the_evidence_among_the_first() -> None:
    found = [f"m{n}" for n in range(20, 40)]
    figures = _named(found, {"m20", "m27", "m35", "m1"})
    assert [figures[f"recall@{k}"] for k in (5, 10, 20)] == [0.25, 0.5, 0.75]
    assert figures["mrr"] == 1


def test_what_comes_twice_takes_one_place() -> None:
    assert _named(["m1", "m1", "m2"], {"m2"})["mrr"] == 0.5


def test_a_session_is_hit_by_any_of_its_messages() -> None:
    figures = _named([*(f"m{n}" for n in range(20, 26)), "m3"], {"m1"})
    assert (figures["session_hit@5"], figures["session_hit@10"], figures["recall@20"]) == (0, 1, 0)


def test_nothing_found_is_nought() -> None:
    assert set(_named([], {"m1"}).values()) == {0}


def test_within_a_budget_every_place_counts_the_same() -> None:
    assert find_share([f"m{n}" for n in range(39)], {"m0", "m38", "m39"}) == pytest.approx(2 / 3)


def test_means_are_given_by_category_and_of_all() -> None:
    scored = [score_answer(name, found, {"m1"}, SESSIONS) for name, found in (("x", ["m1"]), ("x", []), ("y", ["m1"]))]
    rows = {row.category: (row.questions, row.means["recall@5"]) for row in average_scores(scored)}
    assert rows == {"x": (2, 0.5), "y": (1, 1.0), "all": (3, pytest.approx(2 / 3))}
