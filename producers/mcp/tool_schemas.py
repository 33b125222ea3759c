"""Schemas of tools as every client takes them: whole, without references, titles and formats that some refuse."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

#: Formats that clients with strict checks of schemas know.
KNOWN_FORMATS = frozenset({"date-time"})
_PLACE = "#/$defs/"


class Untitled(GenerateJsonSchema):
    """A generator of schemas without titles of fields, which only fill an agent's context."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: no field gets a title."""
        del schema
        return False


def describe_arguments(model: type) -> dict[str, Any]:
    """Return the schema of a tool's arguments."""
    return _describe(model, "validation")


def describe_answer(model: type) -> dict[str, Any]:
    """Return the schema of an answer without its fields' descriptions, which would fill an agent's context."""
    schema = _describe(model, "serialization")
    _drop_descriptions(schema)
    return schema


def _describe(model: type, mode: JsonSchemaMode) -> dict[str, Any]:
    schema = TypeAdapter(model).json_schema(mode=mode, schema_generator=Untitled)
    whole: dict[str, Any] = _inline(schema, schema.get("$defs", {}), ())
    return whole


def _inline(schema: Any, parts: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    """Return a schema with its references replaced by what they name; one to what it stands in becomes any object."""
    if isinstance(schema, list):
        return [_inline(one, parts, within) for one in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix(_PLACE)
    if name in within:
        return {"type": "object"}
    if name:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _inline({**parts[name], **beside}, parts, (*within, name))
    return {
        key: _inline(value, parts, within)
        for key, value in schema.items()
        if key != "$defs" and not (key == "format" and isinstance(value, str) and value not in KNOWN_FORMATS)
    }


def _drop_descriptions(schema: Any) -> None:
    if isinstance(schema, list):
        for one in schema:
            _drop_descriptions(one)
    elif isinstance(schema, dict):
        for field in schema.get("properties", {}).values():
            field.pop("description", None)
        for one in schema.values():
            _drop_descriptions(one)
