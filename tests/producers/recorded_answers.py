"""The recorded bytes of every operation's answer: names in their order, and the kind of each value.

Values differ from run to run, so each is written as its kind: an id, a time as it is written, a text, a number. A list
is written as one item that stands for all. `AFTERTURN_RECORD=1 pytest tests/producers/http/test_openapi.py` adds new
names and kinds to the record; remove by hand what is no longer answered.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import orjson

RECORD = Path(__file__).parent / "recorded_answers.json"
ANY_OF, TEXT, NULL = "any of", "text", "NoneType"
KINDS = {
    "id": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "hex id": re.compile(r"[0-9a-f]{32}"),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00"),
    "other time": re.compile(r"\d{4}-\d\d-\d\dT.*"),
}


def describe_answers(bodies: Sequence[bytes]) -> Any:
    """Return the names and kinds of an operation's JSON answers. Raises AssertionError for one with other spaces."""
    values = [orjson.loads(body) for body in bodies]
    for value, body in zip(values, bodies, strict=True):
        assert orjson.dumps(value) == body, f"{body!r}: an answer is written in UTF-8 without spaces"
    return reduce(_merge, map(_describe, values))


def _describe(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _describe(one) for name, one in value.items()}
    if isinstance(value, list):
        return [reduce(_merge, map(_describe, value))] if value else []
    if isinstance(value, str):
        return next((kind for kind, form in KINDS.items() if form.fullmatch(value)), TEXT)
    return type(value).__name__


def _merge(one: Any, other: Any) -> Any:
    """Return the description of either: of objects every name, of lists their items, of values all their kinds."""
    if type(one) is type(other) is dict and not _kinds(one)[1:] and not _kinds(other)[1:]:
        return dict(_merge_names(one, other))
    if type(one) is type(other) is list:
        return [reduce(_merge, [*one, *other])] if one or other else []
    found = [*_kinds(one), *(kind for kind in _kinds(other) if kind not in _kinds(one))]
    return {ANY_OF: found} if len(found) > 1 else found[0]


def _merge_names(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names of both in their order; one that is not in both may be left out, which `?` says."""
    there = {name.rstrip("?"): value for name, value in other.items()}
    for name, value in one.items():
        plain = name.rstrip("?")
        told = _merge(value, there[plain]) if plain in there else value
        yield (name if name in other else f"{plain}?"), told
    known = {name.rstrip("?") for name in one}
    yield from ((f"{name}?", value) for name, value in there.items() if name not in known)


def _kinds(described: Any) -> list[Any]:
    """Return the kinds that a description allows."""
    return list(described[ANY_OF]) if isinstance(described, dict) and ANY_OF in described else [described]


def find_changes(recorded: Any, answered: Any, path: str = "") -> Iterator[str]:
    """Yield where an answer is not as it was recorded."""
    for one in _kinds(answered):
        told = [kind for kind in _kinds(recorded) if kind not in (NULL, {}, [])]
        fitting = [kind for kind in told if _fits(kind, one)]
        if one in (NULL, {}, []) or not told:
            continue  # the schema says where these may be
        if not fitting:
            yield f"{path}: {one} where {recorded} was recorded"
        elif isinstance(one, dict) and isinstance(fitting[0], dict):
            there = {name.rstrip("?"): value for name, value in fitting[0].items()}
            for name, value in one.items():
                yield from find_changes(there[name.rstrip("?")], value, f"{path}.{name}")
        elif isinstance(one, list) and isinstance(fitting[0], list):
            yield from find_changes(fitting[0][0], one[0], f"{path}[]")


def _fits(recorded: Any, answered: Any) -> bool:
    if isinstance(recorded, dict) and isinstance(answered, dict):
        names = [name.rstrip("?") for name in answered]
        plain = [name.rstrip("?") for name in recorded]
        needed = {name for name in recorded if not name.endswith("?")}
        return needed <= set(answered) and names == [name for name in plain if name in names]
    texts = recorded == TEXT and isinstance(answered, str) and answered in {*KINDS, TEXT}
    return texts or recorded == answered or type(recorded) is type(answered) is list


def read_record() -> dict[str, Any]:
    """Return the record: a description of each operation's answers, by its name and status."""
    return dict(json.loads(RECORD.read_text())) if RECORD.exists() else {}


def compare_answers(answered: Mapping[str, Any]) -> list[str]:
    """Return where the answers of operations differ from the record."""
    recorded = read_record()
    if os.environ.get("AFTERTURN_RECORD"):
        new = {name: _merge(recorded.get(name, one), one) for name, one in answered.items()}
        recorded |= new
        lines = (f" {json.dumps(name)}: {json.dumps(one)}" for name, one in sorted(recorded.items()))
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    changes = [f"{name}: is not recorded" for name in answered if name not in recorded]
    changes += [f"{name}: is recorded and was not answered" for name in recorded if name not in answered]
    both = [name for name in answered if name in recorded]
    return changes + [f"{name}{change}" for name in both for change in find_changes(recorded[name], answered[name])]
