"""Maintenance: what is put away after a time, each task once for all workers, in small batches between the work.

Hands out `Maintainer` and `Told` (maintainer), and `tasks_of` (tasks); only `deploy` builds them.
"""

from workers.maintenance.maintainer import Maintainer, Told
from workers.maintenance.tasks import Needs, Task, tasks_of

__all__ = ["Maintainer", "Needs", "Task", "Told", "tasks_of"]
