"""CONTRIBUTING.md and the tour lead a reader through the code: each file is there, each name is defined in it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = "\n".join((ROOT / name).read_text() for name in ("CONTRIBUTING.md", "docs/tour.md"))
#: A file, and a name in it: a cell of the two tables.
STEP = re.compile(r"`([\w/]+\.(?:py|sql))` `(\w+)`")
#: A file that is named in prose; a table's own short forms (`errors.py`) name a kind of file.
FILE = re.compile(r"`((?:deploy|workers|producers|store|embeddings|tests)/[\w/]+\.\w+)`")


def test_every_step_of_the_tour_is_defined_where_it_says() -> None:
    steps = STEP.findall(PAGE)
    assert len(steps) > 20
    missing = [
        (file, name)
        for file, name in steps
        if not re.search(rf"(?:class|def|function) (?:afterturn\.)?{name}\b", (ROOT / file).read_text())
    ]
    assert missing == []


def test_every_file_that_is_named_is_there() -> None:
    assert [file for file in FILE.findall(PAGE) if not (ROOT / file).exists()] == []
