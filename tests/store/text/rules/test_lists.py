import pytest

from store.text.rules import gazetteer
from store.text.rules.canonical import fold_text
from store.text.rules.vocabulary import everyday_words, is_given_name, is_word
from tests.tables import each_row

LISTS = ["dictionary", "family_names", "given_names", "organisations", "places", "products"]


@each_row("name", LISTS)
def test_a_list_of_names_is_sorted_and_holds_none_twice(name: str) -> None:
    lines = gazetteer.read_list_file(name).splitlines()
    assert lines == sorted(lines, key=lambda line: (fold_text(line), line))
    assert len(set(map(fold_text, lines))) == len(lines)


@each_row("word", ["walk", "walked", "berries", "tidiness", "gardening", "loudly", "may"])
def test_a_word_is_known_in_its_forms(word: str) -> None:
    assert is_word(word)


@pytest.mark.parametrize("name", ["kwame", "svetlana", "maria"])
def test_a_name_is_no_word(name: str) -> None:
    assert is_given_name(name)
    assert not is_word(name)
    assert name not in everyday_words()
