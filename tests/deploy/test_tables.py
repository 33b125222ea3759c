"""Tables of commands: one style; no cell obeys the terminal, breaks its row or is cut off."""

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from deploy.cli.output import print_fields, print_rows
from deploy.tables import ResultTable, format_number
from tests.tables import each_row

EVIL = "a\x1b[2J\x1b]0;title\x07b\r\nroot\u202etxt.exe\x00\x9b31m"


def render(table: ResultTable, width: int = 100) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width, markup=False, highlight=False, emoji=False).print(table)
    return file.getvalue().splitlines()


def test_a_cell_obeys_no_terminal_and_stays_in_its_row() -> None:
    table = ResultTable("name", "n", numbers=["n"])
    table.add_values(EVIL, "1")
    table.add_values(Text(EVIL, style="red"), "22")
    table.add_values(["one", "two"], "3")
    lines = render(table)
    assert len(lines) == 5
    assert all(line.isprintable() for line in lines)
    assert [line.rstrip()[-2:] for line in lines[:4]] == [" n", " 1", "22", " 3"]
    assert lines[4].strip() == "two"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), min_size=1, max_size=5))
def test_any_text_is_one_row_and_nothing_is_cut(names: list[str]) -> None:
    table = ResultTable("name", "end")
    for name in names:
        table.add_values(name, "|")
    lines = render(table, 400)
    assert len(lines) == len(names) + 1
    assert all(line.rstrip().endswith("|") for line in lines[1:])


def test_what_is_too_wide_goes_on_in_the_next_line() -> None:
    table = ResultTable("id", "label", "reason")
    ids = ["0b7c1f5e-52a7-5a3e-8d51-3f6a1c9b7e20", "x" * 90]
    for one in ids:
        table.add_values(one, "a label of some words", "the reason, which is told in a sentence of some length")
    lines = render(table)
    assert max(map(len, lines)) <= 100
    shown = re.sub(r"\s", "", "".join(lines))
    assert shown.count("x") >= 90
    assert "…" not in shown


@each_row(
    "value, shown",
    [
        (49.040000915527344, "49.04"),
        (0.1 + 0.2, "0.3"),
        (7.0, "7"),
        (1e15, "1000000000000000"),
        (-0.5, "-0.5"),
        (0.0, "0"),
    ],
)
def test_numbers_have_the_decimals_that_tell_something(value: float, shown: str) -> None:
    assert format_number(value) == shown


def test_lists_and_fields_are_printed_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": EVIL, "took_ms": 49.040000915527344, "limits": {"a": 1.5, "b": EVIL}, "banks": [EVIL, "b"]}
    print_rows({"rows": [row]}, "rows", as_json=False)
    print_fields(row, as_json=False)
    told = capsys.readouterr().out
    assert "49.04 " in told
    assert "49.0400" not in told
    assert all(line.isprintable() for line in told.splitlines())


def test_every_table_of_results_is_of_this_form() -> None:
    root = Path(__file__).parents[2] / "deploy"
    files = [*(root / "cli").glob("*.py"), *(root / "lab" / "bench").rglob("*.py")]
    assert [str(file) for file in files if re.search(r"(?<!\w)Table\(|\.add_row\(", file.read_text())] == []
