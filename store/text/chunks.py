"""Splits a document into chunks. Pure."""

import re
from collections.abc import Iterator

from store.off_loop import iterate_giving_way

#: Characters of a chunk, about as many as the sentence model reads.
CHUNK_CHARACTERS = 900

_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n")


def split_chunks(text: str, most: int = CHUNK_CHARACTERS) -> list[str]:
    """Return the text in order in chunks of at most `most` characters, none of them blank.

    Paragraphs stay together where they fit, then sentences; only a longer sentence is cut. Neighbouring paragraphs
    share a chunk while there is room.
    """
    chunks: list[str] = []
    for paragraph in _split_text(_PARAGRAPH, text):
        for piece in _split_paragraph(paragraph.strip(), most):
            if chunks and len(chunks[-1]) + len(piece) + 2 <= most:
                chunks[-1] = f"{chunks[-1]}\n\n{piece}"
            else:
                chunks.append(piece)
    return chunks


def _split_paragraph(paragraph: str, most: int) -> list[str]:
    """Return a paragraph whole, or in runs of whole sentences, or cut."""
    if len(paragraph) <= most:
        return [paragraph] if paragraph else []
    pieces: list[str] = []
    for sentence in filter(str.strip, _split_text(_SENTENCE, paragraph)):
        for start in range(0, len(sentence), most):
            part = sentence[start : start + most].strip()
            if pieces and len(pieces[-1]) + len(part) < most:
                pieces[-1] = f"{pieces[-1]} {part}"
            elif part:
                pieces.append(part)
    return pieces


def _split_text(end: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield what `end.split` returns, piece by piece: within its one call no other thread runs."""
    at = 0
    for match in iterate_giving_way(end.finditer(text)):
        yield text[at : match.start()]
        at = match.end()
    yield text[at:]
