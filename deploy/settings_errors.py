"""Describes invalid settings: key, problem and allowed values, never the value.

SettingsError   one or more settings cannot be used; `problems` names each
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One invalid setting: its dotted `key`, `origin` (file or variable), and `allowed` (a range, or '')."""

    key: str
    problem: str
    origin: str = ""
    allowed: str = ""

    def __str__(self) -> str:
        place = f" ({self.origin})" if self.origin else ""
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{self.key}{place}: {self.problem}{allowed}"


class SettingsError(Exception):
    """One or more settings cannot be used."""

    def __init__(self, problems: tuple[SettingProblem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def explain_errors(
    model: type[BaseModel], error: ValidationError, origins: Mapping[str, str]
) -> Iterator[SettingProblem]:
    """Yield a problem for each of pydantic's errors, without the values that these hold."""
    for detail in error.errors(include_url=False, include_input=False):
        names = [str(part) for part in detail["loc"]]
        key = ".".join(names)
        origin = origins.get(key) or _find_origin_below(key, origins)
        field = find_field(model, names)
        if detail["type"] == "extra_forbidden":
            yield SettingProblem(key, "there is no such setting" + _suggest_name(model, names), origin)
        elif detail["type"] in {"model_type", "dict_type"}:
            yield SettingProblem(key, "must be a mapping of settings", origin)
        elif field is None or is_section(field):
            yield SettingProblem(key, detail["msg"].removeprefix("Value error, "), origin)
        else:
            yield SettingProblem(
                key, _redact_message(detail["type"], detail["msg"]), origin, describe_allowed_values(field)
            )


def describe_allowed_values(field: FieldInfo) -> str:
    """Return the values a field accepts, as text: `1..64`, `one of off, self, url`, or ''."""
    choices = _list_choices(field.annotation)
    if choices:
        return "one of " + ", ".join(choices)
    parts = [text for rule in field.metadata if (text := _describe_rule(rule))]
    low, high = _find_bound(field, "ge"), _find_bound(field, "le")
    if low is not None and high is not None:
        rest = [text for text in parts if not text.startswith((">= ", "<= "))]
        return ", ".join([f"{low}..{high}", *rest])
    return ", ".join(parts)


def find_field(model: type[BaseModel], names: Sequence[str]) -> FieldInfo | None:
    """Return the field with this dotted key, or None."""
    field = model.model_fields.get(names[0]) if names else None
    if field is None or len(names) == 1:
        return field
    annotation = field.annotation
    return find_field(annotation, names[1:]) if is_section(field) and isinstance(annotation, type) else None


def is_section(field: FieldInfo) -> bool:
    """Return whether the field is a section of the tree and not a single setting."""
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _redact_message(kind: str, message: str) -> str:
    """Return pydantic's message if it cannot contain the value, else a general one."""
    return "is not of the form it must have" if kind in {"value_error", "assertion_error"} else message


def _list_choices(annotation: Any) -> list[str]:
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(member.value) for member in annotation]
    return [str(value) for value in get_args(annotation)] if get_origin(annotation) is Literal else []


def _describe_rule(rule: object) -> str:
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    for name, sign in signs.items():
        if getattr(rule, name, None) is not None:
            return f"{sign} {getattr(rule, name)}"
    if getattr(rule, "min_length", None) is not None:
        return f"at least {rule.min_length} characters"  # type: ignore[attr-defined]  # asked a line above
    if getattr(rule, "max_length", None) is not None:
        return f"at most {rule.max_length} characters"  # type: ignore[attr-defined]  # asked a line above
    pattern = getattr(rule, "pattern", None)
    return f"matching {pattern}" if pattern else ""


def _find_bound(field: FieldInfo, name: str) -> Any:
    bounds = (getattr(rule, name, None) for rule in field.metadata)
    return next((bound for bound in bounds if bound is not None), None)


def _suggest_name(model: type[BaseModel], names: Sequence[str]) -> str:
    parent = find_field(model, names[:-1]) if len(names) > 1 else None
    siblings: Iterable[str] = model.model_fields
    if parent is not None and isinstance(parent.annotation, type) and is_section(parent):
        siblings = parent.annotation.model_fields
    close = difflib.get_close_matches(names[-1], list(siblings), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _find_origin_below(key: str, origins: Mapping[str, str]) -> str:
    return next((origin for name, origin in origins.items() if name.startswith(f"{key}.")), "")
