"""The curated layer: two small files an agent keeps for itself, frozen for each run and changed by one tool.

Exports `MemoryStore`, `MemorySnapshot`, `MemoryTool`, their answers and errors. It uses no network. It needs a POSIX
system (its file lock is fcntl's).
"""

from afterturn_client.curated.entries import Entries, Limits, MemoryState, Target
from afterturn_client.curated.errors import (
    CuratedError,
    EntryBlank,
    EntryInvisible,
    EntryRefused,
    EntrySeparator,
    EntrySuspicious,
    MemoryBusy,
    MemoryUnreadable,
    NoMatch,
    OverLimit,
    SeveralMatches,
)
from afterturn_client.curated.snapshot import MemorySnapshot
from afterturn_client.curated.store import Change, MemoryStore
from afterturn_client.curated.tool import MemoryTool

__all__ = [
    "Change",
    "CuratedError",
    "Entries",
    "EntryBlank",
    "EntryInvisible",
    "EntryRefused",
    "EntrySeparator",
    "EntrySuspicious",
    "Limits",
    "MemoryBusy",
    "MemorySnapshot",
    "MemoryState",
    "MemoryStore",
    "MemoryTool",
    "MemoryUnreadable",
    "NoMatch",
    "OverLimit",
    "SeveralMatches",
    "Target",
]
