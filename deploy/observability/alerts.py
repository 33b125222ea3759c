"""The alerts of `deploy/prometheus` that would fire now, judged from this service's own samples, without Prometheus."""

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from afterturn_client.contract.figures import Alert
from prometheus_client.metrics_core import Metric

from deploy.observability.alert_rules import (
    LONGEST_WINDOW_S,
    UNITS,
    History,
    Labels,
    Moment,
    Samples,
    Unjudged,
    Vector,
)

RULES = Path(__file__).parents[1] / "prometheus"
#: Least seconds between two samples that are kept for rates, and the longest window that is made of these.
KEPT_EVERY_S, SHORT_WINDOW_S = 14.0, 900.0
#: Least seconds between two samples that are kept for longer windows: at most a twelfth of the shortest of them.
KEPT_LONG_EVERY_S = 300.0
#: A metric of which a rate is made, and its window.
RATE = re.compile(r"\b(?:rate|increase)\((\w+)(?:\{[^}]*\})?\[(\d+)([smhd])\]")
LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
#: What Prometheus says of the processes that it scrapes: alerts about it are its own to judge.
SCRAPED = re.compile(r"\bup\{")


@dataclass(frozen=True, slots=True)
class AlertRule:
    """An alert of the rules: it fires when its condition has held for so long."""

    name: str
    condition: str
    holds_for: timedelta
    severity: str
    summary: str

    def describe(self, labels: Labels, since: datetime, now: datetime) -> Alert:
        """Return the alert for what its condition holds for."""
        values = dict(labels)
        summary = LABEL.sub(lambda found: values.get(found[1], ""), self.summary)
        return Alert(
            name=self.name,
            severity=self.severity,
            summary=summary,
            since=since,
            firing=now - since >= self.holds_for,
        )


def read_alert_rules() -> list[AlertRule]:
    """Return the alerts that are judged here, in the order of their file."""
    return [
        AlertRule(
            name=rule["alert"],
            condition=rule["expr"],
            holds_for=timedelta(seconds=float(rule["for"][:-1]) * UNITS[rule["for"][-1]]),
            severity=rule["labels"]["severity"],
            summary=rule["annotations"]["summary"],
        )
        for rule in _read_rules("alerts.yml")
        if not SCRAPED.search(rule["expr"])
    ]


def list_unjudged() -> list[str]:
    """Return the names of the alerts that only Prometheus can judge: those about what it scrapes."""
    return [rule["alert"] for rule in _read_rules("alerts.yml") if SCRAPED.search(rule["expr"])]


def read_records() -> Mapping[str, str]:
    """Return the recording rules: each expression by its name."""
    return {rule["record"]: rule["expr"] for rule in _read_rules("recording.yml")}


@cache
def _read_rules(name: str) -> Sequence[Mapping[str, Any]]:
    read = yaml.safe_load((RULES / name).read_text(encoding="utf-8"))
    return [rule for group in read["groups"] for rule in group["rules"]]


class KeptMoments:
    """Samples of some metrics at intervals, the oldest first: what rates are made of."""

    def __init__(self, names: Collection[str], every_s: float, for_s: float) -> None:
        """Keep samples of these metrics, so far apart, for so long."""
        self.moments: deque[Moment] = deque()
        self._names, self._every_s, self._for_s = names, every_s, for_s

    def keep(self, moment: Moment) -> None:
        """Keep a moment if enough time has passed, and drop what is too old."""
        if self.moments and moment.at - self.moments[-1].at < self._every_s:
            return
        chosen = {name: vector for name, vector in moment.samples.items() if name in self._names}
        self.moments.append(Moment(moment.at, chosen))
        while moment.at - self.moments[0].at > self._for_s:
            self.moments.popleft()


class Alerts:
    """Judges the alerts at each reading of the samples. Belongs to one event loop."""

    def __init__(self) -> None:
        """Read the rules."""
        self._rules = read_alert_rules()
        self._records = read_records()
        windows = find_windows([*self._records.values(), *(rule.condition for rule in self._rules)])
        long = {name for name, window_s in windows.items() if window_s > SHORT_WINDOW_S}
        self._newer = KeptMoments(windows.keys(), KEPT_EVERY_S, SHORT_WINDOW_S)
        self._older = KeptMoments(long, KEPT_LONG_EVERY_S, LONGEST_WINDOW_S)
        self._since: dict[tuple[str, Labels], datetime] = {}
        #: Each set of labels once, however many moments have it.
        self._labels: dict[Labels, Labels] = {}

    def judge(self, metrics: Iterable[Metric], read_at: float, now: datetime) -> Sequence[Alert]:
        """Return the alerts whose conditions hold, those that fire first. `read_at`: seconds of the monotonic clock."""
        moment = Moment(read_at, gather_samples(metrics, self._labels))
        history = History([*self._list_kept(read_at), moment], self._records)
        self._newer.keep(moment)
        self._older.keep(moment)
        holding = [(rule, labels) for rule in self._rules for labels in _find_holding(history, rule)]
        self._since = {(rule.name, labels): self._since.get((rule.name, labels), now) for rule, labels in holding}
        found = [rule.describe(labels, self._since[rule.name, labels], now) for rule, labels in holding]
        return sorted(found, key=lambda one: (not one.firing, one.severity))

    def _list_kept(self, read_at: float) -> Iterator[Moment]:
        """Yield what is kept, the oldest first; no short window meets a moment that holds the long ones' alone."""
        yield from (one for one in self._older.moments if read_at - one.at > SHORT_WINDOW_S)
        yield from self._newer.moments


def find_windows(expressions: Iterable[str]) -> Mapping[str, float]:
    """Return the longest window in seconds that a rate of each metric has."""
    windows: dict[str, float] = {}
    for name, count, unit in RATE.findall("\n".join(expressions)):
        windows[name] = max(windows.get(name, 0.0), float(count) * UNITS[unit])
    return windows


def _find_holding(history: History, rule: AlertRule) -> Vector:
    """Return for what a condition holds; nothing where it cannot be judged here."""
    try:
        return history.evaluate(rule.condition)
    except Unjudged:
        return {}


def gather_samples(metrics: Iterable[Metric], known: dict[Labels, Labels] | None = None) -> Samples:
    """Return the samples by metric and labels. Sets of labels are those of `known`, where each is added once."""
    once = {} if known is None else known
    found: dict[str, dict[Labels, float]] = {}
    for metric in metrics:
        for name, labels, value, *_ in metric.samples:
            these = frozenset(labels.items())
            found.setdefault(name, {})[once.setdefault(these, these)] = value
    return found
