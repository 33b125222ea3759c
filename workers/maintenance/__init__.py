"""Maintenance: what is put away after a time, each task once for all workers, in small batches between the work.

Hands out `Maintainer` and `Told` (maintainer), and the tasks (`tasks_of`, `checking`, `indexing`,
`linking`) that `deploy` builds.
"""

from workers.maintenance.checking import checking
from workers.maintenance.indexing import indexing
from workers.maintenance.linking import linking
from workers.maintenance.maintainer import Maintainer, Told
from workers.maintenance.tasks import Needs, Task, tasks_of

__all__ = ["Maintainer", "Needs", "Task", "Told", "checking", "indexing", "linking", "tasks_of"]
