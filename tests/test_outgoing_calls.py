"""Every HTTP client of the service says whether the environment's proxy stands before it: none before this machine."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.parsed import parse_with

ROOT = Path(__file__).parents[1]
PACKAGES = ("deploy", "embeddings", "producers", "store", "workers")
#: Calls of httpx that open a connection, or make what does.
OPENING = frozenset({"Client", "AsyncClient", "get", "post", "put", "patch", "delete", "request", "stream"})
#: Shows how an agent of somebody else's may ask a model.
EXAMPLES = ROOT / "producers" / "client" / "examples"


def find_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of httpx that open something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            if isinstance(of, ast.Name) and of.id == "httpx" and node.func.attr in OPENING:
                yield node


def test_every_client_says_whether_a_proxy_of_the_environment_is_used() -> None:
    files = [file for one in PACKAGES for file in (ROOT / one).rglob("*.py") if EXAMPLES not in file.parents]
    calls = [(file, call) for file, tree in parse_with(files, "httpx.") for call in find_calls(tree)]
    assert len(calls) > 10
    silent = [f"{file.relative_to(ROOT)}:{call.lineno}" for file, call in calls if not names_environment(call)]
    assert silent == []


def names_environment(call: ast.Call) -> bool:
    return any(one.arg == "trust_env" for one in call.keywords)
