"""Field types of requests: names, texts and times. Pure.

Problems never show the value. Sizes are bytes of UTF-8.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from afterturn_client.message_times import EARLIEST, EPOCH, LATEST
from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from store.log.storable import check_text

BANK_BYTES = 256
SESSION_BYTES = 128
TURN_BYTES = 256
NAME_BYTES = 256
#: The largest position, that of a PostgreSQL bigint.
POSITION_MAX = 2**63 - 1
#: The longest that a request waits, in milliseconds.
MAX_WAIT_MS = 10_000
_EARLIEST_MS, _LATEST_MS = (int((t - EPOCH).total_seconds() * 1000) for t in (EARLIEST, LATEST))
#: Integers that are seconds since 1970, of the years 1973 to 2286: as milliseconds they would all be in 1970.
SECONDS = range(10**8, 10**10)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def field_error(problem: str) -> PydanticCustomError:
    """Return the error of a broken rule; `problem` must not repeat the value."""
    return PydanticCustomError("rule", "{problem}", {"problem": problem})


def _limit_bytes(limit: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        check_text(text)
        if not text or len(text.encode()) > limit:
            raise field_error(f"must have 1 to {limit} bytes")
        return text

    return check


def session_name(text: str) -> str:
    """Return a session's name if it is valid as one segment of a path."""
    _limit_bytes(SESSION_BYTES)(text)
    if text in {".", ".."} or "/" in text or "\\" in text or _CONTROL.search(text):
        raise field_error("must not be . or .., nor contain a slash, a backslash or a control character")
    return text


def parse_moment(value: Any) -> datetime:
    """Return the UTC time of an RFC 3339 text with its offset, or of an integer of epoch milliseconds.

    An integer of ten digits is seconds. One that would be a day before or after the beginning of 1970 is refused: it is
    no time.
    """
    if isinstance(value, datetime):
        read = value
    elif isinstance(value, int) and not isinstance(value, bool):
        return _read_integer(value)
    elif isinstance(value, str) and _RFC3339.fullmatch(value):
        read = _read_rfc3339(value)
    else:
        raise field_error("must be RFC 3339 with Z or an offset, or an integer of epoch milliseconds")
    if read.tzinfo is None:
        raise field_error("must carry an offset")
    if not EARLIEST <= read < LATEST:
        raise field_error(f"must lie between the years {EARLIEST.year} and {LATEST.year}")
    return read.astimezone(UTC)


def _read_integer(value: int) -> datetime:
    if not _EARLIEST_MS <= value < _LATEST_MS:
        raise field_error(f"must lie between the years {EARLIEST.year} and {LATEST.year} (epoch milliseconds)")
    if abs(value) < SECONDS.start:
        raise field_error(
            "must be epoch milliseconds of a time that was; this is about the beginning of 1970: leave it out"
        )
    return EPOCH + (timedelta(seconds=value) if value in SECONDS else timedelta(milliseconds=value))


def _read_rfc3339(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError:
        raise field_error("must be a time that exists") from None


BankName = Annotated[str, AfterValidator(_limit_bytes(BANK_BYTES))]
SessionName = Annotated[str, AfterValidator(session_name)]
TurnName = Annotated[str, AfterValidator(_limit_bytes(TURN_BYTES))]
Name = Annotated[str, AfterValidator(_limit_bytes(NAME_BYTES))]
Text = Annotated[str, AfterValidator(check_text)]
Moment = Annotated[
    datetime,
    PlainValidator(parse_moment),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}]}),
]

# Descriptions of what is a parameter of a query and of a path, or several models' field.
BANK_NAME = f"name of the bank, 1 to {BANK_BYTES} bytes"
SESSION_ID = f"the caller's own id of the session, 1 to {SESSION_BYTES} bytes without a slash or control character"
TURN_ID = f"the caller's own id of the turn in its session, 1 to {TURN_BYTES} bytes"

NamedBank = Annotated[BankName, Field(description=BANK_NAME)]
DefaultBank = Annotated[BankName, Field(description=f"{BANK_NAME}; left out: `default`")]
SessionId = Annotated[SessionName, Field(description=SESSION_ID)]
TurnId = Annotated[TurnName, Field(description=TURN_ID)]
WaitMs = Annotated[
    int,
    Field(ge=0, le=MAX_WAIT_MS, description=f"milliseconds to wait at most, up to {MAX_WAIT_MS}; 0: answer at once"),
]
MinPosition = Annotated[
    int | None,
    Field(
        ge=0,
        le=POSITION_MAX,
        description="position in the log that the answer is to show, as a write answered it; left out: no wait",
    ),
]
SpeakerId = Annotated[
    Name | None,
    Field(description="the caller's own id of the user who says it; left out: the user of the key, if it has one"),
]
End = Annotated[Moment | None, Field(description="time from which on no answer shows it; left out: never")]
