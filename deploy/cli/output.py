"""Results of commands, on standard output, and their exits; notices are deploy.notices."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
import typer
from afterturn_client.contract.shape import Shape
from rich.console import Console

from deploy.notices import print_notice
from deploy.tables import Cell, ResultTable, format_number

#: Width without a terminal, in columns.
PIPE_WIDTH = 400
#: A time of the API, in UTC, and how many of its characters a table shows.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|\+00:00)")
_TO_THE_SECOND = 19


def print_json(value: Mapping[str, Any]) -> None:
    """Print one line of JSON in ASCII, so that no character in it can end the line."""
    told = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(", ", ": "), default=_encode_value)
    print(told, flush=True)


def as_api_json(shape: Shape) -> dict[str, Any]:
    """Return a shape of the contract as the API writes it."""
    found: dict[str, Any] = orjson.loads(orjson.dumps(shape, default=str))
    return found


def print_rows(answer: Mapping[str, Any], name: str, *, as_json: bool) -> None:
    """Print a list: its rows as a table, or the answer as JSON."""
    if as_json:
        print_json(answer)
        return
    rows: Sequence[Mapping[str, Any]] = answer[name]
    if rows:
        table = ResultTable(*rows[0])
        for row in rows:
            table.add_values(*map(_format_value, row.values()))
        create_console().print(table)


def print_fields(answer: Mapping[str, Any], *, as_json: bool) -> None:
    """Print an object, one field a line, or as JSON."""
    if as_json:
        print_json(answer)
        return
    table = ResultTable("", "", show_header=False)
    for name, value in answer.items():
        table.add_values(name, _format_value(value))
    create_console().print(table)


def exit_with(line: str, status: int) -> typer.Exit:
    """Print a message and return the exit to raise."""
    print_notice(line)
    return typer.Exit(status)


def create_console() -> Console:
    """Return the console of human-readable results; texts are not read as markup.

    Output to a pipe has unlimited width, so that nothing is cut off.
    """
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def _encode_value(value: Any) -> str:
    """Return an id or a time as the API's JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _format_value(value: Any) -> Cell:
    """Return a value as a cell: a list has a line for each of its values."""
    return list(map(_format_one, value)) if isinstance(value, list) else _format_one(value)


def _format_one(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_format_one, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_one(one)}" for name, one in value.items() if one not in (None, [], {}))
    if isinstance(value, float):
        return format_number(value)
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return value[:_TO_THE_SECOND].replace("T", " ")
    return "" if value is None else str(value)
