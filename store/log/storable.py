"""Checks texts and JSON values that PostgreSQL's jsonb can store and return unchanged.

Interfaces check their input by these rules, and events their data, so that everything that was accepted once can be
appended again. Pure. Errors never show the value.
"""

import math
import re
from typing import Any

import orjson
from pydantic_core import PydanticCustomError

#: Levels of lists and objects within a JSON value, the outermost not counted.
DEPTH_LIMIT = 64

_SURROGATE = re.compile("[\ud800-\udfff]")
#: jsonb stores a large float as an integer, which is read back as one below 2**64.
_INTEGERS = range(-(2**63), 2**64)


def check_text(text: str) -> str:
    """Return the text if PostgreSQL and JSON can hold it. Raises PydanticCustomError."""
    if "\x00" in text:
        raise PydanticCustomError("nul_character", "must not contain the NUL character")
    if not text.isascii() and _SURROGATE.search(text):
        raise PydanticCustomError("lone_surrogate", "must not contain lone surrogates")
    return text


def check_json(value: Any, levels: int = DEPTH_LIMIT) -> None:
    """Check a JSON value: finite numbers, integers of 64 bits, storable texts, at most `levels` deep.

    Raises PydanticCustomError.
    """
    if not _is_plainly_storable(value, levels):
        _check_each(value, levels)


def _is_plainly_storable(value: Any, levels: int) -> bool:
    """Return whether a value's JSON shows that it is storable; that of most does.

    The encoder refuses surrogates and integers past 64 bits, escapes the NUL character, and writes null for NaN.
    """
    try:
        told = orjson.dumps(value)
    except TypeError:
        return False
    return (
        (b"\\" not in told or b"\\u0000" not in told)
        and b"null" not in told
        and told.count(b"{") + told.count(b"[") <= levels
    )


def _check_each(value: Any, levels: int) -> None:
    if levels < 0:
        raise PydanticCustomError("nested_too_deeply", "must not be nested deeper than {limit}", {"limit": DEPTH_LIMIT})
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            check_text(str(name))
            _check_each(inner, levels - 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_each(inner, levels - 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError("not_finite", "must not contain NaN or infinity")
    elif isinstance(value, int) and value not in _INTEGERS:
        raise PydanticCustomError("integer_too_large", "must not contain integers past 64 bits")
