"""Lines of a file that may hold anything: bounded in length, decoded strictly, numbered from 1."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

BOM = b"\xef\xbb\xbf"
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. `text` is None when it cannot be used, and `error` says why.

    `offset` is how many bytes of the file are read when this line is.
    """

    number: int
    text: str | None = field(repr=False)
    error: str
    offset: int


def read_lines(stream: BinaryIO, longest: int) -> Iterator[Line]:
    """Yield every line; one of more than `longest` bytes is skipped over in pieces and never held whole."""
    offset = 0
    number = 0
    while raw := stream.readline(longest + 2):
        number += 1
        offset += len(raw)
        too_long = len(raw.rstrip(b"\r\n")) > longest
        ended = raw.endswith(b"\n")
        while too_long and not ended and (more := stream.readline(_PIECE)):
            offset += len(more)
            ended = more.endswith(b"\n")
        if too_long:
            yield Line(number, None, f"longer than {longest} bytes", offset)
        else:
            yield _decode_line(raw.removeprefix(BOM) if number == 1 else raw, number, offset)


def _decode_line(raw: bytes, number: int, offset: int) -> Line:
    try:
        text = raw.rstrip(b"\r\n").decode()
    except UnicodeDecodeError as error:
        return Line(number, None, f"not UTF-8 (byte {error.start + 1} of the line)", offset)
    if "\0" in text:
        return Line(number, None, "holds a NUL character", offset)
    return Line(number, text, "", offset)
