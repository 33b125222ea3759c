"""Scoring by words: bounded, at home in its session, and blind to how the postings came."""

from collections.abc import Sequence
from uuid import UUID, uuid4, uuid5

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from store.recall.lexical import (
    ALONE,
    ANSWER,
    CONTEXT,
    POSTING,
    LexicalScores,
    Place,
    Postings,
    Statistics,
    choose_terms,
    rank_units,
    score_postings,
)
from store.recall.question import parse_question
from store.text.terms import analyse_text

SPACE = UUID(int=7)
WORDS = ("lemon", "banana", "plum", "dragon", "emerald")
ONE = np.zeros(1, dtype=np.bool_)

sessions = st.lists(st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=6), min_size=1, max_size=4)


def _session(number: int) -> UUID:
    return uuid5(SPACE, str(number))


def _postings(texts: Sequence[Sequence[Sequence[str]]]) -> dict[str, Postings]:
    found: dict[str, list[tuple[bytes, int, int, int]]] = {}
    for number, messages in enumerate(texts):
        for seq, words in enumerate(messages):
            terms = analyse_text(" ".join(words))
            for term, count in terms.counts.items():
                found.setdefault(term, []).append((_session(number).bytes, seq, count, terms.length))
    return {term: np.array(rows, dtype=POSTING) for term, rows in found.items()}


def _scored(texts: Sequence[Sequence[Sequence[str]]], question: str) -> LexicalScores:
    asked = parse_question(question)
    postings = _postings(texts)
    units = sum(len(messages) for messages in texts)
    statistics = Statistics(max(1, units), 3.0, {term: len(rows) for term, rows in postings.items()})
    read = {term: postings[term] for term in choose_terms(asked.words, statistics, 10_000)}
    return score_postings(read, asked, statistics)


def _plain(texts: Sequence[Sequence[Sequence[str]]]) -> NDArray[np.bool_]:
    return np.zeros(sum(map(len, texts)), dtype=np.bool_)


def _places(texts: Sequence[Sequence[Sequence[str]]]) -> list[Place]:
    return [(_session(n), seq) for n, messages in enumerate(texts) for seq in range(len(messages))]


