"""The one form of tables that commands print: no frame, no cell that breaks its row, nothing cut off."""

from collections.abc import Sequence
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from deploy.notices import clean_line

#: A value of a cell: a text of one line, a text in a style, or several lines.
Cell = str | Text | Sequence[str]


class ResultTable(Table):
    """A table of results. What a cell shows of others' texts obeys no terminal, and stays in its row.

    Where the terminal is too narrow, cells go on in further lines; words that are too long are divided, never cut.
    `numbers`: the columns whose values stand at the right.
    """

    def __init__(self, *columns: str, numbers: Sequence[str] = (), **options: Any) -> None:
        super().__init__(box=None, pad_edge=False, header_style="bold", **options)
        for name in columns:
            self.columns.append(
                Column(
                    header=clean_line(name),
                    overflow="fold",
                    justify="right" if name in numbers else "left",
                    _index=len(self.columns),
                )
            )

    def add_values(self, *cells: Cell) -> None:
        """Add a row."""
        self.add_row(*map(_show_cell, cells))


def format_number(value: float) -> str:
    """Return a number with as many decimals as tell something: three at most, none that are zero."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def _show_cell(cell: Cell) -> Text:
    if isinstance(cell, Text):
        return Text(clean_line(cell.plain), style=cell.style)
    return Text("\n".join(map(clean_line, (cell,) if isinstance(cell, str) else cell)))
