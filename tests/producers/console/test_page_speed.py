"""Every page is opened in a browser, asks for little, and counts nothing unasked.

With AFTERTURN_CONSOLE_UNITS=100000 on a quiet machine, each is there within a second beside so many units.
"""

import os

import pytest

from producers.console.pages import FOLDER
from tests.packages import program
from tests.producers.console.page_speed import ANSWER_KB, ConsoleSizes, run, servers

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
#: Modules of pages that have no address of their own, or show what a benchmark does not store.
BESIDE = {"sign_in", "document"}
UNITS = int(os.environ.get("AFTERTURN_CONSOLE_UNITS", "1200"))


async def test_every_page_is_opened_and_none_asks_for_much() -> None:
    program("chromium", "chromium")
    said: list[str] = []
    with servers() as on:
        # As many as it takes for some rows of work to be dead.
        outcome = await run(on, said.append, ConsoleSizes(units=UNITS, rows=10 * UNITS))
    found = {one.measure: one for one in outcome.measures}
    assert {name: str(one.target) for name, one in found.items()} == {
        "first_paint": "<= 1000.0",
        "all_there": "<= 1000.0",
        "largest_answer": "<= 200.0",
        "unasked_counts": "<= 0.0",
    }
    assert outcome.met or "AFTERTURN_CONSOLE_UNITS" not in os.environ
    assert 0 < found["largest_answer"].ours <= ANSWER_KB
    assert found["unasked_counts"].ours == 0
    assert found["first_paint"].ours <= found["all_there"].ours
    opened = {name.partition(":")[0] for name in outcome.parts}
    pages = {path.stem for path in (FOLDER / "pages").glob("*.js")} - BESIDE
    # A bank's page is opened once for each of its lists.
    assert pages - {"bank", "memory"} <= opened | {"banks"}
    assert {"banks", "sessions", "units", "facts", "entities"} <= opened
