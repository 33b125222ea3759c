"""Files of snapshots: JSON Lines, plain or compressed. A file under way has another name until it is whole."""

import errno
import gzip
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from deploy.cli.compression import zstd
from producers.cutover.errors import UnusableFile
from producers.cutover.lines import LONGEST_LINE, check_lines, iterate_lines, parse_line, write_line
from producers.service.fields import NAME_BYTES
from store.snapshot.heading import FORMAT

#: What a compressed file begins with.
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: Errors of a file that is written.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Fields of events' data that hold the name of a user.
NAMES_OF_USERS = ("userName", "laidDownBy")


@dataclass(frozen=True, slots=True)
class BegunFile:
    """What an earlier run has written: the first line, the last event's position, how many events; whether all."""

    first_line: Mapping[str, Any]
    position: int = 0
    events: int = 0
    whole: bool = False


class UnfinishedFile:
    """A file under way: `FILE.part`, which a later run continues behind its last whole line."""

    def __init__(self, file: Path) -> None:
        """Write to a file of this name in the end."""
        self._file = file
        self._part = file.with_name(f"{file.name}.part")

    def read_begun(self) -> BegunFile | None:
        """Return what was begun, or None. What was cut off behind the last whole line is removed."""
        if not self._part.exists():
            return None
        begun, size = None, 0
        with self._part.open("rb+") as part:
            for number, line in enumerate(part, 1):
                if not line.endswith(b"\n"):
                    break
                kept = parse_line(line, number)
                if begun is None:
                    begun = BegunFile(kept)
                elif "end" in kept:
                    begun = replace(begun, whole=True)
                else:
                    begun = replace(begun, position=int(kept.get("nonce", 0)), events=begun.events + 1)
                size += len(line)
            part.truncate(size)
        return begun

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Yield the file to append to; only its owner can read it."""
        opened = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(opened, "ab") as out:
            yield out

    def discard(self) -> None:
        """Remove what an earlier run has written."""
        self._part.unlink(missing_ok=True)

    def finish(self) -> None:
        """Compress the file where its name says so, and give it its name."""
        if self._file.suffix in {".gz", ".zst"}:
            packed = self._file.with_name(f"{self._file.name}.packed")
            try:
                opened = os.open(packed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with self._part.open("rb") as plain, os.fdopen(opened, "wb") as out, _compress(out, self._file) as into:
                    shutil.copyfileobj(plain, into, 1 << 20)
                packed.replace(self._file)
            finally:
                packed.unlink(missing_ok=True)
            self._part.unlink()
        else:
            self._part.replace(self._file)


def check_name(file: Path) -> None:
    """Raise UnusableFile for a file that exists."""
    if file.exists():
        raise UnusableFile(f"{file} exists: name another file")


@contextmanager
def open_snapshot(file: Path) -> Iterator[BinaryIO]:
    """Yield the plain lines of a snapshot. Raises UnusableFile."""
    try:
        with file.open("rb") as raw:
            head = raw.read(4)
            raw.seek(0)
            if head == _ZSTD:
                with zstd.open(raw) as lines:
                    yield lines  # type: ignore[misc]  # typeshed: no BinaryIO
            elif head.startswith(_GZIP):
                with gzip.open(raw) as lines:
                    yield lines  # type: ignore[misc]  # as above
            else:
                yield raw
    except (OSError, EOFError, zlib.error, zstd.ZstdError) as error:
        if getattr(error, "errno", None) in NO_ROOM:  # of a file that is written meanwhile
            raise
        raise UnusableFile(f"{file} cannot be read ({getattr(error, 'strerror', None) or error})") from None


def check_snapshot(lines: BinaryIO, names: set[str]) -> int:
    """Read a whole snapshot and return how many events it has; add the names of its users to `names`.

    Raises UnusableFile for one that is cut off.
    """

    def look(kept: Mapping[str, Any]) -> bool:
        data = kept.get("data")
        told = (data.get(name) for name in NAMES_OF_USERS) if isinstance(data, dict) else ()
        names.update(name for name in told if isinstance(name, str) and 0 < len(name.encode()) <= NAME_BYTES)
        return "type" in kept

    return check_lines(iterate_lines(lines), FORMAT, look, "events")


def is_snapshot(file: Path) -> bool:
    """Return whether the first line of a file is that of a snapshot, of any version. Raises UnusableFile."""
    with open_snapshot(file) as lines:
        try:
            told = json.loads(lines.readline(LONGEST_LINE))
        except (ValueError, RecursionError):
            return False
    return isinstance(told, dict) and "format" in told


def iterate_events(lines: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the events of a snapshot."""
    for batch in iterate_batches(lines, 0, 1000, 1_000_000):
        yield from batch


def read_rules(file: Path) -> list[Any]:
    """Return the replacement rules of a file, a JSON list. Raises UnusableFile."""
    try:
        rules = json.loads(file.read_bytes())
    except OSError as error:
        raise UnusableFile(f"{file} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        rules = None
    if not isinstance(rules, list):
        raise UnusableFile(f'{file}: it is no JSON list of rules {{"field": ..., "from": ..., "to": ...}}')
    return rules


def iterate_batches(lines: BinaryIO, skipped: int, most: int, most_bytes: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the events of a snapshot after the first `skipped` ones, in batches bounded in number and bytes."""
    batch, size, nth = list[dict[str, Any]](), 0, 0
    for number, line in enumerate(iterate_lines(lines), 1):
        if number == 1 or (nth := nth + 1) <= skipped:
            continue
        event = parse_line(line, number)
        if "end" in event:
            break
        if batch and (len(batch) >= most or size + len(line) > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += len(line)
    if batch:
        yield batch


class ParkedFile:
    """Events whose parent is missing, in a snapshot of their own: `FILE.parked.jsonl`, to be imported later."""

    def __init__(self, file: Path, first_line: Mapping[str, Any], *, goes_on: bool) -> None:
        """Write beside this snapshot, under the same first line; where its import goes on, behind what was parked."""
        self.file = file.with_name(f"{file.name}.parked.jsonl")
        self._first_line = first_line
        self._unfinished = UnfinishedFile(self.file)
        begun = self._unfinished.read_begun() if goes_on else None
        if begun is None or begun.first_line != first_line:
            self._unfinished.discard()
        self.events = begun.events if begun and begun.first_line == first_line else 0

    def add(self, event: Mapping[str, Any]) -> None:
        """Append an event."""
        with self._unfinished.open() as out:
            if not self.events:
                write_line(out, self._first_line)
            write_line(out, event)
        self.events += 1

    def finish(self) -> None:
        """Write the last line, and give the file its name."""
        if self.events:
            with self._unfinished.open() as out:
                write_line(out, {"end": self.events})
            self._unfinished.finish()


def read_first_line(lines: BinaryIO) -> dict[str, Any]:
    """Return the first line of a snapshot. Raises UnusableFile."""
    for line in iterate_lines(lines):
        return parse_line(line, 1)
    raise UnusableFile("the file is empty")


def _compress(out: BinaryIO, file: Path) -> Any:
    if file.suffix == ".zst":
        return zstd.open(out, "wb")
    return gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0)
