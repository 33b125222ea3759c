"""Maintenance: tasks that prune rows past their retention and build derived data, each run by one worker at a time.

Exports `Maintainer` and `TaskOutcome`, and the tasks (`tasks`) that `deploy` builds.
"""

from workers.maintenance.maintainer import Maintainer, TaskOutcome
from workers.maintenance.tasks import Needs, Task, build_tasks, index_task, recall_check_task

__all__ = [
    "Maintainer",
    "Needs",
    "Task",
    "TaskOutcome",
    "build_tasks",
    "index_task",
    "recall_check_task",
]
