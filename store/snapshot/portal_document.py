"""Reads light-portal's document, an array of events or the rows of its tables, in steady memory: one row at a time."""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from store.errors import SnapshotRefused

#: Bytes that are read at once, and the most characters that are held of one row.
CHUNK, LONGEST_ROW = 65_536, 16_777_216
NO_DOCUMENT = "the file is no snapshot, and no JSON document either"
NO_TABLES = "this is no export of the platform: it has no `tables`, and is no array of events"
_BLANKS = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
#: What may follow a number that was cut off; nothing, too.
_GOES_ON = ("", *"0123456789.eE+-")


@dataclass(frozen=True, slots=True)
class PortalItem:
    """An event (`table` is None), a row of a table, or the beginning of a table (`told` is None)."""

    table: str | None
    told: Any = field(repr=False)


def iterate_document(file: BinaryIO) -> Iterator[PortalItem]:
    """Yield the items of a document, in its order. Raises SnapshotRefused for a document of another form."""
    reader = _Reader(file)
    try:
        yield from _iterate_items(reader)
        if reader.peek():
            raise SnapshotRefused(NO_DOCUMENT)
    except (RecursionError, ValueError):
        raise SnapshotRefused(NO_DOCUMENT) from None


def _iterate_items(reader: "_Reader") -> Iterator[PortalItem]:
    if reader.take("["):
        yield from (PortalItem(None, event) for event in reader.iterate_list())
        return
    has_tables = False
    for name in reader.iterate_names() if reader.take("{") else reader.skip():
        if name == "tables" and reader.take("{"):
            has_tables = True
            for table in reader.iterate_names():
                yield from _iterate_table(reader, table)
        else:
            reader.read_value()
    if not has_tables:
        raise SnapshotRefused(NO_TABLES)


def _iterate_table(reader: "_Reader", table: str) -> Iterator[PortalItem]:
    yield PortalItem(table, None)
    has_rows = False
    for name in reader.iterate_names() if reader.take("{") else reader.skip():
        if name == "rows" and reader.take("["):
            has_rows = True
            for row in reader.iterate_list():
                if not isinstance(row, dict):
                    raise _refuse_rows(table)
                yield PortalItem(table, row)
        else:
            reader.read_value()
    if not has_rows:
        raise _refuse_rows(table)


def _refuse_rows(table: str) -> SnapshotRefused:
    return SnapshotRefused(f"the table {table!r} of this export has no list `rows` of objects")


class _Reader:
    """The text of a JSON document, of which one value at a time is held. Raises ValueError where it is none."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._ended = "", 0, False

    def peek(self) -> str:
        """Return the next character that is no blank; an empty text at the end."""
        while True:
            self._at = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]  # it matches nothing, too
            if self._at < len(self._text) or not self._read_more():
                return self._text[self._at : self._at + 1]

    def take(self, character: str) -> bool:
        """Go past a character, if it is the next one; return whether it was."""
        found = self.peek() == character
        self._at += found
        return found

    def read_value(self) -> Any:
        """Return the next value."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError:
                if not self._read_more():
                    raise
                continue
            # A number may go on behind what is held: `3` may be the beginning of `3.25`.
            if self._text[end : end + 1] not in _GOES_ON or not self._read_more():
                self._at = end
                return value

    def skip(self) -> tuple[()]:
        """Go past a value without names."""
        self.read_value()
        return ()

    def iterate_list(self) -> Iterator[Any]:
        """Yield the values of a list that has begun."""
        ended = self.take("]")
        while not ended:
            yield self.read_value()
            ended = self._ends("]")

    def iterate_names(self) -> Iterator[str]:
        """Yield the names of an object that has begun; the caller reads the value of each before the next."""
        ended = self.take("}")
        while not ended:
            name = self.read_value()
            if not isinstance(name, str) or not self.take(":"):
                raise ValueError(NO_DOCUMENT)
            yield name
            ended = self._ends("}")

    def _ends(self, last: str) -> bool:
        ended = self.take(last)
        if not ended and not self.take(","):
            raise ValueError(NO_DOCUMENT)
        return ended

    def _read_more(self) -> bool:
        """Read as much again as is held; return whether the end was not known before."""
        if self._ended:
            return False
        held = self._text[self._at :]
        if len(held) > LONGEST_ROW:
            raise SnapshotRefused(f"a row of this export has more than {LONGEST_ROW} characters")
        read = self._file.read(max(CHUNK, len(held)))
        self._ended = not read
        self._text, self._at = held + self._decoder.decode(read, final=not read), 0
        return True
