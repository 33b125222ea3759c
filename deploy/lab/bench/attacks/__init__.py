"""Attacks by one tenant, or by a caller without a key, on the service, and their effect on another tenant.

`run.ATTACKS` lists the attacks; `run.run` makes each of them on a private stack while a victim (`victim`) keeps
working, and reports the victim's p95 during each attack beside its p95 without attacks in the same run.
"""
