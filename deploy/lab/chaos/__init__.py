"""Turns, documents and directives are sent to a stack while it is being broken, then counted: lost, twice, late.

`run.unleash` runs a `run.Plan` on a stack and a gateway of its own; the `outcome.Outcome` tells what came of it.
Nothing is imported here: the gateway and the saboteur are modules that run as processes of their own.
"""