@given(sessions, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
def test_scores_lie_between_nothing_and_one(texts: list[list[list[str]]], question: list[str]) -> None:
    values = _scored(texts, " ".join(question)).of(_places(texts), _plain(texts))
    assert ((values >= 0) & (values <= 1)).all()


@given(sessions, st.sampled_from(WORDS))
def test_only_what_holds_a_word_or_stands_beside_it_scores(texts: list[list[list[str]]], word: str) -> None:
    values = _scored(texts, word).of(_places(texts), _plain(texts))
    for value, (session, seq) in zip(values, _places(texts), strict=True):
        messages = texts[[_session(n) for n in range(len(texts))].index(session)]
        near = any(word in messages[at] for at in (seq - 1, seq, seq + 1) if 0 <= at < len(messages))
        assert (value > 0) == near


@given(sessions, st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
@example([[["lemon", *["banana"] * 9], ["lemon", "lemon"]]], ["lemon"])
def test_the_order_of_postings_changes_nothing(texts: list[list[list[str]]], question: list[str]) -> None:
    asked = " ".join(question)
    forth = _scored(texts, asked).of(_places(texts), _plain(texts))
    postings = {term: rows[::-1].copy() for term, rows in _postings(texts).items()}
    terms = parse_question(asked)
    statistics = Statistics(max(1, len(_places(texts))), 3.0, {term: len(rows) for term, rows in postings.items()})
    read = {term: postings[term] for term in choose_terms(terms.words, statistics, 10_000)}
    assert score_postings(read, terms, statistics).of(_places(texts), _plain(texts)) == pytest.approx(forth)


def test_a_neighbours_word_is_worth_a_share_and_does_not_pay_twice() -> None:
    texts = [[["lemon"], ["banana"], ["lemon"], [], ["plum"]]]
    first, between, third, after, far = _scored(texts, "lemon").of(_places(texts), _plain(texts))
    assert first == third
    assert between == after == pytest.approx(first * CONTEXT)
    assert far == 0


def test_a_first_message_is_lifted_by_the_second() -> None:
    texts = [[["lemon", *["banana"] * 30], ["lemon", "lemon"]]]
    first, second = _scored(texts, "lemon").of(_places(texts), _plain(texts))
    assert first == pytest.approx(second * CONTEXT)


def test_an_answer_takes_more_from_the_question_before_it_than_from_what_follows() -> None:
    texts = [[["lemon"], ["banana"], ["lemon"], ["plum"]]]
    answering = np.array([False, True, False, False])
    _, answer, question, after = _scored(texts, "lemon").of(_places(texts), answering)
    assert answer == pytest.approx(question * (CONTEXT + ANSWER))
    assert after == pytest.approx(question * CONTEXT)


@given(sessions, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
def test_the_best_are_found_whoever_answers_whom(texts: list[list[list[str]]], question: list[str]) -> None:
    scores = _scored(texts, " ".join(question))
    found = set(scores.best(100))
    values = scores.of(_places(texts), np.ones(len(_places(texts)), dtype=np.bool_))
    assert {place for place, value in zip(_places(texts), values, strict=True) if value > 0} <= found


def test_the_first_message_of_a_session_has_no_neighbour_in_the_one_before() -> None:
    texts = [[["banana"], ["lemon"]], [["plum"]]]
    assert _scored(texts, "lemon").of([(_session(1), 0)], ONE) == [0]


def test_a_unit_that_is_no_message_stands_alone() -> None:
    fact = uuid5(SPACE, "fact")
    postings = {"lemon": np.array([(fact.bytes, -1, 1, 3)], dtype=POSTING)}
    question = parse_question("lemon")
    scores = score_postings(postings, question, Statistics(10, 3.0, {"lemon": 1}))
    assert scores.best(5) == [(fact, -1)]
    assert (scores.of([(fact, -1), (fact, 0), (_session(0), -1)], np.zeros(3, dtype=np.bool_)) > 0).tolist() == [
        True,
        False,
        False,
    ]


def test_the_rarer_word_is_worth_more() -> None:
    texts = [[["lemon", "x"], ["y"], ["z"], ["lemon"], ["w"], ["v"], ["banana", "x"]]]
    values = _scored(texts, "lemon banana").of(_places(texts), _plain(texts))
    assert values[6] > values[0]


def test_best_comes_first() -> None:
    texts = [[["lemon", "banana"]], [["lemon", "x", "y"]], [["dragon"]]]
    scores = _scored(texts, "lemon banana")
    assert scores.best(10) == [(_session(0), 0), (_session(0), 1), (_session(1), 0), (_session(1), 1)]
    assert scores.best(1) == [(_session(0), 0)]
    assert scores.best(0) == []


def test_nothing_asked_scores_nothing() -> None:
    scores = score_postings({}, parse_question("?"), Statistics(3, 3.0, {}))
    assert scores.best(5) == []
    assert scores.of([(_session(0), 0)], ONE) == [0]


def test_very_common_terms_are_left_out_when_the_budget_is_small() -> None:
    statistics = Statistics(1000, 5.0, {"lemon": 900, "banana": 30, "plum": 20})
    asked = ["lemon", "banana", "plum"]
    assert choose_terms(asked, statistics, 100) == ["plum", "banana"]
    assert choose_terms(asked, statistics, 1000) == ["plum", "banana", "lemon"]


def test_words_that_the_bank_lacks_are_words_not_found() -> None:
    texts = [[["lemon"], [], [], ["banana"], [], []]]
    alone, beside = (_scored(texts, asked).of(_places(texts), _plain(texts)) for asked in ("lemon", "lemon tamarillo"))
    assert 0 < beside[0] < alone[0] / 2


def test_a_word_that_was_too_common_to_be_read_does_not_lower_the_others() -> None:
    postings = {"lemon": np.array([(_session(0).bytes, 0, 1, 3)], dtype=POSTING)}
    statistics = Statistics(1000, 3.0, {"lemon": 1, "banana": 900})
    alone, both = (
        score_postings(postings, parse_question(asked), statistics).of([(_session(0), 0)], ONE)
        for asked in ("lemon", "lemon banana")
    )
    assert both == pytest.approx(alone)


def test_the_rarest_term_is_always_read() -> None:
    assert choose_terms(["lemon"], Statistics(1000, 5.0, {"lemon": 900}), 1) == ["lemon"]


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_no_word_counts_against_a_text(units: int, frequency: int) -> None:
    assert Statistics(units, 5.0, {"lemon": frequency}).idf("lemon") > 0


def test_longer_texts_are_held_back_but_a_rare_word_in_a_very_long_one_is_still_found() -> None:
    texts = [[["lemon", *["banana"] * more]] for more in (2, 8, 11, 60, 600)]
    usual, long, longest, log, book = _scored(texts, "lemon").of(_places(texts), _plain(texts))
    assert usual > long > longest == log == book > 0


def test_units_that_stand_alone_are_ranked_as_places_are() -> None:
    question, units = parse_question("lemon lemon tea"), [uuid4() for _ in range(30)]
    held = {"lemon": range(0, 30, 2), "tea": range(0, 30, 3)}
    rows = {term: [(units[n].bytes, 1 + n % 4, 4 + n) for n in nth] for term, nth in held.items()}
    one, other, of_one = uuid4(), uuid4(), {unit.bytes for unit in units[:9]}
    alone = {
        term: {
            bank: np.array([row for row in some if (row[0] in of_one) is here], dtype=ALONE)
            for bank, here in ((one, True), (other, False))
        }
        for term, some in rows.items()
    }
    places = {term: np.array([(u, -1, tf, n) for u, tf, n in some], dtype=POSTING) for term, some in rows.items()}
    found = sorted({n for nth in held.values() for n in nth})
    statistics = Statistics(100, sum(4 + n for n in found) / len(found), {term: len(nth) for term, nth in held.items()})
    scores = score_postings(places, question, statistics).of(
        [(unit, -1) for unit in units], np.zeros(30, dtype=np.bool_)
    )
    ours = rank_units(alone, question, 100, 30)
    assert dict(zip(ours.units, ours.scores, strict=True)) == pytest.approx(
        {unit.hex: score for unit, score in zip(units, scores, strict=True) if score}
    )
    assert list(ours.scores) == sorted(ours.scores, reverse=True)
    assert not ours.are_cut
    assert list(ours.banks) == [one if UUID(unit).bytes in of_one else other for unit in ours.units]
    few = rank_units(alone, question, 100, 5)
    assert (few.units, few.are_cut) == (ours.units[:5], True)


def test_a_term_that_was_not_read_says_that_there_are_more_and_takes_nothing_from_the_others() -> None:
    question, unit = parse_question("lemon tea"), uuid4()
    lemon = {"lemon": {uuid4(): np.array([(unit.bytes, 1, 4)], dtype=ALONE)}}
    common = rank_units(lemon, question, 100, 30, unread={"tea": 90})
    absent = rank_units(lemon, question, 100, 30)
    assert (common.units, common.are_cut, absent.are_cut) == ([unit.hex], True, False)
    assert common.scores[0] > absent.scores[0]
