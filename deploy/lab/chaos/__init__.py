"""Chaos runs: send turns, documents and directives to a stack under faults, then count what was lost, twice or late.

`run.run_chaos` runs a `run.Plan` on a private stack with a gateway of its own and returns an `outcome.ChaosOutcome`.
This module imports nothing, because the gateway and the tampering relay are modules that run as own processes.
"""
