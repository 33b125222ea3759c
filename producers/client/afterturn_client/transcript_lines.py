"""What a line of a coding agent's session file can be, and how its texts and times are read."""

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afterturn_client.message_times import find_time
from afterturn_client.reference import strip_parts


class LineKind(enum.Enum):
    """What a line is for the turns of a file; one that is nothing for them is no Line."""

    #: Words of a person that begin a turn.
    PROMPT = enum.auto()
    #: Words of a person within a turn.
    ADDED = enum.auto()
    #: A piece of a model's answer.
    ANSWER = enum.auto()
    #: The end of a turn, of which the agent tells its hooks.
    END = enum.auto()
    #: What stands in the place of an answer and is none: an error of the model's service.
    DISMISSED = enum.auto()
    #: A command to the interface: it ends the turn before. With arguments it begins one, where a model answers it.
    COMMAND = enum.auto()
    #: News of the interface for the model: the turn before goes on.
    NOTICE = enum.auto()
    #: The newest turn was taken back: it has left the agent's context and the person's view.
    UNDONE = enum.auto()


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its kind, its text, its id, and its time as RFC 3339 text."""

    kind: LineKind
    text: str = field(default="", repr=False)
    name: str = ""
    at: str | None = None

    @property
    def opens(self) -> bool:
        """Whether the next lines belong to this line, and not to one before it."""
        return self.kind in (LineKind.PROMPT, LineKind.COMMAND)


#: Characters that UTF-8 or the store's database cannot hold.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
#: Kinds of parts that hold text, and the placeholders of those without.
_TEXTS = frozenset({"text", "input_text", "output_text", "Text"})
_PLACEHOLDERS = {
    "image": "[image]",
    "input_image": "[image]",
    "local_image": "[image]",
    "document": "[document]",
    "input_file": "[document]",
}


def make_storable(text: str) -> str:
    """Return the text with U+FFFD in the place of halves of surrogate pairs and NUL."""
    return _UNSTORABLE.sub("\ufffd", text)


def read_parts(content: Any) -> list[str]:
    """Return the texts of a message's content, without frames of memory, which may begin in one and end in another."""
    if isinstance(content, str):
        return strip_parts([make_storable(content)])
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in _TEXTS)
    return strip_parts([make_storable(text) for text in texts if isinstance(text, str)])


def join_parts(texts: Sequence[str]) -> str:
    """Return the texts that say something as one."""
    return "\n".join(text for text in texts if text.strip()).strip()


def describe_pictures(content: Any) -> str:
    """Return a word for a prompt that has no text but a picture or a file; empty where it has neither."""
    parts = content if isinstance(content, list) else ()
    found = (_PLACEHOLDERS.get(str(part.get("type"))) for part in parts if isinstance(part, dict))
    return " ".join(dict.fromkeys(word for word in found if word))


def read_time(entry: Mapping[str, Any]) -> str | None:
    """Return the time of a line as RFC 3339 text in UTC; None where it has none that can be read."""
    return find_time({"timestamp": entry.get("timestamp")})
