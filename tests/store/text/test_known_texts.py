"""What rules found in a text is kept by its digest, up to a number of texts."""

from functools import partial

from store.text.known_texts import KnownTexts, digest_text


def test_a_text_is_read_once() -> None:
    known, read = KnownTexts[int](8), list[str]()

    def measure(text: str) -> int:
        read.append(text)
        return len(text)

    def count(text: str) -> int:
        return known.find(digest_text(text), lambda: measure(text))

    assert [count(text) for text in ("a lake", "a pond!", "a lake")] == [6, 7, 6]
    assert read == ["a lake", "a pond!"]
    assert "lake" not in repr(vars(known))


def test_no_more_texts_are_kept_than_it_was_told() -> None:
    known = KnownTexts[int](2)
    for number in range(5):
        assert known.find(number, partial(int, number)) == number
    assert len(vars(known)["_known"]) <= 2


def test_what_cannot_be_read_is_not_kept() -> None:
    known = KnownTexts[int](2)

    def fail() -> int:
        raise KeyError("within")

    for _ in range(2):
        try:
            known.find(1, fail)
        except KeyError as error:
            assert error.args == ("within",)
    assert known.find(1, lambda: 7) == 7


def test_a_text_that_is_no_unicode_has_a_digest_of_its_own() -> None:
    assert len({digest_text(text) for text in ("a", "a\ud800", "a\ud801", "")}) == 4
