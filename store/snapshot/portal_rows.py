"""Keeps rows of light-portal's tables in a file and reads them in the order of their keys, in steady memory."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

_TABLES = """
    pragma journal_mode = off;
    pragma synchronous = off;
    create table told (source text, key text, version integer, told text);
    create table taken (source text, key text, told text, primary key (source, key)) without rowid;"""
_INDEX = "create index if not exists told_by_key on told (source, key, version)"
_READ = "select key, told from told where source = ? order by key, version, rowid"


class PortalRows:
    """Rows by table and key, each with its events; and which of them were taken."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file

    def add(self, source: str, key: str, version: int, told: Mapping[str, Any]) -> None:
        """Store an event of a row."""
        self._file.execute("insert into told values (?, ?, ?, ?)", (source, key, version, json.dumps(told)))

    def iterate(self, source: str) -> Iterator[list[dict[str, Any]]]:
        """Yield what was told of each row of a table, by version; rows in the order of their keys."""
        self._file.execute(_INDEX)
        for _, found in groupby(self._file.execute(_READ, (source,)), key=itemgetter(0)):
            yield [json.loads(told) for _, told in found]

    def take(self, source: str, key: Sequence[object], told: Any = None) -> None:
        """Note that a row was taken, and more of it."""
        self._file.execute("insert or replace into taken values (?, ?, ?)", (source, _join_key(key), json.dumps(told)))

    def find_taken(self, source: str, key: Sequence[object]) -> tuple[Any] | None:
        """Return the note of a taken row; None: it was not taken."""
        asked = source, _join_key(key)
        found = self._file.execute("select told from taken where source = ? and key = ?", asked).fetchone()
        return None if found is None else (json.loads(found[0]),)


@contextmanager
def open_rows(folder: Path) -> Iterator[PortalRows]:
    """Yield rows in a new file of this folder, which the caller removes."""
    file = sqlite3.connect(folder / "rows")
    try:
        file.executescript(_TABLES)
        yield PortalRows(file)
    finally:
        file.close()


def _join_key(key: Sequence[object]) -> str:
    return "|".join(str(one) for one in key)
