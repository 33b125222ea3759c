"""The distribution as others meet it: what it needs, and that what its README says works."""

import ast
import json
import re
import sys
from pathlib import Path

import afterturn_client
from afterturn_client.settings import MemorySettings

from tests.tables import each_row

PACKAGE = Path(afterturn_client.__file__).parent
README = (PACKAGE.parent / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@each_row("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_needs_python_and_httpx_alone(path: Path) -> None:
    needed = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            needed |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            needed.add(str(node.module).partition(".")[0])
    extra = {"publisher.py": {"redis"}, "direct_pg.py": {"asyncpg"}}.get(path.name, set())
    assert needed <= {*sys.stdlib_module_names, "httpx", "afterturn_client"} | extra


def test_the_native_client_works_without_the_modules_that_need_posix() -> None:
    native = {
        "__init__.py",
        "client.py",
        "blocking_client.py",
        "calls.py",
        "target.py",
        "transport.py",
        "gateway.py",
        "settings.py",
    }
    for name in native:
        text = (PACKAGE / name).read_text()
        assert "curated" not in re.findall(r"^from afterturn_client\.(\w+)", text, re.MULTILINE)
        assert "fcntl" not in text


def test_the_configurations_of_the_readme_are_the_two_modes() -> None:
    curated, hybrid = (MemorySettings.parse(json.loads(block)) for block in blocks("json"))
    assert (curated.mode, curated.explicit, curated.active_gateway()) == ("curated", True, None)
    gateway = hybrid.active_gateway()
    assert (hybrid.mode, hybrid.explicit) == ("hybrid", True)
    assert gateway is not None
    assert gateway.user_key.reveal() == "uk_xxx"


def test_the_code_of_the_readme_is_python_and_imports_what_there_is() -> None:
    for block in blocks("python"):
        tree = compile(block, "README", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert isinstance(tree, ast.Module)
        imports: list[ast.stmt] = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), "README", "exec"), {})
