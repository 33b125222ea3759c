"""Typed reads of a JSON object: a missing or wrong field is an error that names it, never its value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from afterturn_client.errors import InvalidAnswerError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object of an answer; `what` names it in errors. Unknown fields are ignored."""

    values: Mapping[str, Any] = field(repr=False)
    what: str

    @classmethod
    def of(cls, value: object, what: str) -> "Fields":
        """Wrap an object; raises InvalidAnswerError for anything else."""
        if not isinstance(value, dict):
            raise InvalidAnswerError(f"{what}: expected an object")
        return cls(value, what)

    def text(self, name: str) -> str:
        """Return a text."""
        return self._typed(name, str)

    def maybe_text(self, name: str) -> str | None:
        """Return a text, or None when it is absent or null."""
        return None if self.values.get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        """Return an integer; a boolean is refused."""
        return self._typed(name, int)

    def real(self, name: str) -> float:
        """Return a number; a boolean is refused."""
        value = self.values.get(name)
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else self._typed(name, float)

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        return self._typed(name, bool)

    def maybe_moment(self, name: str) -> datetime | None:
        """Return an aware time, or None when it is absent or null."""
        return None if self.values.get(name) is None else self.moment(name)

    def moment(self, name: str) -> datetime:
        """Return an aware time from RFC 3339 text."""
        try:
            found = datetime.fromisoformat(self.text(name))
        except ValueError:
            found = None
        if found is None or found.tzinfo is None:
            raise InvalidAnswerError(f"{self.what}: {name} is not a time with a zone")
        return found

    def objects(self, name: str) -> list["Fields"]:
        """Return a list of objects."""
        return [Fields.of(one, f"{self.what}.{name}") for one in self._typed(name, list)]

    def object(self, name: str) -> "Fields":
        """Return an object."""
        return Fields.of(self.values.get(name), f"{self.what}.{name}")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; absent is empty."""
        value = self.values.get(name)
        return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()

    def _typed(self, name: str, kind: type[T]) -> T:
        value = self.values.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InvalidAnswerError(f"{self.what}: {name} is not of type {kind.__name__}")
        return value


def show_line(text: str) -> str:
    """Return a text as one line without characters that a terminal obeys."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
