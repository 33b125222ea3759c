"""Every SQL function that the service calls is called by name in a test of its own."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import store
from tests.parsed import parse_with

ROOT = Path(store.__file__).parents[1]
PACKAGES = ("store", "producers", "workers", "deploy", "embeddings")
CREATED = re.compile(r"create or replace function afterturn\.(\w+)\s*\(")
#: A name is called with its schema or as the source of a query; one in other words is not.
CALLED = re.compile(r"(?:\bafterturn\.|\bfrom )(\w+)\(")


def strings(folder: Path) -> Iterator[str]:
    """Return the texts in the code of a folder; revisions only drop functions, and planted faults only quote them."""
    quoting = {*folder.glob("migrations/versions/*"), *folder.glob("laws/*")}
    for _, tree in parse_with(set(folder.rglob("*.py")) - quoting, "afterturn.", *created_functions()):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@cache
def created_functions() -> frozenset[str]:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "store" / "sql").glob("*.sql"))
    return frozenset(name for text in texts for name in CREATED.findall(text))


def called_in(*folders: str) -> set[str]:
    return {name for folder in folders for one in strings(ROOT / folder) for name in CALLED.findall(one)}


def test_every_function_that_the_service_calls_is_called_by_a_test() -> None:
    public = created_functions() & called_in(*PACKAGES)
    assert len(public) > 70  # the pattern still finds them
    assert sorted(public - called_in("tests")) == []
