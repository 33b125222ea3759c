"""Snapshots as operators see them: what was asked for, how far it came, its counts; and their events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Shape):
    """A snapshot that is made, or taken in."""

    snapshot_id: UUID
    """id of the snapshot"""
    kind: str
    """`export` or `import`"""
    status: str
    """`running`; `deriving`: its events are in the log, and words and guards are made; `done`"""
    parts: tuple[str, ...]
    """parts that it holds: `agent_memory`, `agent_session_history`; empty: no content"""
    banks: tuple[UUID, ...] | None
    """ids of the banks that it holds; null: every bank"""
    masked: bool
    """whether private values are replaced by marks"""
    overridden: bool
    """whether an operator overrode that production exports no history"""
    dry_run: bool
    """whether an import only checks"""
    place: int
    """of an export: last position of the log that was read; of an import: number of events that were taken"""
    head: int
    """of an export: position at which it ends; of an import: last position before it began"""
    counts: Mapping[str, int]
    """counts by name: of an export events, markers and events of each kind; of an import its counters"""
    made_by: str
    """who asked for it"""
    started_at: datetime
    """time of its beginning"""
    finished_at: datetime | None
    """time of its end; null: it continues"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotList(Shape):
    """Snapshots of a tenant."""

    snapshots: tuple[Snapshot, ...]
    """snapshots, the newest first"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedExport(Shape):
    """An export that has begun."""

    snapshot: Snapshot
    """the export"""
    first_line: Mapping[str, Any] = field(repr=False)
    """first line of its file: form, version, tenant and what it holds"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedImport(Shape):
    """An import that has begun, or goes on."""

    snapshot: Snapshot
    """the import"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEvents(Shape):
    """A page of an export."""

    events: tuple[Mapping[str, Any], ...] = field(repr=False)
    """events, as CloudEvents"""
    snapshot: Snapshot
    """the export, as of the end of this page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProblem(Shape):
    """An event that an import did not take."""

    event: int
    """number of the event in the snapshot, from 1"""
    counter: str
    """counter that it is in: `failed` or `parked`"""
    reason: str
    """why it was not taken, without a value of it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenEvents(Shape):
    """The result of a batch of an import."""

    snapshot: Snapshot
    """the import, as of the end of this batch"""
    problems: tuple[SnapshotProblem, ...]
    """events of this batch that were not taken"""
