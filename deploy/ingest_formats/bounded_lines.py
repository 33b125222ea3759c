"""Reads the lines of an untrusted file: bounded in length, strictly decoded, numbered from 1."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

BOM = b"\xef\xbb\xbf"
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its line end. When it cannot be used, `text` is None and `error` says why.

    `offset` is the number of bytes of the file up to the end of this line.
    """

    number: int
    text: str | None = field(repr=False)
    error: str
    offset: int


def read_lines(stream: BinaryIO, longest: int) -> Iterator[Line]:
    """Yield every line; one of more than `longest` bytes is skipped and never held in memory as a whole.

    A line ends with LF, CR LF or CR.
    """
    offset = 0
    number = 0
    while raw := stream.readline(longest + 2):
        offset += len(raw)
        too_long = len(raw.rstrip(b"\r\n")) > longest
        ended = raw.endswith(b"\n")
        while too_long and not ended and (more := stream.readline(_PIECE)):
            offset += len(more)
            ended = more.endswith(b"\n")
        if too_long:
            number += 1
            yield Line(number, None, f"longer than {longest} bytes", offset)
            continue
        for piece in raw.rstrip(b"\r\n").split(b"\r"):
            number += 1
            yield _decode_line(piece.removeprefix(BOM) if number == 1 else piece, number, offset)


def _decode_line(raw: bytes, number: int, offset: int) -> Line:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        return Line(number, None, f"not UTF-8 (byte {error.start + 1} of the line)", offset)
    if "\0" in text:
        return Line(number, None, "holds a NUL character", offset)
    return Line(number, text, "", offset)
