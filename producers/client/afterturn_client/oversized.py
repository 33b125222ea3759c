"""Identifies an MCP message that is too large to be read whole, by its beginning and its end."""

import re
from dataclasses import dataclass, field

#: The bytes that are looked at, of the beginning and of the end.
ENDS = 4096
_ID = rb'"id"\s*:\s*(?P<id>-?\d{1,18}|"(?:[^"\\]|\\.){0,256}")'
_VERSION, _METHOD = rb'"jsonrpc"\s*:\s*"2\.0"', rb'"method"\s*:\s*"(?P<method>[a-z/_]{1,64})"'
_MEMBER = rb"(?:" + rb"|".join((_ID, _VERSION, _METHOD)) + rb")"
# Only members of the message itself stand before its first object, and between its last object and its last brace.
_AT_BEGINNING = re.compile(rb"\s*\{\s*(?:" + _MEMBER + rb"\s*,\s*){1,3}")
_AT_END = re.compile(rb"\}\s*(?:,\s*" + _MEMBER + rb"\s*){1,3}\}\s*\Z")


@dataclass(frozen=True, slots=True)
class Oversized:
    """A message beyond the limit: its id as JSON, and its method; None where neither end has it."""

    id: bytes | None = field(repr=False)
    method: str | None

    @property
    def is_call(self) -> bool:
        """Whether it can be answered as a tool's call: nothing else is so large."""
        return self.id is not None and self.method in {None, "tools/call"}


def identify_message(beginning: bytes, end: bytes) -> Oversized:
    """Return who a message is by its first and its last bytes. Takes time in proportion to ENDS, never raises."""
    matches = (_AT_BEGINNING.match(beginning[:ENDS]), _AT_END.search(end[-ENDS:]))
    found = [match.groupdict() for match in matches if match]
    named = next((one["id"] for one in found if one["id"]), None)
    method = next((one["method"] for one in found if one["method"]), None)
    return Oversized(named, None if method is None else method.decode())
