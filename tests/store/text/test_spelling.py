"""Names that are spelt wrong, and names that are other people's."""

from hypothesis import given
from hypothesis import strategies as st

from store.text.spelling import count_wrong_letters, find_meant
from tests.growth import outgrowing
from tests.tables import each_row

SPEAKERS = ("Katherine", "Maria", "John Smith", "Sarah", "Melanie")


@each_row(
    "name,meant",
    [
        ("kahterine", "Katherine"),
        ("catherine", "Katherine"),
        ("kathrine", "Katherine"),
        ("kathrin", None),
        ("melany", "Melanie"),
        ("melnie", "Melanie"),
        ("jon", "John Smith"),
        ("sara", "Sarah"),
        ("smtih", "John Smith"),
        # Others have these names, or they are something else.
        ("mario", None),
        ("karina", None),
        ("marina", None),
        ("paris", None),
        ("kubernetes", None),
        ("maria", None),
        ("jo", None),
        ("k4therine", None),
    ],
)
def test_a_misspelt_name_is_meant_for_the_one_speaker_it_is_near(name: str, meant: str | None) -> None:
    assert find_meant(name, SPEAKERS) == meant


def test_a_name_that_is_near_two_speakers_is_meant_for_neither() -> None:
    assert find_meant("xarlinn", ["Xarlina", "Xarline"]) is None
    assert find_meant("xarlinn", ["Xarlina"]) == "Xarlina"


@each_row(
    "one,other,wrong",
    [("abc", "abc", 0), ("abc", "acb", 1), ("abc", "abcd", 1), ("abc", "axc", 1), ("abc", "cab", 2), ("", "abc", 3)],
)
def test_wrong_letters_are_counted(one: str, other: str, wrong: int) -> None:
    assert count_wrong_letters(one, other) == wrong


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_as_many_letters_are_wrong_from_either_side(one: str, other: str) -> None:
    assert count_wrong_letters(one, other) == count_wrong_letters(other, one)


def test_the_time_grows_with_the_text() -> None:
    assert outgrowing(lambda text: find_meant(text, SPEAKERS)) == []
    assert outgrowing(lambda text: find_meant("kahterine", [text])) == []
