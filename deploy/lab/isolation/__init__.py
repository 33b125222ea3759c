"""The isolation check: tries every public read and write at random across tenants, banks, users and agents.

`trials.check_isolation` tries, as each tenant, user and agent, to read and to change data of others.
"""

from deploy.lab.isolation.trials import IsolationReport, TrialChannel, check_isolation

__all__ = ["IsolationReport", "TrialChannel", "check_isolation"]
