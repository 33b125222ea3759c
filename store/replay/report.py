"""The report of a replay by table: keys and column names, never content."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is not the same: its key, where it was found, and the columns that differ.

    Found live, replayed (of derived state: derived), or both.
    """

    key: Mapping[str, str]
    found: str
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class TableReport:
    """One event-backed table, live and replayed; digests are sha256 over the rows in order of their key."""

    table: str
    rows_live: int
    rows_replayed: int
    digest_live: str
    digest_replayed: str
    first_differences: Sequence[Difference]

    @property
    def equal(self) -> bool:
        """Say whether both hold the same rows."""
        return self.rows_live == self.rows_replayed and self.digest_live == self.digest_replayed


@dataclass(frozen=True, slots=True)
class DerivedStateReport:
    """One kind of state outside the log, and its first rows that its pipeline would not make of what it has counted."""

    name: str
    first_differences: Sequence[Difference]

    @property
    def equal(self) -> bool:
        """Say whether it is what its pipeline makes."""
        return not self.first_differences


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay of `events` events found."""

    tables: Sequence[TableReport]
    derived: Sequence[DerivedStateReport]
    events: int
    seconds: float

    @property
    def equal(self) -> bool:
        """Say whether all event-backed tables are what the log says; derived state does not count here."""
        return all(table.equal for table in self.tables)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `afterturn replay --json` prints."""
        return {
            "equal": self.equal,
            "tables": [{**asdict(table), "equal": table.equal} for table in self.tables],
            "events": self.events,
            "seconds": round(self.seconds, 3),
            "derived": [{**asdict(one), "equal": one.equal} for one in self.derived],
        }
