"""Reads the body of a call: a JSON value becomes its model, or an error names every broken rule."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from producers.errors import FieldProblem, Invalid

#: Wrong fields of a request that are told one by one.
MOST_PROBLEMS = 100

B = TypeVar("B", bound=BaseModel)


def parse_body(model: type[B], value: Any) -> B:
    """Return the JSON value as a body of this model. Raises Invalid with every broken rule, without values."""
    if not isinstance(value, dict):
        raise Invalid(FieldProblem("", "must be a JSON object"))
    try:
        return model.model_validate(value)
    except ValidationError as error:
        if (count := error.error_count()) > MOST_PROBLEMS:
            raise Invalid(
                FieldProblem(
                    "", f"has {count} wrong fields; at most {MOST_PROBLEMS} are listed: send fewer items in a call"
                )
            ) from None
        found = error.errors(include_url=False, include_context=False, include_input=False)
    raise Invalid(*(FieldProblem(_format_path(one["loc"]), one["msg"]) for one in found))


def _format_path(place: tuple[int | str, ...]) -> str:
    """Return a dotted path; names chosen by the sender are cut."""
    return ".".join(str(step)[:64].encode(errors="replace").decode() for step in place)
