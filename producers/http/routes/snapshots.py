"""Snapshots of a tenant: exports and imports, page by page, for operators whose key may make keys of tenants."""

from typing import Annotated

from afterturn_client.contract.snapshots import (
    Snapshot,
    SnapshotEvents,
    SnapshotList,
    StartedExport,
    StartedImport,
    TakenEvents,
)
from fastapi import APIRouter, Request, Response

from producers.http.authentication import OperatorCall
from producers.http.openapi import LIMITED, CallerClass, DescribedAnswer, describe_route
from producers.http.reads import add_read
from producers.http.requests import describe_id, json_response, parse_identifier, read_body
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

SnapshotId = Annotated[str, describe_id("the snapshot")]

router = APIRouter(prefix="/api/v1/operator/snapshots", tags=["snapshots"])


@add_read(
    router,
    "",
    "List a tenant's snapshots",
    "Lists exports and imports, the newest first, without content.",
    "the snapshots",
    access=CallerClass.OPERATOR,
)
async def list_snapshots(call: OperatorCall, asked: SnapshotsParameters) -> SnapshotList:
    return await call.operations.snapshots.list(asked)


@router.post(
    "",
    **describe_route(
        "Begin an export",
        "The export holds what the log of the tenant holds now, of the parts that are named; its events are read page "
        "by page. The operator's key must be one that makes keys (`--makes-keys`), since it reads content.",
        CallerClass.OPERATOR,
        {201: DescribedAnswer("the export", (StartedExport,))},
        body=ExportBody,
        fails=(SnapshotRefused, RestoredElsewhere),
    ),
)
async def create_export(request: Request, call: OperatorCall) -> Response:
    call.require_key_making()
    tenant, started = await call.operations.snapshots.begin_export(call.name, await read_body(request))
    call.note_tenant(tenant)
    return json_response(started, 201)


@router.post(
    "/imports",
    **describe_route(
        "Begin an import",
        "The events of the snapshot follow in batches. A tenant that does not exist is created. The operator's key "
        "must be one that makes keys (`--makes-keys`).",
        CallerClass.OPERATOR,
        {201: DescribedAnswer("the import", (StartedImport,))},
        body=ImportBody,
        fails=(SnapshotRefused, SealBroken),
    ),
)
async def create_import(request: Request, call: OperatorCall) -> Response:
    call.require_key_making()
    tenant, begun = await call.operations.snapshots.begin_import(call.name, await read_body(request))
    call.note_tenant(tenant)
    return json_response(begun, 201)


@add_read(
    router,
    "/{snapshot_id}",
    "Get a snapshot",
    "Returns how far an export or import came, with its counts.",
    "the snapshot",
    access=CallerClass.OPERATOR,
    fails=(NotFound,),
)
async def get_snapshot(call: OperatorCall, asked: SnapshotParameters, snapshot_id: SnapshotId) -> Snapshot:
    tenant, snapshot = await call.operations.snapshots.show(parse_identifier(snapshot_id), asked)
    call.note_tenant(tenant)
    return snapshot


@add_read(
    router,
    "/{snapshot_id}/events",
    "Read events of an export",
    "Returns the next events in the order of the log. An empty page ends the export: the page before it can be "
    "read again until then.",
    "the events",
    access=CallerClass.OPERATOR,
    fails=(NotFound, SnapshotRefused),
)
async def list_snapshot_events(call: OperatorCall, asked: EventsParameters, snapshot_id: SnapshotId) -> SnapshotEvents:
    call.require_key_making()
    tenant, page = await call.operations.snapshots.read_events(parse_identifier(snapshot_id), asked)
    call.note_tenant(tenant)
    return page


@router.post(
    "/{snapshot_id}/events",
    **describe_route(
        "Take events into an import",
        "The events are checked and appended in their order; a batch that is sent again changes nothing.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the result of the batch", (TakenEvents,))},
        body=EventsBody,
        fails=(NotFound, SnapshotRefused, *LIMITED),
    ),
)
async def add_snapshot_events(request: Request, call: OperatorCall, snapshot_id: SnapshotId) -> Response:
    call.require_key_making()
    tenant, taken = await call.operations.snapshots.take_events(parse_identifier(snapshot_id), await read_body(request))
    call.note_tenant(tenant)
    return json_response(taken)


@router.post(
    "/{snapshot_id}/finish",
    **describe_route(
        "Finish an import",
        "Makes words and guards of turns, and opens work for vectors, for some seconds; call it again until the "
        "status is `done`.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the import", (Snapshot,))},
        body=FinishBody,
        fails=(NotFound, SnapshotRefused),
    ),
)
async def complete_import(request: Request, call: OperatorCall, snapshot_id: SnapshotId) -> Response:
    call.require_key_making()
    tenant, done = await call.operations.snapshots.finish_import(
        parse_identifier(snapshot_id), await read_body(request)
    )
    call.note_tenant(tenant)
    return json_response(done)
