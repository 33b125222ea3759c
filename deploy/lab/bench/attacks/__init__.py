"""Attacks that one tenant, or a caller without a key, can make on the service, and what another tenant feels of them.

`registry.ATTACKS` lists them; `run` makes each on a stack of its own while a victim (`victim`) goes on working, and
reports the victim's p95 during each attack beside its quiet p95 of the same run.
"""
