"""What facts of one subject say together."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from store.derived.insights import LIST_CHARACTERS, LISTED, Statement, choose_members, derive_list
from store.text.rules.fact_rules import LIST_PHRASES
from tests.tables import each_row


def stated(begins: str, *values: str) -> list[Statement]:
    at = datetime.now(UTC)
    return [Statement(one.lower(), one, f"{begins} {one}.", one.lower(), uuid4(), uuid4(), at) for one in values]


def listed(fact_id: str, in_time: Sequence[Statement]) -> str | None:
    return derive_list(fact_id, choose_members(fact_id, list(reversed(in_time))))


@pytest.mark.parametrize(
    "fact_id,begins,values,said",
    [
        ("user_visited", "Ann visited", ("Porto", "Ghent", "Granada"), "Ann visited: Porto; Ghent; Granada."),
        ("user_plays", "Ann plays", ("jazz", "jazz clubs"), "Ann plays: jazz; jazz clubs."),
        ("user_sister", "Ann's sister is called", ("Ida", "Maud"), "Ann's sister is called: Ida; Maud."),
    ],
)
def test_facts_of_one_kind_are_a_list_that_says_once_how_they_begin(
    fact_id: str, begins: str, values: Sequence[str], said: str
) -> None:
    assert listed(fact_id, stated(begins, *values)) == said


def test_only_kinds_whose_key_is_their_value_are_lists() -> None:
    assert {"user_visited", "user_bought", "user_goes", "user_sister", "user_dog"} <= LIST_PHRASES.keys()
    others = {"user_like", "user_allergy", "user_favourite", "user_home", "today_task", "user_{relation}"}
    assert not others & LIST_PHRASES.keys()


@each_row("other", ["Ann's city is", "Bo visited", "Ann's hotel in Lyon: never visited", "Porto and"])
def test_a_fact_that_is_said_in_other_words_is_no_member(other: str) -> None:
    visits = [*stated("Ann visited", "Porto"), *stated(other, "Lyon"), *stated("Ann visited", "Ghent")]
    assert listed("user_visited", visits) == "Ann visited: Porto; Ghent."
    assert listed("user_visited", [*visits[:2], *stated("Ann's city is", "Oslo")]) is None


def test_a_fact_whose_text_was_corrected_is_no_member() -> None:
    [one] = stated("Ann visited", "Lyon")
    corrected = replace(one, content="Ann never saw Lyon.")
    visits = [*stated("Ann visited", "Porto", "Ghent"), corrected]
    assert listed("user_visited", visits) == "Ann visited: Porto; Ghent."


def test_a_name_in_another_case_is_the_same_one() -> None:
    assert (
        listed("user_read", [*stated("ANN read", "Emma"), *stated("Ann read", "Ulysses")]) == "Ann read: Emma; Ulysses."
    )


def test_a_fact_that_is_said_again_is_one_member_where_it_was_said_last() -> None:
    assert listed("user_visited", stated("Ann visited", "Porto", "Ghent", "porto")) == "Ann visited: Ghent; porto."


def test_what_takes_many_words_to_say_is_no_member() -> None:
    long = "the house that stands behind the mill"
    assert listed("user_visited", stated("Ann visited", "Porto", long, "Ghent")) == "Ann visited: Porto; Ghent."


def test_a_list_has_the_newest_of_very_many_facts() -> None:
    said = listed("user_visited", stated("Ann visited", *(f"P{n}" for n in range(100))))
    assert said == f"Ann visited: {'; '.join(f'P{n}' for n in range(100 - LISTED, 100))}."


@each_row("more", range(64))
def test_a_list_is_never_longer_than_a_vector_can_hold_and_keeps_the_newest(more: int) -> None:
    values = ["x" * more, *(f"{n}".rjust(120, "x") for n in range(LISTED))]
    said = listed("user_visited", stated("Ann visited", *values))
    assert said is not None
    assert LIST_CHARACTERS - 122 < len(said) <= LIST_CHARACTERS
    assert said.endswith(f"{values[-2]}; {values[-1]}.")
    assert listed("user_visited", stated(f"{'A' * LIST_CHARACTERS} visited", "Porto", "Ghent")) is None


def test_one_fact_is_no_list() -> None:
    assert listed("user_visited", []) is listed("user_visited", stated("Ann visited", "Porto")) is None
