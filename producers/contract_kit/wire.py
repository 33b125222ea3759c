"""Checks names, codes, times and JSON by contract v1. Pure rules."""

import json
import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

#: The contract that the kit judges by; GUIDE.md has its changelog.
CONTRACT = "1.0.0"
CAPABILITIES = ("embedding", "fts", "ttl", "pin", "propagation")
NAMESPACE_KINDS = ("workspace", "team", "org", "custom")
MEMORY_KINDS = ("fact", "summary", "checkpoint")
SOURCES = ("agent", "runtime", "user")
CODES = ("bad_request", "not_found", "forbidden", "internal", "unavailable")
#: Bytes; what a namespace may be called, at most.
LONGEST_NAME = 256
LARGEST_LIMIT = 100
DEFAULT_LIMIT = 20

NAME = re.compile(r"[a-z]+:[A-Za-z0-9_:.\-]+")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)

#: A JSON value as a plugin sent it; cases look at the wire itself, so nothing is converted.
Wire = Mapping[str, Any]


def parse_json(raw: bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, also for NaN and Infinity, which are not JSON."""
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_text(value: object) -> bool:
    """Return whether a value is a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def is_number(value: object) -> bool:
    """Return whether a value is a finite JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def parse_instant(value: object) -> datetime | None:
    """Return the instant that an RFC 3339 text names, to the microsecond; None for anything else."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value.upper())
    except ValueError:
        return None


def same_json(one: object, other: object) -> bool:
    """Return whether two JSON values are equal: 1 and 1.0 are, 1 and true are not, in any order of keys."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def health_problem(value: object) -> str | None:
    """Return the problem of a HealthResponse; None when it fits the contract."""
    if not isinstance(value, dict):
        return "the body is no JSON object"
    if value.get("status") not in {"ok", "degraded"}:
        return "`status` is neither ok nor degraded"
    if not isinstance(value.get("version"), str) or not value["version"].startswith("1."):
        return "`version` is no revision of contract 1"
    if not isinstance(value.get("capabilities") or [], list) or not all(
        isinstance(one, str) for one in value.get("capabilities") or []
    ):
        return "`capabilities` is no list of strings"
    return None if "capabilities" in value else "`capabilities` is missing"


def error_problem(value: object) -> str | None:
    """Return the problem of an Error body; None when it fits the contract."""
    if not isinstance(value, dict):
        return "the body is no JSON object"
    if value.get("code") not in CODES:
        return f"`code` is none of {', '.join(CODES)}"
    if not is_text(value.get("message")):
        return "`message` is no text"
    return None if isinstance(value.get("details"), dict | None) else "`details` is no object"


def memory_problem(value: object) -> str | None:
    """Return the problem of a Memory; None when it fits the contract."""
    if not isinstance(value, dict):
        return "a memory is no JSON object"
    for name in ("id", "namespace", "content"):
        if not is_text(value.get(name)):
            return f"`{name}` is no text"
    if value.get("kind") not in MEMORY_KINDS:
        return f"`kind` is none of {', '.join(MEMORY_KINDS)}"
    if value.get("source") not in SOURCES:
        return f"`source` is none of {', '.join(SOURCES)}"
    if parse_instant(value.get("created_at")) is None:
        return "`created_at` is no RFC 3339 time"
    return _optional_problem(value)


def _optional_problem(memory: Wire) -> str | None:
    """Return the problem of a Memory's optional fields; None when they fit the contract."""
    if memory.get("expires_at") is not None and parse_instant(memory["expires_at"]) is None:
        return "`expires_at` is no RFC 3339 time"
    if not isinstance(memory.get("pin"), bool | None):
        return "`pin` is no boolean"
    if memory.get("score") is not None and not is_number(memory["score"]):
        return "`score` is no number"
    return None if isinstance(memory.get("propagation"), dict | None) else "`propagation` is no object"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def is_uuid(value: object) -> bool:
    """Return whether a value is written as a UUID."""
    try:
        UUID(str(value))
    except ValueError:
        return False
    return True
