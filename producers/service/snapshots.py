"""Snapshots of tenants for operators: exports and imports, page by page; what they hold is the policy's to say.

Content leaves and enters only for an operator's key that may make keys of tenants, and so reads what they read.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import orjson
from afterturn_client.contract.snapshots import (
    Snapshot,
    SnapshotEvents,
    SnapshotList,
    SnapshotProblem,
    StartedExport,
    StartedImport,
    TakenEvents,
)
from pydantic import Field

from producers.service.bodies import parse_body
from producers.service.fields import POSITION_MAX, BankName, Name
from producers.service.operator_work import TenantName, require_tenant
from producers.service.paging import Limit
from producers.service.wire import Parameters, RequestModel
from store import identity
from store.database import Database
from store.errors import SnapshotRefused
from store.snapshot import rows
from store.snapshot.exporting import EXPORTED, PAGE, ExportRequest, Exports
from store.snapshot.heading import (
    Heading,
    name_digest_key,
    open_digest_key,
    read_digest_key,
    read_heading,
    write_heading,
)
from store.snapshot.importing import COUNTERS, ImportRequest, Imports
from store.snapshot.policy import parse_parts, refuse_in_production
from store.snapshot.replacements import MOST_RULES, parse_replacements
from store.snapshot.rows import SnapshotRow
from store.tenancy.sealing import Sealer
from store.tenancy.tenants import ensure_host

#: The most events of one batch of an import, and the most names of users and agents of one call.
BATCH, MOST_NAMES = 5000, 5000


class ExportBody(RequestModel):
    """An export: whose, and what of it."""

    tenant: TenantName
    include: list[Name] = Field(
        default_factory=list,
        max_length=8,
        description="parts to export: `agent_memory`, `agent_session_history`; without any, no content is exported",
    )
    banks: list[BankName] | None = Field(
        None, min_length=1, max_length=1000, description="banks to export, by name; left out: every bank"
    )
    mask: bool = Field(False, description="whether private values are replaced by marks")
    override: bool = Field(
        False, description="whether history is exported although this deployment is production; it must be masked"
    )
    digest_key: bool = Field(
        False, description="whether the key of the tenant's digests travels, sealed with gateway.sealing_keys"
    )


Rules = Annotated[
    list[Any],
    Field(
        max_length=MOST_RULES,
        repr=False,
        description='replacement rules, `{"field": "bankName", "from": ..., "to": ...}`: of bankName, sessionName, '
        "turnName, userName, agentName, or of two UUIDs for a user or an agent (userId, agentDefId)",
    ),
]


class ImportBody(RequestModel):
    """An import: into which tenant, and what the snapshot's first line says."""

    tenant: TenantName
    first_line: dict[str, Any] = Field(repr=False, description="first line of the snapshot, as the export answered it")
    dry_run: bool = Field(False, description="whether the events are only checked")
    from_tenant: TenantName | None = Field(
        None, description="the tenant that the snapshot is of, where it is another one: every id is derived anew"
    )
    rules: Rules = Field(default_factory=list)
    names: list[Name] = Field(
        default_factory=list,
        max_length=MOST_NAMES,
        repr=False,
        description="names of users and agents that the snapshot holds (`userName`, `laidDownBy`), where ids are "
        "derived anew; more are sent by the same call again",
    )


class EventsBody(RequestModel):
    """A batch of an import."""

    tenant: TenantName
    first: int = Field(ge=0, le=POSITION_MAX, description="number of the batch's first event in the snapshot, from 0")
    events: list[Any] = Field(max_length=BATCH, repr=False, description="events of the snapshot, in its order")
    fail_fast: bool = Field(False, description="whether the first failed event ends the batch with an error")
    rules: Rules = Field(default_factory=list)


class FinishBody(RequestModel):
    """The end of an import."""

    tenant: TenantName
    events: int = Field(ge=0, le=POSITION_MAX, description="number of events that the snapshot's last line tells")


class SnapshotParameters(Parameters):
    """Of which tenant."""

    tenant: TenantName


class SnapshotsParameters(SnapshotParameters):
    """Of which tenant, and how many."""

    limit: Limit = 50


class EventsParameters(SnapshotParameters):
    """Of which tenant, after which position, how many."""

    after: int = Field(
        0, ge=0, le=POSITION_MAX, description="position after which the page begins: `place` of the last"
    )
    limit: int = Field(PAGE, ge=1, le=PAGE, description="most events of the page")


