"""Schemas of tools are whole: what a reference names stands in its place."""

from datetime import datetime
from typing import Any
from uuid import UUID

import jsonschema
from pydantic import BaseModel, Field

from producers.mcp.tool_schemas import describe_answer, describe_arguments


class Leaf(BaseModel):
    made: UUID
    at: datetime
    format: str = Field("plain", description="a field of this name")


class Tree(BaseModel):
    leaves: list[Leaf] = Field(description="its leaves")
    first: Leaf | None = None
    inner: list["Tree"] = Field(default_factory=list)


def test_references_are_replaced_and_a_model_within_itself_is_an_object() -> None:
    for describe in (describe_arguments, describe_answer):
        schema = describe(Tree)
        text = str(schema)
        assert not [sign for sign in ("$ref", "$defs", "'format': 'uuid'") if sign in text]
        assert "'format': 'date-time'" in text
        leaf: dict[str, Any] = schema["properties"]["leaves"]["items"]["properties"]
        assert leaf["format"]["default"] == "plain"
    assert ("its leaves" in str(describe_arguments(Tree)), "its leaves" in str(describe_answer(Tree))) == (True, False)


def test_what_the_model_takes_its_schema_takes() -> None:
    leaf = Leaf(made=UUID(int=7), at=datetime(2026, 3, 2))  # noqa: DTZ001 - any time
    tree = Tree(leaves=[leaf], first=leaf, inner=[Tree(leaves=[])])
    jsonschema.validate(tree.model_dump(mode="json"), describe_answer(Tree))  # type: ignore[no-untyped-call]
