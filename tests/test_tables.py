"""A table as one test tries each of its rows, and tells each that failed by its name."""

import inspect

import pytest

from tests.tables import each_row


def told(group: BaseExceptionGroup[BaseException]) -> list[str]:
    return [note for error in group.exceptions for note in error.__notes__]


def test_each_row_is_tried_and_each_that_fails_is_named() -> None:
    tried: list[int] = []

    @each_row("number, kept", [(1, True), pytest.param(2, False, id="two"), (3, False), (4, True)])
    def test(number: int, kept: object, base: int) -> None:
        tried.append(base + number)
        assert kept

    assert list(inspect.signature(test).parameters) == ["base"]
    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows failed") as failed:
        test(base=10)
    assert tried == [11, 12, 13, 14]
    assert told(failed.value) == ["row 1: two", "row 2: (3, False)"]


async def test_rows_of_a_coroutine_are_tried_too() -> None:
    @each_row("error", [ValueError, pytest.skip.Exception, pytest.fail.Exception], ids=lambda error: error.__name__)
    async def test(error: type[BaseException]) -> None:
        raise error("this row")

    with pytest.raises(BaseExceptionGroup, match="3 of 3") as failed:
        await test()
    assert told(failed.value) == ["row 0: ValueError", "row 1: Skipped", "row 2: Failed"]


def test_a_table_in_a_table_tries_every_pair() -> None:
    tried = set()

    @each_row("a", [1, 2])
    @each_row("b", [3, 4])
    def test(a: int, b: int) -> None:
        tried.add((a, b))

    test()
    assert tried == {(1, 3), (1, 4), (2, 3), (2, 4)}


def test_a_table_without_a_row_is_no_test() -> None:
    @each_row("a", [])
    def test(a: int) -> None:
        raise AssertionError(a)

    with pytest.raises(AssertionError, match="no row"):
        test()
