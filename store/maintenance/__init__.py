"""Maintenance in the store: the schedule of each task and its batches.

Exports `Schedule` and `TaskRun` (schedule), `Pruning`, `PrunedBatch` and `FoundBank` (pruning),
`WordReanalysis` (words), `ExpiryTask` (ending), `Consolidation` (consolidation).
"""

from store.maintenance.consolidation import Consolidation
from store.maintenance.ending import ExpiryTask
from store.maintenance.pruning import MORE, FoundBank, PrunedBatch, Pruning
from store.maintenance.schedule import Schedule, TaskRun
from store.maintenance.words import WordReanalysis

__all__ = [
    "MORE",
    "Consolidation",
    "ExpiryTask",
    "FoundBank",
    "PrunedBatch",
    "Pruning",
    "Schedule",
    "TaskRun",
    "WordReanalysis",
]
