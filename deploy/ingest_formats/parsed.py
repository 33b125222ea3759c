"""The results of a parser: a turn or a bad line, each with its line number; the names of turns and sessions."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from afterturn_client.errors import InvalidRequestError
from afterturn_client.transcripts import TranscriptTurn
from afterturn_client.transport import encode_json
from afterturn_client.turns import NewTurn, texts_of, turn_body
from pydantic import ValidationError

from deploy.ingest_formats.bounded_lines import Line
from store.identity import digest_name

LONGEST_SESSION_ID = 128
#: The longest id of a message that names its turn unchanged, in bytes; a longer one is digested.
LONGEST_TURN_KEY = 200

#: Tags that pydantic adds to the path of an error; they are not fields.
MESSAGE_KINDS = ("message", "item")


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """A turn, its line and offset in the file; `size` is its length in a request, in bytes.

    `may_grow`: a later export of the same chat may add messages to its end. `otherwise` is its name where the one it
    has is another turn's that begins with the same words. `kept`: the turn as a coding agent's hook would store it.
    """

    line: int
    turn: NewTurn
    size: int
    offset: int = 0
    may_grow: bool = False
    otherwise: str | None = None
    kept: TranscriptTurn | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a turn; `error` says why, without quoting it."""

    line: int
    error: str
    offset: int = 0


Parsed = ParsedTurn | BadLine


@dataclass(frozen=True, slots=True)
class Unrecognised(BadLine):
    """A whole file in no known form; `error` says what was looked for."""


@dataclass
class TurnNames:
    """Gives the turns of one session their names: by what they say, so that lines before or after change none."""

    _taken: Counter[str] = field(default_factory=Counter)

    def take(self, key: str) -> str:
        """Return the name of the next turn with this key: the key, and a number where it was taken before."""
        name = key if len(key.encode(errors="replace")) <= LONGEST_TURN_KEY else self.digest(key)
        self._taken[name] += 1
        return name if self._taken[name] == 1 else f"{name}-{self._taken[name]}"

    def take_copy(self, key: str, answer: str) -> tuple[str, str | None]:
        """Return the names of the next turn with a key that several turns have: `answer` is what tells them apart.

        That is the key, and the name to give it where the key names another turn. An equal copy of a turn has one name.
        """
        own = f"{key}-{answer}"
        self._taken[own] += 1
        nth = self._taken[own]
        return (key, own) if nth == 1 else (f"{own}-{nth}", None)

    @staticmethod
    def digest(*parts: str) -> str:
        """Return 16 hexadecimal digits that name these texts."""
        return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


def merge_by_line(*parsed: Iterable[Parsed]) -> Iterator[Parsed]:
    """Yield the turns and bad lines of several sequences, each in the order of the file, in that order."""
    return heapq.merge(*parsed, key=lambda item: item.line)


def find_unreadable(lines: Iterable[Line]) -> Iterator[BadLine]:
    """Yield the lines that cannot be read."""
    return (BadLine(line.number, line.error, line.offset) for line in lines if line.text is None)


def derive_session_name(name: str) -> str:
    """Return a session id derived from a file's name or a chat's id: that, or its beginning and a hash if too long."""
    name = "".join("_" if sign in "/\\" or not sign.isprintable() else sign for sign in name)
    raw = name.encode(errors="replace")
    if len(raw) <= LONGEST_SESSION_ID and name not in {"", ".", ".."}:
        return raw.decode()
    return digest_name(raw.decode())


def check_turn(
    turn: NewTurn, line: int, offset: int, *, may_grow: bool = False, otherwise: str | None = None
) -> Parsed:
    """Return the turn if it can be encoded and stored, else a bad line."""
    names = [turn.session_id, turn.turn_id, turn.bank or "", turn.user_id or "", *(turn.metadata or {})]
    if any("\0" in text for text in [*names, *texts_of(turn)]):
        return BadLine(line, "holds a NUL character", offset)
    try:
        size = len(encode_json(turn_body(turn, "")))
    except InvalidRequestError:
        return BadLine(line, "holds a lone surrogate (half a character) or a number that JSON does not have", offset)
    return ParsedTurn(line, turn, size, offset, may_grow, otherwise)


def describe_first_error(error: ValidationError) -> str:
    """Return pydantic's first error as text: field and problem, never the value."""
    detail = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in detail["loc"] if part not in MESSAGE_KINDS)
    shown = "".join(sign if sign.isprintable() else "?" for sign in place)[:100]
    return f"{shown}: {detail['msg']}" if shown else detail["msg"]
