"""Expressions of the alert rules as this service can judge them: a small part of PromQL over its own samples. Pure.

Covered are selectors, `sum`, `min` and `max`, `rate` and `increase`, `histogram_quantile`, the operators that the rules
use, and recording rules by name. What is not, such as a window that is longer than the samples are kept, is Unjudged.
"""

import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: A vector: each value by its labels.
Labels = frozenset[tuple[str, str]]
Vector = Mapping[Labels, float]
#: All samples of a moment: each vector by the name of its metric.
Samples = Mapping[str, Vector]

#: Seconds that samples are kept, and so the longest window of a rate.
LONGEST_WINDOW_S = 86_400.0
TOKEN = re.compile(
    r'\s*(?:(?P<number>\d+(?:\.\d+)?)(?P<unit>[smhd]?)|(?P<name>[a-zA-Z_:][\w:]*)|(?P<text>"[^"]*")|(?P<mark>=~|!~|==|!=|>=|<=|[-/(){}\[\],=<>]))'
)
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
AGGREGATIONS: Mapping[str, Callable[[Iterable[float]], float]] = {"sum": sum, "min": min, "max": max}
MATCHES: Mapping[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "=~": lambda value, pattern: re.fullmatch(pattern, value) is not None,
    "!~": lambda value, pattern: re.fullmatch(pattern, value) is None,
}
NO_LABELS: Labels = frozenset()


class Unjudged(Exception):
    """The expression is not covered, or its samples are not there."""


