"""The alerts of `deploy/prometheus` that would fire now, judged from this service's own samples, without Prometheus."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
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
#: Least seconds between two samples that are kept for rates.
KEPT_EVERY_S = 14.0
METRIC = re.compile(r"\b(?:rate|increase)\((\w+)")
LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
#: Alerts about processes that Prometheus scrapes: a reader of this page has reached one of them.
OF_SCRAPES = frozenset({"AfterturnApiDown", "AfterturnApiPartlyDown", "AfterturnWorkersDown"})


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
    """Return the alerts in the order of their file, without those about scrapes."""
    return [
        AlertRule(
            name=rule["alert"],
            condition=rule["expr"],
            holds_for=timedelta(seconds=float(rule["for"][:-1]) * UNITS[rule["for"][-1]]),
            severity=rule["labels"]["severity"],
            summary=rule["annotations"]["summary"],
        )
        for rule in _read_rules("alerts.yml")
        if rule["alert"] not in OF_SCRAPES
    ]


def read_records() -> Mapping[str, str]:
    """Return the recording rules: each expression by its name."""
    return {rule["record"]: rule["expr"] for rule in _read_rules("recording.yml")}


def _read_rules(name: str) -> Iterator[dict[str, Any]]:
    read = yaml.safe_load((RULES / name).read_text(encoding="utf-8"))
    return (rule for group in read["groups"] for rule in group["rules"])


class Alerts:
    """Judges the alerts at each reading of the samples. Belongs to one event loop."""

    def __init__(self) -> None:
        """Read the rules."""
        self._rules = read_alert_rules()
        self._records = read_records()
        texts = [*self._records.values(), *(rule.condition for rule in self._rules)]
        self._of_rates = frozenset(METRIC.findall("\n".join(texts)))
        self._kept: deque[Moment] = deque()
        self._since: dict[tuple[str, Labels], datetime] = {}

    def judge(self, metrics: Iterable[Metric], read_at: float, now: datetime) -> Sequence[Alert]:
        """Return the alerts whose conditions hold, those that fire first. `read_at`: seconds of the monotonic clock."""
        moment = Moment(read_at, gather_samples(metrics))
        history = History([*self._kept, moment], self._records)
        self._keep(moment)
        holding = [(rule, labels) for rule in self._rules for labels in _find_holding(history, rule)]
        self._since = {(rule.name, labels): self._since.get((rule.name, labels), now) for rule, labels in holding}
        found = [rule.describe(labels, self._since[rule.name, labels], now) for rule, labels in holding]
        return sorted(found, key=lambda one: (not one.firing, one.severity))

    def _keep(self, moment: Moment) -> None:
        """Keep what rates are made of, of as long as their windows are."""
        if self._kept and moment.at - self._kept[-1].at < KEPT_EVERY_S:
            return
        counters = {name: vector for name, vector in moment.samples.items() if name in self._of_rates}
        self._kept.append(Moment(moment.at, counters))
        while moment.at - self._kept[0].at > LONGEST_WINDOW_S:
            self._kept.popleft()


def _find_holding(history: History, rule: AlertRule) -> Vector:
    """Return for what a condition holds; nothing where it cannot be judged here."""
    try:
        return history.evaluate(rule.condition)
    except Unjudged:
        return {}


def gather_samples(metrics: Iterable[Metric]) -> Samples:
    """Return the samples by metric and labels."""
    found: dict[str, dict[Labels, float]] = {}
    for metric in metrics:
        for name, labels, value, *_ in metric.samples:
            found.setdefault(name, {})[frozenset(labels.items())] = value
    return found
