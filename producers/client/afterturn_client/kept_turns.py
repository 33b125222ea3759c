"""Stores turns of a transcript once, and of a turn that was stored before it ended what came after."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from afterturn_client.answers import RefusedTurn
from afterturn_client.blocking_client import Afterturn
from afterturn_client.contract.turns import TurnStatus
from afterturn_client.errors import TurnConflictError
from afterturn_client.hook_program import say
from afterturn_client.reference import strip_frames
from afterturn_client.transcripts import LONGEST_MESSAGE, TranscriptTurn
from afterturn_client.turns import Message, NewTurn

#: Into how many stored turns one turn may be divided, each with what came after the one before.
MOST_PARTS = 8
#: How many turns before the one that ended may be stored with it.
MOST_EARLIER = 4
#: The service's placeholder of a secret, and a secret.
_REDACTED, _SECRET = re.compile(r"\[REDACTED:\w+\]"), ".{1,8192}?"


def keep_turn(memory: Afterturn, session_id: str, turn: TranscriptTurn) -> bool:
    """Store a turn, and return whether anything of it was new.

    Where it was stored with less of its answer, the rest is stored under a name that follows from it, with what was
    asked since.
    """
    part = turn
    for _ in range(MOST_PARTS):
        try:
            told = memory.add_turn(session_id, write_messages(part), turn_id=part.name)
        except TurnConflictError:
            stored = memory.turn_status(session_id, part.name)
            rest, added = _find_missing("assistant", part.answered, stored), _find_missing("user", part.added, stored)
            if not rest:
                return False
            name, asked = f"{turn.name}:{_digest(rest[0])}", "\n\n".join(added)
            part = replace(turn, name=name, asked=asked, added=added, answered=rest)
        else:
            return not told.duplicate
    say(f"a turn went on more than {MOST_PARTS} times; what came last was not kept")
    return False


def keep_turns(memory: Afterturn, session_id: str, turns: Sequence[TranscriptTurn]) -> None:
    """Store turns in one call; what of them was stored already stays as it is."""
    told = memory.add_turns([NewTurn(session_id, write_messages(turn), turn_id=turn.name) for turn in turns])
    refused = [(turn, one.error) for turn, one in zip(turns, told, strict=True) if isinstance(one, RefusedTurn)]
    for turn, error in refused:
        if isinstance(error, TurnConflictError):
            keep_turn(memory, session_id, turn)
    if other := [error.code for _, error in refused if not isinstance(error, TurnConflictError)]:
        say(f"turns that the service refused: {len(other)} ({', '.join(sorted(set(other)))}); the others are kept")


def add_piece(answered: tuple[str, ...], said: str) -> tuple[str, ...]:
    """Return the pieces of an answer with the last words, which the pieces may hold already, in part or whole."""
    if not said or holds(" ".join(answered), said):
        return answered
    for n in range(len(answered)):
        if _plain(said).startswith(_plain(" ".join(answered[n:]))):
            return (*answered[:n], said)
    return (*answered, said)


def write_messages(turn: TranscriptTurn) -> list[Message]:
    """Return the messages of a turn: the prompt and the answer, each where there is one."""
    asked = [Message("user", turn.asked, timestamp=turn.asked_at)] if turn.asked else []
    answered = [Message("assistant", turn.answer, timestamp=turn.answered_at)] if turn.answered else []
    return [*asked, *answered]


def find_unkept(turns: Sequence[TranscriptTurn], following: TranscriptTurn) -> list[TranscriptTurn]:
    """Return those of the turns before the `following` one that no hook may have been told the end of, oldest first.

    An agent tells of no end where a prompt was interrupted, or another one came before its answer. Turns are stored
    once, so one too many does no harm. A prompt that was asked again in the same words is left out.
    """
    found = list[TranscriptTurn]()
    for turn in reversed(turns[-MOST_EARLIER:]):
        if turn.ended or (turn.answered and not turn.named):
            break
        if turn.answered or turn.asked != following.asked:
            found.insert(0, turn)
        following = turn
    return found


def _find_missing(role: str, said: Sequence[str], stored: TurnStatus) -> tuple[str, ...]:
    """Return the pieces of a role's words that are not stored; frames and secrets never are."""
    kept = _plain(" ".join(str(one.content) for one in stored.messages if one.role == role))
    pieces = [_plain(strip_frames(piece[:LONGEST_MESSAGE])) for piece in said]
    begin, end = _find_redacted(kept, " ".join(pieces))
    missing, at = list[str](), 0
    for told, piece in zip(said, pieces, strict=True):
        if not holds(kept, piece) and not (at < end and at + len(piece) > begin):
            missing.append(told)
        at += len(piece) + 1
    return tuple(missing)


def _find_redacted(kept: str, text: str) -> tuple[int, int]:
    """Return where the text is that was stored with secrets redacted; an empty span where it is not found."""
    if len(rest := _REDACTED.split(kept)) == 1:
        return 0, 0
    found = re.search(_SECRET.join(map(re.escape, rest)), text, re.DOTALL)
    return found.span() if found else (0, 0)


def holds(text: str, piece: str) -> bool:
    """Return whether a text holds the words of a piece, however they are spaced."""
    return f" {_plain(piece)} " in f" {_plain(text)} "


def _plain(text: str) -> str:
    return " ".join(text.split())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
