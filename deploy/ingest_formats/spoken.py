"""Makes turns of what people said in a recording, from its pieces with their times."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from afterturn_client.turns import Message, NewTurn

from deploy.ingest_formats.parsed import BadLine, Parsed, TurnNames, check_turn
from deploy.ingest_formats.speakers import name_speakers
from deploy.ingest_formats.text_source import describe_offset

#: Field of a turn's metadata that says where in the recording it was said, where nothing says when that began.
OFFSET = "recording_offset"
#: The most characters of a turn that is joined from pieces.
_LONGEST = 2_000
_SENTENCE_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"'\u2019\u201d)\]]*\s*\Z")


@dataclass(frozen=True, slots=True)
class Spoken:
    """Words of one person without a pause: the line, who (empty: unknown), and seconds from the beginning."""

    line: int
    name: str
    text: str = field(repr=False)
    seconds: float = 0.0
    offset: int = 0


def give_own_names(pieces: Sequence[Spoken]) -> list[Spoken]:
    """Return the pieces under the speakers' own names: `Kim (Guest)` is Kim."""
    own = name_speakers(piece.name for piece in pieces if piece.name)
    return [replace(piece, name=own.get(piece.name, "")) for piece in pieces]


def build_spoken_turns(
    pieces: Iterable[Spoken], session: str, began: datetime | None, *, are_messages: bool = False
) -> Iterator[Parsed]:
    """Yield a turn for each sentence or more that a person said, or each message; one without a name is a bad line.

    Every speaker in a recording is a person under any name, never an assistant. A turn is named by its speaker, its
    words and its place in the recording, so that a longer recording gives the old turns their old names.
    """
    names = TurnNames()
    for one in pieces if are_messages else _join_sentences(pieces):
        if not one.name:
            yield BadLine(one.line, "names no speaker", one.offset)
            continue
        at = None if began is None else began + timedelta(seconds=one.seconds)
        where = describe_offset(one.seconds)
        key = names.digest("user", one.name, where if at is None else at.isoformat(), one.text)
        metadata = {OFFSET: where} if at is None else None
        turn = NewTurn(session, [Message("user", one.text, one.name, at)], names.take(key), metadata=metadata)
        yield check_turn(turn, one.line, one.offset)


def _join_sentences(pieces: Iterable[Spoken]) -> Iterator[Spoken]:
    """Yield the pieces, those that follow each other within a sentence as one."""
    held: Spoken | None = None
    for one in pieces:
        if held is not None and _goes_on(held, one):
            held = replace(held, text=f"{held.text} {one.text}", offset=one.offset)
            continue
        if held is not None:
            yield held
        held = one
    if held is not None:
        yield held


def _goes_on(said: Spoken, more: Spoken) -> bool:
    fits = len(said.text) + len(more.text) < _LONGEST
    return bool(said.name) and said.name == more.name and fits and not _SENTENCE_END.search(said.text)
