"""Benches: the product beside its floor, in the same run, on the same server.

Hands out `Measure` and `MeasureTarget`, what a bench finds; each bench is a module of its own (`append`).
"""

from deploy.lab.bench.measures import BenchOutcome, Machine, Measure, MeasureTarget

__all__ = ["BenchOutcome", "Machine", "Measure", "MeasureTarget"]
