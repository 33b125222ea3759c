"""Maintenance: what is put away after a time, each task once for all workers, in small batches between the work.

Hands out `Maintainer` and `Told` (maintainer), `tasks_of` (tasks) and `indexing`; only `deploy` builds them.
"""

from workers.maintenance.indexing import indexing
from workers.maintenance.maintainer import Maintainer, Told
from workers.maintenance.tasks import Needs, Task, tasks_of

__all__ = ["Maintainer", "Needs", "Task", "Told", "indexing", "tasks_of"]
