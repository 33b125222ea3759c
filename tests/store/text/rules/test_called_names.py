"""What people are called: names in address and in introductions, and ordinary words that are none."""

from datetime import UTC, datetime

import pytest

from store.text.message_terms import analyse_message
from store.text.rules.called_names import find_addressed, find_asked_names, find_own_names, mark_names
from store.text.terms import analyse_text, lexical_text
from store.text.word_rules import AUTO, rules_of
from tests.growth import outgrowing
from tests.tables import each_row

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


@each_row(
    "text,names",
    [
        ("Hey Kate!", ["kate"]),
        ("hey Kate how are you", ["kate"]),
        ("Thanks so much, Kate. See you", ["kate"]),
        ("I met Bob. Wow, Mel! That's great", ["mel"]),
        ("Good morning, Zoë!", ["zoe"]),
        ("Привет, Катя!", ["катя"]),
        ("Hi Xqvarlo, hello Kate!", ["xqvarlo"]),
        ("Hi Kate! Thanks, Kate. Bye, Anna!", ["kate", "anna"]),
        # A name may begin with the letters of a word that stands between: "to", "so", "a".
        ("Thanks Tom! Hi Sofia! Hey Anna how are you", ["tom", "sofia", "anna"]),
        ("Thanks Very Kate", ["kate"]),
        # Ordinary words, whatever their capital.
        ("Hey Guys!", []),
        ("Hi Everyone, welcome!", []),
        ("Thank God!", []),
        ("Hello World", []),
        ("Hey hey, kate!", []),
        # Nobody is spoken to.
        ("Hey Kate's here", []),
        ("Yes, Kate is here", []),
        ("Last, Friday.", []),
        ("I told Kate hello.", []),
        # A full name is no nickname.
        ("Hey Kate Smith", []),
    ],
)
def test_names_in_address_are_found_and_ordinary_words_are_not(text: str, names: list[str]) -> None:
    assert find_addressed(text) == names


@each_row(
    "text,names",
    [
        ("My name is Kate Miller", ["kate"]),
        ("Hi, I'm Kate, nice to meet you", ["kate"]),
        ("I am Kate from Leeds", ["kate"]),
        ("Everyone calls me Kit.", ["kit"]),
        ("call me Will", ["will"]),
        ("Ich heiße Jürgen.", ["jurgen"]),
        ("I'm Happy", []),
        ("I'm Canadian.", []),
        ("I'm Will.", []),
        ("I'm Hungry, and so are you", []),
        ("Don't call me Kate", []),
        ('She said "my name is Kate"', []),
        ("Call me Tomorrow", []),
        ("call me tomorrow", []),
    ],
)
def test_names_that_speakers_give_themselves_are_found(text: str, names: list[str]) -> None:
    assert find_own_names(text) == names


@each_row(
    "text,names",
    [
        ("What does Kate like?", ["kate"]),
        ("what does kate like", ["kate"]),
        ("What is Zoë's dog called?", ["zoe"]),
        ("What does Kahterine like?", ["kahterine"]),
        ("what will grace do", []),
        ("Where did Will go?", ["will"]),
        ("Which city did she visit in the summer?", []),
    ],
)
def test_the_words_of_a_question_that_may_be_names_are_looked_up(text: str, names: list[str]) -> None:
    assert find_asked_names(text) == names


def test_a_messages_terms_hold_its_words_and_beside_them_the_marks_of_its_names() -> None:
    text, rules = "Hey Kate! Call me Bob.", rules_of(AUTO)
    terms, plain = analyse_message("Robert", NOON, text, rules), analyse_text(lexical_text("Robert", NOON, text), rules)
    assert terms.counts == {**plain.counts, "to:kate": 1, "me:bob": 1}
    assert terms.length == plain.length
    assert analyse_message("Robert", NOON, "I like tulips", rules).counts.keys() == {
        *analyse_text(lexical_text("Robert", NOON, "I like tulips"), rules).counts
    }


def test_no_text_has_a_mark_among_its_words() -> None:
    assert not {"to:kate", "me:kate"} & analyse_text("to:kate me:kate to: kate").counts.keys()


@pytest.mark.parametrize("read", [mark_names, find_asked_names])
def test_the_time_grows_with_the_text(read: object) -> None:
    pieces = ("Hey ", "hey", "Kate", ", ", "! ", "thanks so much ", "again ", "my name is ", "I'm ", "Wow, ", "A", "\n")
    assert callable(read)
    assert outgrowing(read, pieces) == []
