"""Benchmarks: each measures the product beside its floor, in the same run, on the same server.

Exports `Measure` and `MeasureTarget`, the results of a benchmark; each benchmark is a module of its own.
"""

from deploy.lab.bench.measures import BenchOutcome, Machine, Measure, MeasureTarget

__all__ = ["BenchOutcome", "Machine", "Measure", "MeasureTarget"]
