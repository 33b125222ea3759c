"""The results of a parser: a turn or a bad line, each with its line number."""

import hashlib
from dataclasses import dataclass

from afterturn_client.errors import InvalidRequestError
from afterturn_client.transport import encode_json
from afterturn_client.turns import NewTurn, texts_of, turn_body
from pydantic import ValidationError

#: Tags that pydantic adds to the path of an error; they are not fields.
MESSAGE_KINDS = ("message", "item")


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """A turn, its line and offset in the file; `size` is its length in a request, in bytes."""

    line: int
    turn: NewTurn
    size: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a turn; `error` says why, without quoting it."""

    line: int
    error: str
    offset: int = 0


Parsed = ParsedTurn | BadLine


def derive_turn_name(ordinal: int, role: str, text: str) -> str:
    """Return `<ordinal>-<12 hex of sha256(role, text)>`, so that the same text in the same place is the same turn."""
    digest = hashlib.sha256(b"\0".join((role.encode(), text.encode(errors="surrogatepass"))))
    return f"{ordinal}-{digest.hexdigest()[:12]}"


def check_turn(turn: NewTurn, line: int, offset: int) -> Parsed:
    """Return the turn if it can be encoded and stored, else a bad line."""
    names = [turn.session_id, turn.turn_id, turn.bank or "", turn.user_id or "", *(turn.metadata or {})]
    if any("\0" in text for text in [*names, *texts_of(turn)]):
        return BadLine(line, "holds a NUL character", offset)
    try:
        size = len(encode_json(turn_body(turn, "")))
    except InvalidRequestError:
        return BadLine(line, "holds a lone surrogate (half a character) or a number that JSON does not have", offset)
    return ParsedTurn(line, turn, size, offset)


def describe_first_error(error: ValidationError) -> str:
    """Return pydantic's first error as text: field and problem, never the value."""
    detail = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in detail["loc"] if part not in MESSAGE_KINDS)
    shown = "".join(sign if sign.isprintable() else "?" for sign in place)[:100]
    return f"{shown}: {detail['msg']}" if shown else detail["msg"]
