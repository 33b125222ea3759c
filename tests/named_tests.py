"""Tables of a contract's clauses name the tests that hold them: `FILE::NAME`, the file below `tests`."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent


def find_missing(named: Iterable[str]) -> list[str]:
    """Return those of the names that no test of their file has."""
    split = [(one, *one.split("::")) for one in named]
    return [one for one, file, name in split if name not in _read_names(file)]


@cache
def _read_names(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
