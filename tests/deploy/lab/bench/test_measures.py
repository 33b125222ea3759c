"""Measures, ratios and targets."""

from deploy.lab.bench.measures import BenchOutcome, Machine, Measure, MeasureTarget


def test_a_target_speaks_of_the_ratio_where_there_is_a_floor() -> None:
    slow = Measure("ack", "ms", 3.0, MeasureTarget("<=", 1.4), 2.0)
    assert (slow.ratio, slow.met) == (1.5, False)
    assert Measure("ack", "ms", 3.0, MeasureTarget("<=", 1.5), 2.0).met
    assert Measure("rate", "events/s", 70.0, MeasureTarget(">=", 0.7), 100.0).met


def test_a_target_without_a_floor_speaks_of_the_figure() -> None:
    rate = Measure("rate", "events/s", 9_999.0, MeasureTarget(">=", 10_000.0))
    assert (rate.ratio, rate.met) == (None, False)
    assert rate.as_json() == {
        "measure": "rate",
        "unit": "events/s",
        "floor": None,
        "ours": 9_999.0,
        "ratio": None,
        "target": ">= 10000.0",
        "met": False,
    }


def test_a_bench_holds_when_every_target_does() -> None:
    machine = Machine(2, "18.6", "0.8.6", {"fsync": "on"})
    good, bad = Measure("a", "ms", 1.0, MeasureTarget("<=", 2.0)), Measure("b", "ms", 3.0, MeasureTarget("<=", 2.0))
    assert BenchOutcome(machine, [good]).met
    assert not BenchOutcome(machine, [good, bad]).met
    shown = BenchOutcome(machine, [good]).as_json()
    assert shown["machine"] == {"cores": 2, "postgresql": "18.6", "pgvector": "0.8.6"}
    assert shown["settings"] == {"fsync": "on"}
