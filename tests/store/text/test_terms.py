"""Index terms: one rule for what is stored and for what is asked."""

from collections import Counter
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from store.text.terms import MAX_TERM_BYTES, analyse_text, lexical_text
from tests.tables import each_row


@given(st.text())
def test_any_text_gives_terms_a_database_takes(text: str) -> None:
    terms = analyse_text(text)
    for term, count in terms.counts.items():
        assert 0 < len(term.encode()) <= MAX_TERM_BYTES
        assert "\x00" not in term
        assert count > 0
    assert terms.length <= sum(terms.counts.values())


@given(st.text())
def test_the_same_text_always_gives_the_same_terms(text: str) -> None:
    assert analyse_text(text) == analyse_text(text)


@given(st.text(alphabet=st.characters(categories=["L", "N", "Zs", "P"])))
def test_case_only_shows_where_the_words_of_an_identifier_end(text: str) -> None:
    assert Counter(analyse_text(text.casefold()).counts) <= Counter(analyse_text(text).counts)


@each_row(
    "text, whole, pieces",
    [
        ("PROJ-1187", "proj-1187", {"proj", "1187"}),
        ("ERR_CONN_42", "err_conn_42", {"err", "conn", "42"}),
        ("v1.10.2", "v1.10.2", {"v1", "10", "2"}),
        ("user_name", "user_name", {"user", "name"}),
        ("getHTTPReply", "gethttprepli", {"get", "http", "repli"}),
        ("版本3.12.1", "3.12.1", {"版本", "3", "12", "1"}),
    ],
)
def test_an_identifier_is_a_term_beside_its_pieces(text: str, whole: str, pieces: set[str]) -> None:
    assert set(analyse_text(f"({text}).").counts) == {whole, *pieces}
    assert analyse_text(text).length < sum(analyse_text(text).counts.values())


@each_row("text", ["a well-being", "It was great.I went", "Marta iPad", "semi-detached ...---...", "3 - 4"])
def test_joined_words_without_figures_are_no_identifier(text: str) -> None:
    assert not any("-" in term or "." in term for term in analyse_text(text).counts)


@each_row("unit", ["a-", "aB", "1.", "A", "a1", "-", "_"])
def test_a_long_identifier_takes_no_more_than_its_length(unit: str) -> None:
    assert len(analyse_text(unit * 50_000 + " 1").counts) <= 50_001


def test_words_are_stemmed_and_stop_words_left_out() -> None:
    assert analyse_text("The dogs were running").counts == {"dog": 1, "run": 1}


def test_a_possessive_is_the_same_word() -> None:
    assert analyse_text("Melanie's").counts == analyse_text("Melanie\u2019s").counts == analyse_text("melanie").counts


def test_accents_do_not_hide_a_word() -> None:
    assert analyse_text("José's café").counts == analyse_text("jose cafe").counts


def test_a_month_named_may_is_a_word() -> None:
    assert "may" in analyse_text("[8 May 2023] Ann: hello").counts


@each_row(
    "text, terms",
    [
        ("我喜欢猫", {"我喜", "喜欢", "欢猫"}),
        ("日", {"日"}),
        ("ガギグ", {"ガギ", "ギグ"}),
        ("한국어", {"한국", "국어"}),
    ],
)
def test_scripts_without_spaces_give_pairs_of_characters(text: str, terms: set[str]) -> None:
    assert set(analyse_text(text).counts) == terms


def test_words_beside_chinese_are_still_words() -> None:
    assert {"dog", "喜欢"} <= set(analyse_text("喜欢dogs").counts)


def test_an_indic_word_does_not_fall_apart_at_its_vowels() -> None:
    assert set(analyse_text("हिन्दी").counts) == {"हिन्द"}


def test_long_words_that_differ_at_the_end_stay_different() -> None:
    left, right = analyse_text("x" * 200 + "1"), analyse_text("x" * 200 + "2")
    assert set(left.counts).isdisjoint(right.counts)


@each_row("text", ["", " \n\t", "?!", "the of and", "\x00\ud800"])
def test_a_text_without_words_has_no_terms(text: str) -> None:
    terms = analyse_text(text)
    assert (terms.counts, terms.length) == ({}, 0)


def test_what_the_index_reads_names_the_day_and_the_speaker() -> None:
    at = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert lexical_text("Caroline", at, "Hi") == "[8 May 2023] Caroline: Hi"


def test_the_day_is_the_day_in_utc() -> None:
    at = datetime(2023, 5, 8, 23, 0, tzinfo=timezone(timedelta(hours=-5)))
    assert lexical_text("user", at, "Hi") == "[9 May 2023] user: Hi"


def test_a_message_without_a_date_or_a_name_is_its_text() -> None:
    assert lexical_text(None, None, "Hi") == "Hi"
