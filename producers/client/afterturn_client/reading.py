"""Typed reads of a JSON object: a missing or wrong field is an error that names it, never its value."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from afterturn_client.contract.shape import Shape
from afterturn_client.errors import InvalidAnswerError
from afterturn_client.moments import parse_zoned

T = TypeVar("T")
S = TypeVar("S", bound=Shape)
#: Reads a JSON value; the text names it in errors.
Reader = Callable[[object, str], Any]


def read_object(value: object, what: str) -> Mapping[str, Any]:
    """Return a JSON object, which `what` names in errors. Raises InvalidAnswerError for anything else."""
    if not isinstance(value, dict):
        raise InvalidAnswerError(f"{what}: expected an object")
    return value


def read_value(kind: type[T], value: object, what: str) -> T:
    """Return a JSON value of just this type. Raises InvalidAnswerError, which shows no value."""
    if type(value) is not kind:
        raise InvalidAnswerError(f"{what} is not of type {kind.__name__}")
    return value


def read_shape(shape: type[S], value: object, what: str = "") -> S:
    """Return an answer as its shape of the contract; `what` names it in errors. Names that it has not are ignored.

    Raises InvalidAnswerError for a missing field without a default, and for a value of another type.
    """
    # A type is hashable, which mypy does not see where its instances say how they are hashed.
    found: S = _make_shape_reader(shape)(value, what or shape.__name__.lower())  # type: ignore[arg-type]
    return found


@cache
def _make_shape_reader(shape: type[Shape]) -> Reader:
    """Return the function that reads a shape: made once, since a type is slow to look into."""
    hints = get_type_hints(shape)
    known = [
        (one.name, _make_reader(hints[one.name]), one.default is MISSING and one.default_factory is MISSING)
        for one in fields(shape)  # type: ignore[arg-type]  # every shape is a dataclass
    ]

    def read(value: object, what: str) -> Shape:
        told = read_object(value, what)
        given = {}
        for name, read_one, needed in known:
            if name in told:
                given[name] = read_one(told[name], f"{what}.{name}")
            elif needed:
                raise InvalidAnswerError(f"{what}: {name} is missing")
        return shape(**given)

    return read


def _make_reader(kind: Any) -> Reader:
    """Return the function that reads a JSON value as one of this type; its errors do not show the value."""
    origin, of = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):  # of a Literal and None it is the older one
        return _or_none(_make_reader(of[0])) if NoneType in of else _make_reader(of[0])
    if origin is tuple:
        return _read_all(_make_reader(of[0]))
    if origin is Mapping:
        return _read_each(_make_reader(of[1]))
    if kind is Any:
        return lambda value, _: value
    if isinstance(kind, type) and issubclass(kind, Shape):
        return partial(read_shape, kind)  # looked up when it is read, since a shape may be part of itself
    # A newer service may have another word than those of a Literal or an enumeration.
    if origin is Literal or issubclass(kind, StrEnum):
        kind = type(of[0]) if of else str
    return _FROM_TEXT.get(kind) or _read_as(kind)


def _or_none(read: Reader) -> Reader:
    return lambda value, what: None if value is None else read(value, what)


def _read_all(read_one: Reader) -> Reader:
    def read(value: object, what: str) -> tuple[Any, ...]:
        return tuple([read_one(one, what) for one in read_value(list, value, what)])

    return read


def _read_each(read_one: Reader) -> Reader:
    def read(value: object, what: str) -> Mapping[str, Any]:
        return {name: read_one(one, what) for name, one in read_value(dict, value, what).items()}

    return read


def _read_as(kind: type) -> Reader:
    if kind is float:
        return lambda value, what: float(value) if type(value) is int else read_value(float, value, what)
    return lambda value, what: read_value(kind, value, what)


def _read_moment(value: object, what: str) -> datetime:
    try:
        return parse_zoned(read_value(str, value, what))
    except ValueError:
        raise InvalidAnswerError(f"{what} is not a time with a zone") from None


def _read_id(value: object, what: str) -> UUID:
    try:
        return UUID(read_value(str, value, what))
    except ValueError:
        raise InvalidAnswerError(f"{what} is not an id") from None


_FROM_TEXT: Mapping[type, Reader] = {datetime: _read_moment, UUID: _read_id}
