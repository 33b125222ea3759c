"""Reads the records of a file of JSON Lines, plain or a zstd archive; a bad line costs itself alone."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from deploy.cli.compression import zstd
from deploy.ingest_formats.bounded_lines import read_lines

#: The service's default limit of a request, and many times the engine's of a file, in bytes: what an archive may hold.
LONGEST_LINE, LONGEST_FILE = 2_097_152, 268_435_456


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file; line 0 is the file itself."""

    file: Path
    line: int


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON object, and where it stands."""

    place: Place
    value: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A line that cannot be used; `reason` says why, without quoting it."""

    place: Place
    reason: str


def read_records(file: Path) -> Iterator[Record | BadRecord]:
    """Yield the records of a file, and its bad lines; what cannot be read of it is its last bad line."""
    number = 0
    try:
        with _open(file) as stream:
            for line in read_lines(stream, LONGEST_LINE):
                number = line.number
                if line.offset > LONGEST_FILE:
                    yield BadRecord(Place(file, number), f"the file has more than {LONGEST_FILE} bytes")
                    return
                if line.text is None:
                    yield BadRecord(Place(file, number), line.error)
                elif line.text.strip():
                    yield parse_record(line.text, Place(file, number))
    except EOFError:
        yield BadRecord(Place(file, number + 1), "the archive is cut off")
    except zstd.ZstdError:
        yield BadRecord(Place(file, number + 1), "not a zstd archive, or a damaged one")
    except OSError as error:
        yield BadRecord(Place(file, number + 1), f"cannot be read ({error.strerror or type(error).__name__})")


def parse_record(text: str, place: Place) -> Record | BadRecord:
    """Return the JSON object of a text."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return BadRecord(place, f"not JSON ({error.msg.lower()}, column {error.colno})")
    except (ValueError, RecursionError):
        return BadRecord(place, "not JSON that can be read (a number or a nesting out of range)")
    return Record(place, value) if isinstance(value, dict) else BadRecord(place, "not a JSON object")


@contextmanager
def _open(file: Path) -> Iterator[BinaryIO]:
    with file.open("rb") as raw:
        if file.suffix == ".zst":
            with zstd.open(raw) as plain:
                yield cast(BinaryIO, plain)
        else:
            yield raw
