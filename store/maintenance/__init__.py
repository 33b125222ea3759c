"""What is put away after a time: when each task of maintenance runs next, and the batches it runs in.

Hands out `Schedule` and `Run` (schedule), `Pruning` and `Page` (pruning), `WordsAnew` (words), `Ending` (ending).
"""

from store.maintenance.ending import Ending
from store.maintenance.pruning import MORE, Page, Pruning
from store.maintenance.schedule import Planned, Run, Schedule
from store.maintenance.words import WordsAnew

__all__ = ["MORE", "Ending", "Page", "Planned", "Pruning", "Run", "Schedule", "WordsAnew"]
