"""What is put away after a time: when each task of maintenance runs next, and the batches it runs in.

Hands out `Schedule` and `TaskRun` (schedule), `Pruning` and `PrunedBatch` (pruning), `WordsAnew` (words),
`ExpiryTask` (ending).
"""

from store.maintenance.ending import ExpiryTask
from store.maintenance.pruning import MORE, PrunedBatch, Pruning
from store.maintenance.schedule import Planned, Schedule, TaskRun
from store.maintenance.words import WordsAnew

__all__ = ["MORE", "ExpiryTask", "Planned", "PrunedBatch", "Pruning", "Schedule", "TaskRun", "WordsAnew"]
