"""Snapshots of a tenant: exports and imports, page by page, for operators whose key may make keys of tenants."""

from typing import Annotated, Any
from uuid import UUID

from afterturn_client.contract.snapshots import (
    Snapshot,
    SnapshotEvents,
    SnapshotList,
    StartedExport,
    StartedImport,
    TakenEvents,
)

from producers.http.authentication import KeyMakerCall, OperatorCall
from producers.http.openapi import LIMITED, CallerClass
from producers.http.operation_router import OperationRouter
from producers.http.requests import describe_id
from producers.service.snapshots import (
    EventsBody,
    EventsParameters,
    ExportBody,
    FinishBody,
    ImportBody,
    SnapshotParameters,
    SnapshotsParameters,
)
from store.errors import NotFound, RestoredElsewhere, SealBroken, SnapshotRefused

SnapshotId = Annotated[UUID, describe_id("the snapshot")]

router = OperationRouter(prefix="/api/v1/operator/snapshots", tags=["snapshots"], access=CallerClass.OPERATOR)


@router.operation(
    "GET",
    "List a tenant's snapshots",
    "Lists exports and imports, the newest first, without content.",
    "the snapshots",
)
async def list_snapshots(call: OperatorCall, asked: SnapshotsParameters) -> SnapshotList:
    return await call.operations.snapshots.list(asked)


@router.operation(
    "POST",
    "Begin an export",
    "The export holds what the log of the tenant holds now, of the parts that are named; its events are read page "
    "by page. The operator's key must be one that makes keys (`--makes-keys`), since it reads content.",
    "the export",
    status=201,
    body=ExportBody,
    fails=(SnapshotRefused, RestoredElsewhere),
)
async def create_export(call: KeyMakerCall, sent: Any) -> StartedExport:
    return call.note(await call.operations.snapshots.begin_export(call.name, sent))


@router.operation(
    "POST /imports",
    "Begin an import",
    "The events of the snapshot follow in batches. A tenant that does not exist is created. The operator's key "
    "must be one that makes keys (`--makes-keys`).",
    "the import",
    status=201,
    body=ImportBody,
    fails=(SnapshotRefused, SealBroken),
)
async def create_import(call: KeyMakerCall, sent: Any) -> StartedImport:
    return call.note(await call.operations.snapshots.begin_import(call.name, sent))


@router.operation(
    "GET /{snapshot_id}",
    "Get a snapshot",
    "Returns how far an export or import came, with its counts.",
    "the snapshot",
    fails=(NotFound,),
)
async def get_snapshot(call: OperatorCall, asked: SnapshotParameters, snapshot_id: SnapshotId) -> Snapshot:
    return call.note(await call.operations.snapshots.show(snapshot_id, asked))


@router.operation(
    "GET /{snapshot_id}/events",
    "Read events of an export",
    "Returns the next events in the order of the log. An empty page ends the export: the page before it can be "
    "read again until then.",
    "the events",
    fails=(NotFound, SnapshotRefused),
)
async def list_snapshot_events(call: KeyMakerCall, asked: EventsParameters, snapshot_id: SnapshotId) -> SnapshotEvents:
    return call.note(await call.operations.snapshots.read_events(snapshot_id, asked))


@router.operation(
    "POST /{snapshot_id}/events",
    "Take events into an import",
    "The events are checked and appended in their order; a batch that is sent again changes nothing.",
    "the result of the batch",
    body=EventsBody,
    fails=(NotFound, SnapshotRefused, *LIMITED),
)
async def add_snapshot_events(call: KeyMakerCall, sent: Any, snapshot_id: SnapshotId) -> TakenEvents:
    return call.note(await call.operations.snapshots.take_events(snapshot_id, sent))


@router.operation(
    "POST /{snapshot_id}/finish",
    "Finish an import",
    "Makes words and guards of turns, and opens work for vectors, for some seconds; call it again until the "
    "status is `done`.",
    "the import",
    body=FinishBody,
    fails=(NotFound, SnapshotRefused),
)
async def complete_import(call: KeyMakerCall, sent: Any, snapshot_id: SnapshotId) -> Snapshot:
    return call.note(await call.operations.snapshots.finish_import(snapshot_id, sent))
