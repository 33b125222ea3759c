"""Settings that have two names: `enrichment.*` are also the seed's `api.mcp.memory.heuristic.*`, with one value."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError

from deploy.settings_errors import SettingProblem, find_field


class _SecondName(NamedTuple):
    """A setting's second name; its value there is `scale` times that of the first."""

    second: str
    first: str
    scale: int = 1


_SEED, _OURS = "api.mcp.memory.heuristic", "enrichment"
SECOND_NAMES = (
    _SecondName(f"{_SEED}.enabled", f"{_OURS}.enabled"),
    _SecondName(f"{_SEED}.model", f"{_OURS}.model"),
    _SecondName(f"{_SEED}.base_url", f"{_OURS}.base_url"),
    _SecondName(f"{_SEED}.timeout_ms", f"{_OURS}.timeout_seconds", 1000),
    _SecondName(f"{_SEED}.max_output_tokens", f"{_OURS}.max_output_tokens"),
)


def unify_names(tree: type[BaseModel], merged: dict[str, Any], origins: dict[str, str]) -> list[SettingProblem]:
    """Give each setting that was set under one of its names the same value under the other.

    Changes both arguments. Returns a problem for each that was set under both with different values; an invalid value
    stays as it is, for the tree to refuse.
    """
    problems = []
    for name in SECOND_NAMES:
        found = {key: _read(tree, merged, key) for key in (name.first, name.second) if key in origins}
        if not found or None in found.values():
            continue
        first = found.get(name.first, _divide(found.get(name.second), name.scale))
        second = found.get(name.second, _multiply(first, name.scale))
        if second != _multiply(first, name.scale):
            why = f"differs from {name.first}, which is the same setting; set one of them"
            problems.append(SettingProblem(name.second, why, origins[name.second]))
            continue
        origin = origins.get(name.first) or origins[name.second]
        for key, value in ((name.first, first), (name.second, second)):
            if key not in origins:
                _put(merged, key, value)
                origins[key] = origin
    return problems


def _multiply(value: Any, scale: int) -> Any:
    return value if scale == 1 else max(1, round(value * scale))


def _divide(value: Any, scale: int) -> Any:
    return value if scale == 1 or value is None else value / scale


def _read(tree: type[BaseModel], merged: Mapping[str, Any], key: str) -> Any:
    """Return the parsed value of a setting, None for one that is invalid."""
    field, value = find_field(tree, key.split(".")), merged
    for part in key.split("."):
        value = value[part]
    if field is None or field.annotation is None:
        return None
    try:
        return TypeAdapter(field.annotation).validate_python(value)
    except ValidationError:
        return None


def _put(merged: dict[str, Any], key: str, value: Any) -> None:
    *above, last = key.split(".")
    below: Any = merged
    for part in above:
        below = below.setdefault(part, {})
        if not isinstance(below, dict):
            return
    below[last] = value
