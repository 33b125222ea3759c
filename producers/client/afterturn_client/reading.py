"""Typed reads of a JSON object: a missing or wrong field is an error that names it, never its value."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from afterturn_client.contract.shape import Shape
from afterturn_client.errors import InvalidAnswerError
from afterturn_client.moments import parse_zoned

T = TypeVar("T")
S = TypeVar("S", bound=Shape)


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
        return _read_moment(self.text(name), f"{self.what}: {name}")

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


def read_shape(shape: type[S], value: object, what: str = "") -> S:
    """Return an answer as its shape of the contract; `what` names it in errors. Names that it has not are ignored.

    Raises InvalidAnswerError for a missing field without a default, and for a value of another type.
    """
    what = what or shape.__name__.lower()
    told = Fields.of(value, what).values
    given = {}
    # A type is hashable, which mypy does not see where its instances say how they are hashed.
    for name, (kind, needed) in _describe_fields(shape).items():  # type: ignore[arg-type]
        if name in told:
            given[name] = _read_value(kind, told[name], f"{what}.{name}")
        elif needed:
            raise InvalidAnswerError(f"{what}: {name} is missing")
    return shape(**given)


@cache
def _describe_fields(shape: type[Shape]) -> Mapping[str, tuple[Any, bool]]:
    """Return the type of each field of a shape, and whether an answer must have it."""
    hints = get_type_hints(shape)
    return {
        one.name: (hints[one.name], one.default is MISSING and one.default_factory is MISSING)
        for one in fields(shape)  # type: ignore[arg-type]  # every shape is a dataclass
    }


def _read_value(kind: Any, value: object, what: str) -> Any:
    """Return a JSON value as one of this type. Raises InvalidAnswerError, which does not show the value."""
    origin, of = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):  # of a Literal and None it is the older one
        return None if value is None and NoneType in of else _read_value(of[0], value, what)
    if origin is tuple and isinstance(value, list):
        return tuple(_read_value(of[0], one, what) for one in value)
    if origin is Mapping and isinstance(value, dict):
        return {str(name): _read_value(of[1], one, what) for name, one in value.items()}
    if isinstance(kind, type) and issubclass(kind, Shape):
        return read_shape(kind, value, what)
    # A newer service may have another word than those of a Literal or an enumeration.
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        kind = type(of[0]) if of else str
    return value if kind is Any else _read_scalar(kind, value, what)


def _read_scalar(kind: Any, value: object, what: str) -> Any:
    if isinstance(value, str) and kind in _FROM_TEXT:
        return _FROM_TEXT[kind](value, what)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise InvalidAnswerError(f"{what} is not of type {getattr(kind, '__name__', kind)}")
    return value


def _read_moment(text: str, what: str) -> datetime:
    try:
        return parse_zoned(text)
    except ValueError:
        raise InvalidAnswerError(f"{what} is not a time with a zone") from None


def _read_id(text: str, what: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidAnswerError(f"{what} is not an id") from None


_FROM_TEXT: Mapping[type, Callable[[str, str], Any]] = {datetime: _read_moment, UUID: _read_id}
