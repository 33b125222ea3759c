"""A plugin with every capability, built on the flat one, whose store can be taken away: mutants are made of it."""

import math
import re
from datetime import UTC, datetime
from pathlib import Path

from producers.contract_kit.flat_plugin import (
    Body,
    FlatHandler,
    FlatStore,
    PluginError,
    bad_request,
    optional_object,
)
from producers.contract_kit.wire import is_number, parse_instant

_WORD = re.compile(r"\w+")


class ReferenceStore(FlatStore):
    """Adds embedding, fts, ttl, pin and propagation. The store is away for as long as the file `away` exists."""

    capabilities: tuple[str, ...] = ("embedding", "fts", "ttl", "pin", "propagation")

    def __init__(self, away: Path) -> None:
        super().__init__()
        self.away = away

    def namespace_fields(self, body: Body) -> Body:
        return super().namespace_fields(body) | optional_time(body)

    def memory_fields(self, body: Body) -> Body:
        if not isinstance(body.get("pin", False), bool):
            raise bad_request("pin must be true or false")
        optional = optional_object(body, "propagation") | optional_time(body)
        return super().memory_fields(body) | optional | {"pin": body.get("pin") or None, "embedding": vector(body)}

    def ranked(self, found: list[Body], body: Body) -> list[Body]:
        near, query = vector(body), body.get("query", "").strip()
        alive = [one | {"embedding": None, "vector": one["embedding"]} for one in found if self.is_alive(one)]
        if near:
            alive = [one | {"score": cosine(one["vector"], near)} for one in alive if self.is_comparable(one, near)]
        elif len(query.encode()) > 1:
            alive = [one | {"score": score} for one in alive if (score := self.text_score(one["content"], query))]
        elif query:
            alive = [one for one in alive if self.has_letter(one["content"], query)]
        ordered = self.ordered(alive, is_scored=bool(near or len(query.encode()) > 1))
        return [{name: value for name, value in one.items() if name != "vector"} for one in ordered]

    def ordered(self, found: list[Body], *, is_scored: bool) -> list[Body]:  # noqa: ARG002 - a mutant asks
        return sorted(
            found, key=lambda one: (bool(one["pin"]), one.get("score", 0), one["created_at"], one["id"]), reverse=True
        )

    def is_alive(self, memory: Body) -> bool:
        return not has_passed(memory.get("expires_at")) and self.is_namespace_alive(memory["namespace"])

    def is_namespace_alive(self, name: str) -> bool:
        return not has_passed(self.namespaces[name].get("expires_at"))

    def is_comparable(self, memory: Body, near: list[float]) -> bool:
        return memory["vector"] is not None and len(memory["vector"]) == len(near)

    def text_score(self, content: str, query: str) -> float:
        """Count the words of the query that the content has; letters beyond ASCII may be part of a longer word."""
        words = set(_WORD.findall(content.casefold()))
        asked = _WORD.findall(query.casefold())
        if not asked:
            return float(query in content)
        return sum(word in words or (not word.isascii() and word in content) for word in asked) / len(asked)

    def has_letter(self, content: str, letter: str) -> bool:
        return letter.casefold() in content.casefold()


class ReferenceHandler(FlatHandler):
    """Answers 503 while the store is away."""

    store: ReferenceStore

    def route(self) -> tuple[int, Body | None]:
        if self.store.away.exists():
            self.read_body()
            raise PluginError(503, "unavailable", "the store is away")
        return super().route()


def has_passed(time: object) -> bool:
    end = parse_instant(time)
    return end is not None and end <= datetime.now(UTC)


def optional_time(body: Body) -> Body:
    value = body.get("expires_at")
    if value is not None and parse_instant(value) is None:
        raise bad_request("expires_at must be a time in RFC 3339")
    return {"expires_at": value} if "expires_at" in body else {}


def vector(body: Body) -> list[float] | None:
    value = body.get("embedding") or None
    if value is None and body.get("embedding") in (None, []):
        return None
    if not isinstance(value, list) or not all(map(is_number, value)) or not any(value):
        raise bad_request("embedding must be a list of finite numbers, not all zero")
    return value


def cosine(one: list[float], other: list[float]) -> float:
    return sum(map(float.__mul__, map(float, one), map(float, other))) / (math.hypot(*one) * math.hypot(*other))
