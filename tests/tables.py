"""Tables of examples as one test each: every row is tried, and each that fails is named."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

Test = Callable[..., Any]
#: A row's name, and its values by argument.
Row = tuple[str, Mapping[str, Any]]
#: How much of a row that has no name is told.
TOLD = 300
#: What ends a row. One that is skipped would hide that it was not tried.
ENDS = (Exception, pytest.fail.Exception, pytest.skip.Exception)


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Iterable[object] | Callable[[Any], object] | None = None
) -> Callable[[Test], Test]:
    """Try a test with each row of a table, as one test; arguments are those of `pytest.mark.parametrize`.

    That makes a test of each row, which costs more than most rows do. Here the rows share the test's fixtures, so
    each must leave them as the next one needs them. Raises a group of what the failed rows raised, their rows as notes.
    """
    named = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = list(_name_rows(named, list(rows), ids if ids is None or callable(ids) else list(ids)))

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        tried = _try_awaited if inspect.iscoroutinefunction(test) else _try
        whole = functools.wraps(test)(tried(test, table))
        left = [one for name, one in signature.parameters.items() if name not in named]
        vars(whole)["__signature__"] = signature.replace(parameters=left)
        return whole

    return decorate


def _name_rows(named: Sequence[str], rows: Sequence[Any], ids: Any) -> Iterator[Row]:
    """Yield each row's name and its values by argument."""
    for number, row in enumerate(rows):
        own = getattr(row, "id", None) if hasattr(row, "marks") else None
        values = row.values if hasattr(row, "marks") else (row,) if len(named) == 1 else tuple(row)
        told = own or (ids(row) if callable(ids) else ids[number] if ids is not None else None)
        yield f"row {number}: {str(told or repr(values))[:TOLD]}", dict(zip(named, values, strict=True))


def _try(test: Test, table: Sequence[Row]) -> Test:
    def try_rows(**fixtures: Any) -> None:
        with _group_failures(len(table)) as failed:
            for name, row in table:
                with _take_failure(failed, name):
                    test(**row, **fixtures)

    return try_rows


def _try_awaited(test: Test, table: Sequence[Row]) -> Test:
    async def try_rows(**fixtures: Any) -> None:
        with _group_failures(len(table)) as failed:
            for name, row in table:
                with _take_failure(failed, name):
                    await test(**row, **fixtures)

    return try_rows


@contextmanager
def _take_failure(failed: list[BaseException], name: str) -> Iterator[None]:
    try:
        yield
    except ENDS as error:
        error.add_note(name)
        failed.append(error)


@contextmanager
def _group_failures(rows: int) -> Iterator[list[BaseException]]:
    assert rows, "the table has no row"
    failed: list[BaseException] = []
    yield failed
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {rows} rows failed", failed)
