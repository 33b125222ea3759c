"""Figures of the service as operators watch them: what they are now, and what they were in the last hour."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from afterturn_client.contract.operators import Worker
from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSample(Shape):
    """The figures of one moment; rates and durations are of the time since the sample that was read before it."""

    at: datetime
    """time of the sample"""
    undone: Mapping[str, int] | None
    """rows of work that wait or run, by stage; stages without any are left out; null: the ledger was not read"""
    failed: Mapping[str, int] | None
    """rows that are dead or unknown, the same way"""
    oldest_s: Mapping[str, float] | None
    """age of the oldest undone row in seconds, the same way"""
    turns_per_s: float | None
    """turns accepted in a second; null: there is no sample before it"""
    recalls_per_s: float | None
    """recalls answered in a second, the same way"""
    recall_p50_ms: float | None
    """milliseconds that half of the recalls took at most; null: there was none"""
    recall_p95_ms: float | None
    """milliseconds that 95 of 100 recalls took at most; null: there was none"""
    done_per_s: Mapping[str, float]
    """rows that a stage settled in a second, by stage; stages without any are left out"""
    age_p95_s: Mapping[str, float]
    """seconds from a turn's acceptance to the end of a stage, of 95 of 100 rows at most, by stage, the same way"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(Shape):
    """An alert of `deploy/prometheus/alerts.yml` whose condition holds."""

    name: str
    """name of the alert; docs/runbook.md has a section for each"""
    severity: str
    """`page` or `ticket`"""
    summary: str
    """fault that it reports"""
    since: datetime
    """since when the process that answers has seen the condition hold"""
    firing: bool
    """whether it has held for as long as the alert waits; false: the alert would be pending"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureReport(Shape):
    """The newest figures, and the samples of the last hour, or those after a moment."""

    samples: tuple[FigureSample, ...]
    """samples, the oldest first; the last is the newest"""
    rows: Mapping[str, Mapping[str, int]]
    """undone and failed rows of work now, by stage and status; empty: the ledger was not read"""
    workers: tuple[Worker, ...]
    """worker processes now, the oldest first"""
    status: str
    """health now: `ready`, `degraded` or `failing`"""
    failing: Mapping[str, str]
    """parts that do not work, each with the reason"""
    reasons: tuple[str, ...]
    """why the service is degraded"""
    alerts: tuple[Alert, ...]
    """alerts that would fire or be pending, judged from the samples of this machine; those that fire first"""
    unjudged: tuple[str, ...] = ()
    """names of the alerts that only Prometheus can judge: those about the processes that it scrapes"""
