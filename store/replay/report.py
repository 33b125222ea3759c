"""The report of a replay by table: keys and column names, never content."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that differs: its key, where it was found, and the columns that differ.

    `found` is live, replayed (for derived state: derived), or both.
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
        """Whether both hold the same rows."""
        return self.rows_live == self.rows_replayed and self.digest_live == self.digest_replayed


@dataclass(frozen=True, slots=True)
class DerivedStateReport:
    """One kind of derived state, and its first rows that differ from what its pipeline gives."""

    name: str
    first_differences: Sequence[Difference]

    @property
    def equal(self) -> bool:
        """Whether all rows are those that the pipeline gives."""
        return not self.first_differences


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The result of a replay of `events` events."""

    tables: Sequence[TableReport]
    derived: Sequence[DerivedStateReport]
    events: int
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether all event-backed tables equal the replayed ones; derived state does not count here."""
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
