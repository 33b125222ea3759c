"""The form of an exported file: JSON Lines, of which the first names the form and the last one counts what is between.

So a file that was cut off is detected, and one of another form is refused before anything is written.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from producers.cutover.errors import UnusableFile

#: Most bytes of a line.
LONGEST_LINE = 16_777_216


def write_line(out: BinaryIO, line: Mapping[str, Any]) -> None:
    """Write one line, in ASCII, so that no character in it can end the line."""
    out.write(json.dumps(line, ensure_ascii=True, allow_nan=False).encode() + b"\n")


def iterate_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is too long, which a small archive may hold, what `parse_line` refuses."""
    while line := stream.readline(LONGEST_LINE + 1):
        yield line


def parse_line(line: bytes, number: int) -> dict[str, Any]:
    """Return the JSON object of a line. Raises UnusableFile."""
    try:
        kept = json.loads(line) if len(line) <= LONGEST_LINE else None
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict):
        raise UnusableFile(f"line {number}: it is no JSON object of at most {LONGEST_LINE} bytes")
    return kept


def check_lines(lines: Iterable[bytes], form: str, is_counted: Callable[[Mapping[str, Any]], bool], of: str) -> int:
    """Read a whole file of a form and return how many lines count. Raises UnusableFile for one that is cut off.

    `of` names what is counted, for errors.
    """
    count, end = 0, None
    for number, line in enumerate(lines, 1):
        kept = parse_line(line, number)
        if (number == 1) != (kept.get("format") == form):
            raise UnusableFile(f"line {number}: this is no export of {of} ({form})")
        if end is not None:
            raise UnusableFile(f"line {number}: a line follows the last one, which counts the {of}: export again")
        count += is_counted(kept)
        end = kept.get("end")
    if end != count:
        raise UnusableFile(
            f"the export is cut off: it has {count} {of} and no last line that counts them: export again"
        )
    return count
