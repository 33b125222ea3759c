"""Alerts that would fire, judged without Prometheus: the same as Prometheus says of the same rules."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from afterturn_client.contract.figures import Alert
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from deploy.observability.alert_rules import NO_LABELS, History, Moment, Unjudged, Vector
from deploy.observability.alerts import Alerts, gather_samples, read_alert_rules, read_records
from tests.deploy.observability.test_observability import rules
from tests.tables import each_row

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
#: Alerts that Prometheus alone can judge: of its own scrapes.
LEFT_TO_PROMETHEUS = frozenset(
    {
        "AfterturnApiDown",
        "AfterturnApiPartlyDown",
        "AfterturnWorkersDown",
        "AfterturnDatabaseAway",
    }
)


def gauge(name: str, values: dict[tuple[str, ...], float], labels: tuple[str, ...] = ()) -> Metric:
    found = GaugeMetricFamily(name, "", labels=labels)
    for place, value in values.items():
        found.add_metric(place, value)
    return found


def counter(name: str, value: float, **labels: str) -> Metric:
    found = CounterMetricFamily(name, "", labels=list(labels))
    found.add_metric(list(labels.values()), value)
    return found


def evaluate(expression: str, *readings: Iterable[Metric]) -> Vector:
    """Evaluate on readings a minute apart."""
    moments = [Moment(60.0 * n, gather_samples(metrics)) for n, metrics in enumerate(readings)]
    return History(moments, read_records()).evaluate(expression)


def named(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


def test_a_condition_holds_for_what_it_is_true_of() -> None:
    rows: dict[tuple[str, ...], float] = {
        ("embedding", "dead"): 2.0,
        ("embedding", "pending"): 9.0,
        ("projection", "dead"): 0.0,
    }
    failed = 'sum by (stage) (max by (stage, status) (rows{status=~"dead|unknown"})) > 0'
    assert evaluate(failed, [gauge("rows", rows, ("stage", "status"))]) == {named(stage="embedding"): 2.0}
    used = [gauge("used", {(): 95.0}), gauge("most", {(): 100.0})]
    assert evaluate("max(used) / max(most) > 0.9", used) == {NO_LABELS: 0.95}
    assert evaluate("max(used) / max(most) > 0.96", used) == {}


def test_rates_are_of_their_window_and_of_a_counter_that_began_anew() -> None:
    of = [[counter("shed", value, what="turns")] for value in (100.0, 130.0, 190.0)]
    assert evaluate("sum by (what) (rate(shed_total[5m])) > 0", *of) == {named(what="turns"): 0.75}
    assert evaluate("sum by (what) (increase(shed_total[1m])) > 0", *of) == {named(what="turns"): 60.0}
    assert evaluate("sum(rate(shed_total[5m])) > 0", *of[::-1]) == {}


def test_a_quantile_is_that_of_the_window() -> None:
    def waits(fast: int, slow: int) -> list[Metric]:
        buckets = [("0.1", float(fast)), ("1.0", float(fast + slow)), ("+Inf", float(fast + slow))]
        return [HistogramMetricFamily("afterturn_recall_seconds", "", buckets=buckets, sum_value=0.0)]

    [slow] = evaluate("afterturn:recall_seconds:p95_5m > 0.5", waits(100, 0), waits(190, 10)).values()
    assert slow == pytest.approx(0.55)
    assert evaluate("afterturn:recall_seconds:p95_5m > 0.5", waits(100, 0), waits(200, 0)) == {}


@each_row("text", ["absent(rows)", "rate(rows[2d])", "unknown_metric > 0", "max(rows", "rows offset 5m"])
def test_what_is_not_covered_is_unjudged(text: str) -> None:
    with pytest.raises(Unjudged):
        evaluate(text, [gauge("rows", {(): 1.0})])


def test_an_alert_is_pending_until_its_condition_has_held_and_gone_when_it_does_not() -> None:
    alerts = Alerts()

    def judge(seconds: float, oldest: float) -> list[tuple[str, str, bool]]:
        metrics = [gauge("afterturn_ledger_oldest_undone_seconds", {("embedding",): oldest}, ("stage",))]
        found = alerts.judge(metrics, seconds, NOW + timedelta(seconds=seconds))
        return [(one.name, one.summary, one.firing) for one in found]

    told = "The oldest work of embedding has waited for more than five minutes."
    assert judge(0, 299) == []
    assert judge(60, 301) == [("AfterturnBacklogOld", told, False)]
    assert judge(300, 541) == [("AfterturnBacklogOld", told, False)]
    assert judge(361, 602) == [("AfterturnBacklogOld", told, True)]
    assert judge(375, 1) == []
    assert judge(390, 301) == [("AfterturnBacklogOld", told, False)], "it waits anew"


def judge_for(seconds: float, read: Callable[[float], list[Metric]]) -> set[str]:
    """Return the alerts that fire after readings of so long, one each 15 s."""
    alerts = Alerts()
    found: Sequence[Alert] = ()
    for at in range(0, int(seconds) + 1, 15):
        found = alerts.judge(read(float(at)), float(at), NOW + timedelta(seconds=at))
    return {one.name for one in found if one.firing}


def call(status: int, value: float) -> Metric:
    return counter("afterturn_http_requests", value, method="POST", route="/api/v1/turns", status=str(status))


def test_a_long_window_remembers_what_a_short_one_has_forgotten() -> None:
    """Errors of 20 minutes ago keep the slow alert for hours; none of them is of the last five minutes."""

    def read(at: float) -> list[Metric]:
        return merge(call(201, 10 * at), call(503, 3 * min(at, 3600.0)))

    assert judge_for(3600, read) == {"AfterturnTurnErrorsFast", "AfterturnTurnErrorsSlow"}
    assert judge_for(3600 + 1200, read) == {"AfterturnTurnErrorsSlow"}
    assert judge_for(2 * 3600, read) == set()


def merge(*of_one_name: Metric) -> list[Metric]:
    first, *others = of_one_name
    first.samples.extend(sample for one in others for sample in one.samples)
    return [first]


def test_a_short_window_never_meets_a_moment_without_its_metric() -> None:
    """A counter that stands still has not risen, however often the samples of long windows are thinned out."""

    def read(at: float) -> list[Metric]:
        return [*merge(call(201, 10 * at), call(503, 0.0)), counter("afterturn_process_deaths", 7.0, process="api")]

    fired = set[str]()
    alerts = Alerts()
    for at in range(0, 3 * 3600, 15):
        found = alerts.judge(read(float(at)), float(at), NOW + timedelta(seconds=at))
        fired |= {one.name for one in found}
    assert fired == set()


@pytest.mark.parametrize("compared, found, fires", [(0.0, 0.0, False), (100.0, 99.0, False), (100.0, 90.0, True)])
def test_a_share_of_nothing_is_no_alert(compared: float, found: float, *, fires: bool) -> None:
    def read(at: float) -> list[Metric]:
        return [
            counter("afterturn_recall_compared", compared * at, filter="none"),
            counter("afterturn_recall_found", found * at, filter="none"),
        ]

    assert judge_for(2 * 3600, read) == ({"AfterturnRecallShortfall"} if fires else set())


class Everything(dict[str, Vector]):
    """Samples that hold every metric."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Vector:
        return {named(le="+Inf"): 1.0}


def test_every_other_alert_is_judged_here() -> None:
    """An alert that is added is judged, or stands among those that are left to Prometheus."""
    history = History([Moment(0.0, Everything()), Moment(60.0, Everything())], read_records())
    judged = set()
    for rule in read_alert_rules():
        with suppress(Unjudged):
            history.evaluate(rule.condition)
            judged.add(rule.name)
    assert {one["alert"] for one in rules("prometheus/alerts.yml")} - judged == LEFT_TO_PROMETHEUS
