"""Reads a file in UTF-16, as Windows' programs write it, as if it were in UTF-8."""

import codecs
import io
from typing import BinaryIO, cast

_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: How a file in UTF-32 begins, which is not supported.
_OTHER_MARK = codecs.BOM_UTF32_LE
_PIECE = 65_536
#: What stands for the first half of a last character, and is no UTF-8.
_HALF = b"\xff"


def read_as_utf8(stream: BinaryIO, size: int) -> BinaryIO:
    """Return a stream of UTF-8 where a byte order mark says UTF-16, with a buffer of `size` bytes; else the stream.

    Half a character becomes bytes that are no UTF-8, so that its line is reported as in other files.
    """
    buffered = cast(io.BufferedReader, stream)
    head = buffered.peek(len(_OTHER_MARK))[: len(_OTHER_MARK)]
    if not head.startswith(_MARKS) or head == _OTHER_MARK:
        return stream
    return cast(BinaryIO, io.BufferedReader(_FromUtf16(buffered), size))


class _FromUtf16(io.RawIOBase):
    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # of the two kinds that are given
        while not self._rest and (piece := self._stream.read1(_PIECE)):
            self._rest = self._decoder.decode(piece).encode(errors="surrogatepass")
        if not self._rest and self._decoder.getstate()[0]:
            self._decoder.reset()
            self._rest = _HALF
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