class Token(NamedTuple):
    """A piece of an expression, and its kind: number, name, text or mark; "" at the end."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Moment:
    """Samples, and when they were read, in seconds of the monotonic clock."""

    at: float
    samples: Samples


@dataclass(frozen=True, slots=True)
class History:
    """The samples that are kept, the oldest first; the last is now. `records` are recording rules by name."""

    moments: Sequence[Moment]
    records: Mapping[str, str]

    def evaluate(self, expression: str) -> Vector:
        """Return the vector of an expression: of a condition, what it holds for. Raises Unjudged."""
        return _Evaluation(self, expression).run()


def _split(expression: str) -> list[Token]:
    tokens, place = [], 0
    while place < len(expression):
        found = TOKEN.match(expression, place)
        if found is None:
            raise Unjudged(expression)
        kind = found.lastgroup if found.lastgroup != "unit" else "number"
        tokens.append(Token(kind or "", found[0].strip()))
        place = found.end()
    return [*tokens, Token("", "")]


class _Evaluation:
    """Evaluates an expression while it reads it, from the left."""

    def __init__(self, history: History, expression: str) -> None:
        self._history = history
        self._tokens = _split(expression)
        self._place = 0

    def run(self) -> Vector:
        found = self._any()
        if self._next.kind:
            raise Unjudged(self._next.text)
        return found

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _take(self) -> Token:
        token = self._next
        self._place += 1
        return token

    def _skip(self, text: str) -> bool:
        if self._next.text != text:
            return False
        self._place += 1
        return True

    def _require(self, text: str) -> None:
        if not self._skip(text):
            raise Unjudged(f"{self._next.text} for {text}")

    def _any(self) -> Vector:
        found = self._all()
        while self._skip("or"):
            found = {**self._all(), **found}
        return found

    def _all(self) -> Vector:
        found = self._compared()
        while self._skip("and"):
            other = self._compared()
            found = {labels: value for labels, value in found.items() if labels in other}
        return found

    def _compared(self) -> Vector:
        found = self._computed()
        compare = COMPARISONS.get(self._next.text)
        if compare is None:
            return found
        self._take()
        least = self._number()
        return {labels: value for labels, value in found.items() if compare(value, least)}

    def _computed(self) -> Vector:
        found = self._divided()
        while self._skip("-"):
            found = _compute(operator.sub, found, self._divided())
        return found

    def _divided(self) -> Vector:
        found = self._term()
        while self._skip("/"):
            found = _compute(_divide, found, self._term())
        return found

    def _term(self) -> Vector:
        if self._next.kind == "number":
            return {NO_LABELS: self._number()}
        if self._skip("("):
            found = self._any()
            self._require(")")
            return found
        kind, name = self._take()
        if kind != "name":
            raise Unjudged(name)
        if name in AGGREGATIONS:
            return self._aggregate(AGGREGATIONS[name])
        if name in {"rate", "increase"}:
            return self._rise(per_second=name == "rate")
        return self._quantile() if name == "histogram_quantile" else self._read(name)

    def _read(self, name: str) -> Vector:
        if name in self._history.records:
            return self._history.evaluate(self._history.records[name])
        return self._select(self._history.moments[-1].samples, name, self._matchers())

    def _number(self) -> float:
        token = self._take()
        if token.kind != "number":
            raise Unjudged(token.text)
        return float(token.text)

    def _names(self) -> frozenset[str]:
        self._require("(")
        names = set[str]()
        while not self._skip(")"):
            names.add(self._take().text)
            self._skip(",")
        return frozenset(names)

    def _aggregate(self, reduce: Callable[[Iterable[float]], float]) -> Vector:
        by = self._names() if self._skip("by") else frozenset[str]()
        self._require("(")
        inner = self._any()
        self._require(")")
        groups: defaultdict[Labels, list[float]] = defaultdict(list)
        for labels, value in inner.items():
            groups[frozenset(one for one in labels if one[0] in by)].append(value)
        return {labels: reduce(values) for labels, values in groups.items()}

    def _matchers(self) -> Sequence[tuple[str, str, str]]:
        found = []
        if self._skip("{"):
            while not self._skip("}"):
                label, how, value = self._take().text, self._take().text, self._take().text
                found.append((label, how, value.strip('"')))
                self._skip(",")
        return found

    @staticmethod
    def _select(samples: Samples, name: str, matchers: Sequence[tuple[str, str, str]]) -> Vector:
        if name not in samples:
            raise Unjudged(name)
        return {
            labels: value
            for labels, value in samples[name].items()
            if all(MATCHES[how](dict(labels).get(label, ""), wanted) for label, how, wanted in matchers)
        }

    def _rise(self, *, per_second: bool) -> Vector:
        self._require("(")
        name, matchers = self._take().text, self._matchers()
        self._require("[")
        window = self._take().text
        self._require("]")
        self._require(")")
        length = float(window[:-1]) * UNITS[window[-1]]
        if length > LONGEST_WINDOW_S:
            raise Unjudged(f"{name}[{window}]")
        now = self._history.moments[-1]
        since = next(one for one in self._history.moments if now.at - one.at <= length)
        before = self._select(since.samples, name, matchers) if name in since.samples else {}
        passed = now.at - since.at
        share = (1 / passed if passed else 0.0) if per_second else 1.0
        found = self._select(now.samples, name, matchers)
        return {labels: max(0.0, value - before.get(labels, 0.0)) * share for labels, value in found.items()}

    def _quantile(self) -> Vector:
        self._require("(")
        share = self._number()
        self._require(",")
        inner = self._any()
        self._require(")")
        groups: defaultdict[Labels, dict[float, float]] = defaultdict(dict)
        for labels, value in inner.items():
            most = float(dict(labels)["le"])
            groups[frozenset(one for one in labels if one[0] != "le")][most] = value
        found = {labels: find_quantile(buckets, share) for labels, buckets in groups.items()}
        return {labels: value for labels, value in found.items() if value is not None}


def _compute(compute: Callable[[float, float], float], one: Vector, other: Vector) -> Vector:
    """Return what is computed of values of the same labels; a number counts as one of each of the other's labels."""
    spread = dict.fromkeys(other, one[NO_LABELS]) if set(one) == {NO_LABELS} else one
    return {labels: compute(value, other[labels]) for labels, value in spread.items() if labels in other}


def _divide(one: float, other: float) -> float:
    """Return a quotient; by nothing it is no number, of which no comparison is true."""
    return one / other if other else math.nan


def find_quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """Return the value that this share of a histogram had at most, within its bucket by proportion.

    None where nothing is counted. What is beyond the largest bucket counts as that.
    """
    whole = max(buckets.values(), default=0.0)
    if not whole:
        return None
    below, least = 0.0, 0.0
    for most, count in sorted(buckets.items()):
        if count >= share * whole:
            inside = count - below
            return least if most == float("inf") else least + (most - least) * ((share * whole - below) / inside)
        below, least = count, most
    return least
