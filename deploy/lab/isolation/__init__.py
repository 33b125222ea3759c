"""The isolation check: every public read and write, tried at random across tenants, banks, users and agents.

`check_isolation` tries to see and to change from each tenant, user and agent what belongs to others.
"""

from deploy.lab.isolation.trials import IsolationReport, TrialChannel, check_isolation

__all__ = ["IsolationReport", "TrialChannel", "check_isolation"]
