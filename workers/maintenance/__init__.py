"""Maintenance: what is put away after a time, each task once for all workers, in small batches between the work.

Hands out `Maintainer` and `TaskOutcome` (maintainer), and the tasks (`tasks_of`, `checking`, `indexing`,
`linking`) that `deploy` builds.
"""

from workers.maintenance.checking import recall_check_task
from workers.maintenance.indexing import index_task
from workers.maintenance.linking import linking_task
from workers.maintenance.maintainer import Maintainer, TaskOutcome
from workers.maintenance.tasks import Needs, Task, tasks_of

__all__ = ["Maintainer", "Needs", "Task", "TaskOutcome", "index_task", "linking_task", "recall_check_task", "tasks_of"]
