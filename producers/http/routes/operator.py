"""The operator's interface: over all tenants, never content; opened by an operator's key alone."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from uuid import UUID

from afterturn_client.contract.installation import Examination, SettingsInForce
from afterturn_client.contract.operators import (
    CallList,
    CountedTenant,
    Draining,
    JobCounts,
    JobHistory,
    JobPage,
    JobsChanged,
    KeyList,
    MatchingChanged,
    NewKey,
    PipelineStatus,
    QuotaList,
    SettledDelivery,
    TargetList,
    TargetsUnset,
    TenantPage,
    WorkerList,
)
from fastapi import APIRouter, Request, Response

from producers.http.authentication import OperatorCall
from producers.http.openapi import CallerClass, DescribedAnswer, describe_route
from producers.http.reads import add_read
from producers.http.requests import describe_id, json_response, parse_identifier, read_body, read_parameters
from producers.service.operations import (
    AuditParameters,
    NewKeyBody,
    QuotaBody,
    RotateBody,
    TenantParameters,
)
from producers.service.operator_targets import ListedTargets, TargetBody, TargetPlace
from producers.service.operator_work import (
    DrainBody,
    JobFilter,
    JobsBody,
    JobsParameters,
    MatchingBody,
    SettleBody,
    TargetsParameters,
)
from producers.service.paging import PageParameters
from store.errors import NotFound, NotSettled, TargetTaken

#: Changes a key as the body says; returns the key's tenant, and the answer.
KeyChange = Callable[[Any], Awaitable[tuple[UUID, Any]]]

TenantId = Annotated[str, describe_id("the tenant")]
KeyId = Annotated[str, describe_id("the key")]

JobId = Annotated[str, describe_id("the turn, or of one of its rows")]

router = APIRouter(prefix="/api/v1/operator", tags=["operator"])


@add_read(
    router,
    "/tenants",
    "List tenants",
    "Lists tenants by name, without content.",
    "a page",
    access=CallerClass.OPERATOR,
)
async def list_tenants(call: OperatorCall, asked: PageParameters) -> TenantPage:
    return await call.operations.tenants(asked)


@router.get(
    "/tenants/{tenant_id}",
    **describe_route(
        "Get a tenant",
        "Returns the name, the number of active keys and of undone work.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the tenant", (CountedTenant,))},
        fails=(NotFound,),
    ),
)
async def get_tenant(call: OperatorCall, tenant_id: TenantId) -> Response:
    which = parse_identifier(tenant_id)
    call.note_tenant(which)
    return json_response(await call.operations.tenant(which))


@router.get(
    "/status",
    **describe_route(
        "Get the status of all stages",
        "Counts turns by stage and status over all tenants.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the counts", (PipelineStatus,))},
    ),
)
async def get_stage_status(call: OperatorCall) -> Response:
    return json_response(await call.operations.status())


@add_read(
    router,
    "/audit",
    "List the call audit",
    "Lists calls with key, operation and result, the newest first.",
    "the calls",
    access=CallerClass.OPERATOR,
)
async def list_calls(call: OperatorCall, asked: AuditParameters) -> CallList:
    return await call.operations.audit(asked)


@add_read(
    router,
    "/targets",
    "List gateway targets",
    "Lists targets with their waiting deliveries; no key is shown.",
    "the targets",
    access=CallerClass.OPERATOR,
)
async def list_gateway_targets(call: OperatorCall, asked: ListedTargets) -> TargetList:
    return await call.operations.targets.list_targets(asked, names=call.operator.makes_keys)


@router.put(
    "/targets",
    **describe_route(
        "Set the gateway target of a tenant or bank",
        "New turns go to this user of a Memory Gateway; turns that were accepted before still go to the target that it "
        "replaces. The same user again gets this key, also for deliveries that wait. Turns are content, so the "
        "operator's key must be one that makes keys (`--makes-keys`).",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the target", (TargetList,))},
        body=TargetBody,
        fails=(NotFound, TargetTaken),
    ),
)
async def set_gateway_target(request: Request, call: OperatorCall) -> Response:
    call.require_key_making()
    tenant, answer = await call.operations.targets.set_target(await read_body(request))
    call.note_tenant(tenant)
    return json_response(answer)


@router.delete(
    "/targets",
    **describe_route(
        "Unset the gateway target of a tenant or bank",
        "Waiting deliveries end as skipped, those of replaced targets included, and the keys are deleted; a call in "
        "flight completes.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the unset targets", (TargetsUnset,))},
        query=TargetPlace,
    ),
)
async def delete_gateway_target(request: Request, call: OperatorCall) -> Response:
    tenant, answer = await call.operations.targets.unset_target(read_parameters(request, TargetPlace), call.name)
    call.note_tenant(tenant)
    return json_response(answer)


@router.get(
    "/settings",
    **describe_route(
        "Get the settings in force",
        "Lists every setting of the process that answers, with its origin; secrets are masked.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the settings", (SettingsInForce,))},
        fails=(NotFound,),
    ),
)
async def get_settings(call: OperatorCall) -> Response:
    return json_response(call.operations.settings())


@router.get(
    "/doctor",
    **describe_route(
        "Check the installation",
        "Checks servers, versions, roles, schema, log, disk and gateway targets from the process that answers, and "
        "says what to do. One check runs at a time, and its answer is given for five seconds.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("what each check found", (Examination,))},
        fails=(NotFound,),
    ),
)
async def check_installation(call: OperatorCall) -> Response:
    return json_response(await call.operations.examine())


@add_read(
    router,
    "/keys",
    "List a tenant's keys",
    "Lists keys without their secrets, revoked and expired ones included.",
    "the keys",
    access=CallerClass.OPERATOR,
)
async def list_keys(call: OperatorCall, asked: TenantParameters) -> KeyList:
    return await call.operations.tenant_keys(asked.tenant)


@router.post(
    "/keys",
    **describe_route(
        "Create a tenant's key",
        "The key works at once and is not shown again. A tenant is created with its first key. It reads content, so "
        "the operator's key must be one that makes keys (`--makes-keys`).",
        CallerClass.OPERATOR,
        {201: DescribedAnswer("the key", (NewKey,))},
        body=NewKeyBody,
    ),
)
async def create_key(request: Request, call: OperatorCall) -> Response:
    return await _change_keys(request, call, call.operations.create_key)


@router.post(
    "/keys/{key_id}/rotate",
    **describe_route(
        "Rotate a tenant's key",
        "The new key has the same rights; the old one works until the overlap ends. The operator's key must be one "
        "that makes keys (`--makes-keys`).",
        CallerClass.OPERATOR,
        {201: DescribedAnswer("the new key", (NewKey,))},
        body=RotateBody,
        fails=(NotFound,),
    ),
)
async def rotate_key(request: Request, call: OperatorCall, key_id: KeyId) -> Response:
    return await _change_keys(request, call, lambda asked: call.operations.rotate_key(parse_identifier(key_id), asked))


@router.delete(
    "/keys/{key_id}",
    **describe_route(
        "Revoke a tenant's key",
        "All processes refuse the key within two seconds.",
        CallerClass.OPERATOR,
        {204: DescribedAnswer("the key is revoked")},
        query=TenantParameters,
        fails=(NotFound,),
    ),
)
async def revoke_key(request: Request, call: OperatorCall, key_id: KeyId) -> Response:
    tenant = read_parameters(request, TenantParameters).tenant
    call.note_tenant(await call.operations.revoke_key(parse_identifier(key_id), tenant))
    return Response(status_code=204)


async def _change_keys(request: Request, call: OperatorCall, change: KeyChange) -> Response:
    call.require_key_making()
    tenant, made = await change(await read_body(request))
    call.note_tenant(tenant)
    return json_response(made, 201)


@add_read(
    router,
    "/quotas",
    "Get a tenant's quotas",
    "Returns the limits and usage of the tenant and its banks.",
    "the quotas",
    access=CallerClass.OPERATOR,
)
async def get_quotas(call: OperatorCall, asked: TenantParameters) -> QuotaList:
    return await call.operations.quotas(asked.tenant)


@router.put(
    "/quotas",
    **describe_route(
        "Set the quota of a tenant or bank",
        "Sets all limits at once: one that is left out is unlimited. Stored data counts.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the quotas", (QuotaList,))},
        body=QuotaBody,
        fails=(NotFound,),
    ),
)
async def set_quota(request: Request, call: OperatorCall) -> Response:
    tenant, answer = await call.operations.set_quota(await read_body(request))
    call.note_tenant(tenant)
    return json_response(answer)


@add_read(
    router,
    "/jobs",
    "List undone and failed work",
    "Lists rows of the ledger page by page, the oldest first: ids, statuses and reasons.",
    "a page",
    access=CallerClass.OPERATOR,
)
async def list_jobs(call: OperatorCall, asked: JobsParameters) -> JobPage:
    return await call.operations.work.list_jobs(asked, names=call.operator.makes_keys)


@add_read(
    router,
    "/jobs/count",
    "Count undone and failed work",
    "Counts rows of the ledger by status.",
    "the counts",
    access=CallerClass.OPERATOR,
)
async def count_jobs(call: OperatorCall, asked: JobFilter) -> JobCounts:
    return await call.operations.work.count_jobs(asked)


@add_read(
    router,
    "/jobs/{job_id}",
    "Get the work of a turn",
    "Returns every stage of a turn and its recorded attempts, by the id of the turn or of one of its rows.",
    "the rows",
    access=CallerClass.OPERATOR,
    fails=(NotFound,),
)
async def get_job(call: OperatorCall, asked: TargetsParameters, job_id: JobId) -> JobHistory:
    names = asked.names and call.operator.makes_keys
    host, answer = await call.operations.work.show_job(parse_identifier(job_id), asked.tenant, names=names)
    call.note_tenant(host)
    return answer


@router.post(
    "/jobs",
    **describe_route(
        "Retry or drop quarantined work",
        "Rows are requeued with a fresh attempt budget, or marked as skipped; work in progress is unchanged.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the number of changed rows", (JobsChanged,))},
        body=JobsBody,
    ),
)
async def change_jobs(request: Request, call: OperatorCall) -> Response:
    tenant, answer = await call.operations.work.change_jobs(call.name, await read_body(request))
    call.note_tenant(tenant)
    return json_response(answer)


@router.post(
    "/jobs/matching",
    **describe_route(
        "Change all work that matches",
        "Retries, drops or settles every row that a filter selects and that was there when `GET "
        "/api/v1/operator/jobs/count` counted. One call changes rows for ten seconds at most; the `cursor` that it "
        "answers asks for the rest.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the number of changed rows", (MatchingChanged,))},
        body=MatchingBody,
    ),
)
async def change_matching_jobs(request: Request, call: OperatorCall) -> Response:
    tenant, answer = await call.operations.work.change_matching(call.name, await read_body(request))
    call.note_tenant(tenant)
    return json_response(answer)


@router.post(
    "/jobs/{job_id}/settle",
    **describe_route(
        "Settle a delivery",
        "The delivery goes on as an operator found it at the gateway: delivered or not. It is named by the id of its "
        "turn.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the delivery is settled", (SettledDelivery,))},
        body=SettleBody,
        fails=(NotFound, NotSettled),
    ),
)
async def settle_delivery(request: Request, call: OperatorCall, job_id: JobId) -> Response:
    tenant, answer = await call.operations.work.settle_delivery(
        call.name, parse_identifier(job_id), await read_body(request), names=call.operator.makes_keys
    )
    call.note_tenant(tenant)
    return json_response(answer)


@router.get(
    "/workers",
    **describe_route(
        "List worker processes",
        "Lists workers with version, stages, start time and claims.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the processes", (WorkerList,))},
    ),
)
async def list_workers(call: OperatorCall) -> Response:
    return json_response(await call.operations.work.list_workers())


@router.post(
    "/workers/drain",
    **describe_route(
        "Drain worker processes",
        "They finish their work within seconds and then stay idle; the list of workers shows when they are drained.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the workers that drain", (Draining,))},
        body=DrainBody,
    ),
)
async def drain_workers(request: Request, call: OperatorCall) -> Response:
    return json_response(await call.operations.work.drain_workers(await read_body(request)))
