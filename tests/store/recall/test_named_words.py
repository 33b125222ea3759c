"""Which words of a bank's last questions named speakers."""

from uuid import UUID

from store.recall.meaning import BANKS, WORDS, NamedWords

HOME, OFFICE = UUID(int=1), UUID(int=2)


def test_a_word_is_known_by_the_last_question_that_held_it() -> None:
    words = NamedWords()
    assert words.find(HOME, ["marta"]) is None
    words.learn(HOME, ["where", "is", "marta"], ["marta"])
    assert words.find(HOME, ["who", "is", "marta"]) == ["marta"]
    assert words.find(OFFICE, ["marta"]) is None
    words.learn(HOME, ["marta"], [])
    assert words.find(HOME, ["marta"]) == []


def test_banks_and_words_are_bounded() -> None:
    words = NamedWords()
    for nth in range(BANKS + 1):
        words.learn(UUID(int=nth), [], [])
    assert words.find(UUID(int=0), []) is None
    assert words.find(UUID(int=1), []) == []
    for nth in range(WORDS + 1):
        words.learn(HOME, [], [f"name{nth}"])
    assert words.find(HOME, [f"name{nth}" for nth in range(WORDS + 1)]) == [f"name{WORDS}"]
