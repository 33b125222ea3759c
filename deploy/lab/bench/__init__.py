"""Benches: the product beside its floor, in the same run, on the same server.

Hands out `Measure` and `Target`, what a bench finds; each bench is a module of its own (`append`).
"""

from deploy.lab.bench.measures import BenchOutcome, Machine, Measure, Target

__all__ = ["BenchOutcome", "Machine", "Measure", "Target"]
