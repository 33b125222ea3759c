"""The base of all shapes, and that of receipts."""

import ast
import inspect
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal


def _describe_fields(schema: dict[str, Any], shape: type["Shape"]) -> None:
    """Add the descriptions of the fields, once a schema is asked for: pydantic would read them at every import."""
    described = [base for base in shape.__mro__ if base is not Shape and issubclass(base, Shape)]
    for name, text in (one for base in described for one in _read_field_docs(base)):
        schema["properties"][name].setdefault("description", text)


def _read_field_docs(shape: type["Shape"]) -> list[tuple[str, str]]:
    """Return the fields that a class adds, each with the docstring below it."""
    (read,) = ast.parse(inspect.getsource(shape)).body
    return [
        (one.target.id, inspect.cleandoc(str(text.value.value)))
        for one, text in pairwise(read.body if isinstance(read, ast.ClassDef) else ())
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    ]


class Shape:
    """A value with the names of the wire; subclasses are dataclasses, frozen, with slots and named arguments.

    The service always answers every field; a default is what a reader takes where an older service leaves one out.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "json_schema_serialization_defaults_required": True,
        "json_schema_extra": _describe_fields,
    }


class SparseShape(Shape):
    """A shape of which the service leaves out the fields at their default."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        **Shape.__pydantic_config__,
        "json_schema_serialization_defaults_required": False,
    }


@dataclass(frozen=True, kw_only=True)
class Done(Shape):
    """The request is done. Without slots, so that a receipt may be of another shape too."""

    ok: Literal[True] = True
    """always true"""


def show_line(text: str) -> str:
    """Return a text as one line without characters that a terminal obeys."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
