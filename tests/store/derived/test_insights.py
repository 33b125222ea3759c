"""What facts of one subject say together."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from store.derived.insights import Statement, derive_list


def stated(begins: str, *values: str) -> Sequence[Statement]:
    at = datetime.now(UTC)
    return [Statement(uuid4(), uuid4(), "key", one, one.lower(), f"{begins} {one}.", at) for one in values]


@pytest.mark.parametrize(
    "begins,values,said",
    [
        ("Ann visited", ("Porto", "Ghent", "Granada"), "Ann visited: Porto; Ghent; Granada."),
        ("Ann likes", ("jazz", "jazz clubs"), "Ann likes: jazz; jazz clubs."),
        ("Ann's sister is called", ("Ida", "Maud"), "Ann's sister is called: Ida; Maud."),
    ],
)
def test_facts_of_one_kind_are_a_list_that_says_once_how_they_begin(
    begins: str, values: Sequence[str], said: str
) -> None:
    assert derive_list("user_fact", stated(begins, *values)) == said


def test_a_list_begins_as_its_last_fact() -> None:
    likes = [*stated("Ann loves", "hiking"), *stated("Ann likes", "jazz")]
    assert derive_list("user_like", likes) == "Ann likes: hiking; jazz."


def test_a_list_of_facts_that_do_not_say_their_value_begins_with_their_kind() -> None:
    [one, other] = stated("Ann was in", "Porto", "Ghent")
    told = Statement(other.unit_id, other.turn_id, other.key, other.value, other.folded, "A trip.", other.at)
    assert derive_list("user_trip", [one, told]) == "user_trip: Porto; Ghent."


def test_one_fact_is_no_list() -> None:
    assert derive_list("user_visited", []) is derive_list("user_visited", stated("Ann visited", "Porto")) is None