class Snapshots:
    """Snapshots for operators; the caller is already authenticated."""

    def __init__(
        self, database: Database, clock: Callable[[], datetime], sealer: Sealer | None = None, environment: str = ""
    ) -> None:
        """Keep the database and its clock; `environment` is that of this deployment."""
        self._database = database
        self._exports = Exports(database, clock)
        self._imports = Imports(database, clock)
        self._sealer = sealer
        self._environment = environment

    async def begin_export(self, by: str, asked: Any) -> tuple[UUID, StartedExport]:
        """Begin an export; return its tenant, and the first line of its file. Raises Invalid, SnapshotRefused."""
        body = parse_body(ExportBody, asked)
        await require_tenant(self._database, body.tenant)
        parts = parse_parts(body.include)
        refuse_in_production(self._environment, parts, masked=body.mask, overridden=body.override)
        if body.mask and body.digest_key:
            raise SnapshotRefused("the digest key does not travel with a masked snapshot, whose texts are others")
        host = identity.host_id(body.tenant)
        banks = None if body.banks is None else tuple(identity.bank_id(host, one) for one in body.banks)
        request = ExportRequest(parts, by, banks, masked=body.mask, overridden=body.override)
        row = await self._exports.begin(host, request)
        async with self._database.tenant(host) as connection:
            sealer = (self._sealer or Sealer(())) if body.digest_key else None
            line = await write_heading(connection, row, self._environment, sealer)
        return host, StartedExport(snapshot=_describe(row), first_line=line)

    async def read_events(self, snapshot: UUID, asked: EventsParameters) -> tuple[UUID, SnapshotEvents]:
        """Return the next page of an export, and its tenant. Raises NotFound, SnapshotRefused."""
        host = identity.host_id(asked.tenant)
        page = await self._exports.read_page(host, snapshot, asked.after, asked.limit)
        events: Any = tuple(orjson.Fragment(one) for one in page.events)
        return host, SnapshotEvents(events=events, snapshot=_describe(page.row))

    async def begin_import(self, by: str, asked: Any) -> tuple[UUID, StartedImport]:
        """Begin an import; a tenant that does not exist is created, except by a dry run. Raises SnapshotRefused."""
        body = parse_body(ImportBody, asked)
        heading, host = read_heading(body.first_line), identity.host_id(body.tenant)
        is_foreign, rules = _check_source(heading, host, body.from_tenant), parse_replacements(body.rules)
        if body.dry_run:
            await require_tenant(self._database, body.tenant)
        else:
            key = None if is_foreign else open_digest_key(heading, self._sealer)
            await ensure_host(self._database, body.tenant, key)
        is_rewritten = is_foreign or bool(rules)
        request = ImportRequest(
            heading.parts,
            by,
            heading.snapshot,
            heading.host,
            heading.masked,
            body.dry_run,
            keeps_digests=not is_rewritten and await self._has_key_of(host, heading),
            rules=rules if is_rewritten else None,
            names=body.names,
        )
        return host, StartedImport(snapshot=_describe(await self._imports.begin(host, request)))

    async def take_events(self, snapshot: UUID, asked: Any) -> tuple[UUID, TakenEvents]:
        """Take a batch in. Raises Invalid, NotFound, SnapshotRefused, QuotaExceeded."""
        body = parse_body(EventsBody, asked)
        host = identity.host_id(body.tenant)
        rules = parse_replacements(body.rules)
        taken = await self._imports.take(host, snapshot, body.first, body.events, fail_fast=body.fail_fast, rules=rules)
        problems = (SnapshotProblem(event=p.event, counter=p.counter, reason=p.reason) for p in taken.problems)
        return host, TakenEvents(snapshot=_describe(taken.row), problems=tuple(problems))

    async def finish_import(self, snapshot: UUID, asked: Any) -> tuple[UUID, Snapshot]:
        """Make derived state for some seconds; ask again until it is done. Raises NotFound, SnapshotRefused."""
        body = parse_body(FinishBody, asked)
        host = identity.host_id(body.tenant)
        return host, _describe(await self._imports.finish(host, snapshot, body.events))

    async def show(self, snapshot: UUID, asked: SnapshotParameters) -> tuple[UUID, Snapshot]:
        """Return a snapshot, and its tenant. Raises NotFound."""
        host = identity.host_id(asked.tenant)
        async with self._database.tenant(host) as connection:
            return host, _describe(await rows.read_row(connection, host, snapshot))

    async def list(self, asked: SnapshotsParameters) -> SnapshotList:
        """Return a tenant's snapshots, the newest first. Raises Invalid for an unknown tenant."""
        await require_tenant(self._database, asked.tenant)
        host = identity.host_id(asked.tenant)
        async with self._database.tenant(host) as connection:
            found = await rows.list_rows(connection, host, asked.limit)
        return SnapshotList(snapshots=tuple(map(_describe, found)))

    async def _has_key_of(self, host: UUID, heading: Heading) -> bool:
        """Return whether the digests of a snapshot were made with the tenant's own key."""
        async with self._database.tenant(host) as connection:
            key = await read_digest_key(connection, host)
        return heading.host == host and heading.digests == name_digest_key(key)


def _check_source(heading: Heading, host: UUID, named: str | None) -> bool:
    """Return whether a snapshot is another tenant's. Raises SnapshotRefused unless that is named."""
    if named is None and heading.host == host:
        return False
    if named is None or identity.host_id(named) != heading.host:
        raise SnapshotRefused(
            f"this snapshot is of the tenant {heading.tenant!r}: import it into that one, or name it (`from_tenant`, "
            "--from), and every id is derived anew"
        )
    return heading.host != host


def _describe(row: SnapshotRow) -> Snapshot:
    return Snapshot(
        snapshot_id=row.snapshot_id,
        kind=row.kind,
        status=row.status,
        parts=tuple(sorted(row.parts)),
        banks=row.banks,
        masked=row.masked,
        overridden=row.overridden,
        dry_run=row.dry_run,
        place=row.place,
        head=row.head,
        counts={name: row.counts[name] for name in (COUNTERS if row.kind == rows.IMPORT else EXPORTED)},
        made_by=row.made_by,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
