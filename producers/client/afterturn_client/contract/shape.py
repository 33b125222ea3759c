"""The base of all shapes."""

from typing import Any, ClassVar


class Shape:
    """A value with the names of the wire; subclasses are dataclasses, frozen, with slots and named arguments.

    The service always answers every field; a default is what a reader takes where an older service leaves one out.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "use_attribute_docstrings": True,
        "json_schema_serialization_defaults_required": True,
    }
