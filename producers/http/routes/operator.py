"""The operator's interface: over all tenants, never content; opened by an operator's key alone."""

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

from producers.http.authentication import KeyMakerCall, OperatorCall
from producers.http.openapi import CallerClass
from producers.http.operation_router import OperationRouter
from producers.http.requests import describe_id
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

TenantId = Annotated[UUID, describe_id("the tenant")]
KeyId = Annotated[UUID, describe_id("the key")]

JobId = Annotated[UUID, describe_id("the turn, or of one of its rows")]

router = OperationRouter(prefix="/api/v1/operator", tags=["operator"], access=CallerClass.OPERATOR)


@router.operation("GET /tenants", "List tenants", "Lists tenants by name, without content.", "a page")
async def list_tenants(call: OperatorCall, asked: PageParameters) -> TenantPage:
    return await call.operations.tenants(asked)


@router.operation(
    "GET /tenants/{tenant_id}",
    "Get a tenant",
    "Returns the name, the number of active keys and of undone work.",
    "the tenant",
    fails=(NotFound,),
)
async def get_tenant(call: OperatorCall, tenant_id: TenantId) -> CountedTenant:
    call.note_tenant(tenant_id)
    return await call.operations.tenant(tenant_id)


@router.operation(
    "GET /status", "Get the status of all stages", "Counts turns by stage and status over all tenants.", "the counts"
)
async def get_stage_status(call: OperatorCall) -> PipelineStatus:
    return await call.operations.status()


@router.operation(
    "GET /audit", "List the call audit", "Lists calls with key, operation and result, the newest first.", "the calls"
)
async def list_calls(call: OperatorCall, asked: AuditParameters) -> CallList:
    return await call.operations.audit(asked)


@router.operation(
    "GET /targets",
    "List gateway targets",
    "Lists targets with their waiting deliveries; no key is shown.",
    "the targets",
)
async def list_gateway_targets(call: OperatorCall, asked: ListedTargets) -> TargetList:
    return await call.operations.targets.list_targets(asked, names=call.operator.makes_keys)


@router.operation(
    "PUT /targets",
    "Set the gateway target of a tenant or bank",
    "New turns go to this user of a Memory Gateway; turns that were accepted before still go to the target that it "
    "replaces. The same user again gets this key, also for deliveries that wait. Turns are content, so the "
    "operator's key must be one that makes keys (`--makes-keys`).",
    "the target",
    body=TargetBody,
    fails=(NotFound, TargetTaken),
)
async def set_gateway_target(call: KeyMakerCall, sent: Any) -> TargetList:
    return call.note(await call.operations.targets.set_target(sent))


@router.operation(
    "DELETE /targets",
    "Unset the gateway target of a tenant or bank",
    "Waiting deliveries end as skipped, those of replaced targets included, and the keys are deleted; a call in "
    "flight completes.",
    "the unset targets",
)
async def delete_gateway_target(call: OperatorCall, asked: TargetPlace) -> TargetsUnset:
    return call.note(await call.operations.targets.unset_target(asked, call.name))


@router.operation(
    "GET /settings",
    "Get the settings in force",
    "Lists every setting of the process that answers, with its origin; secrets are masked.",
    "the settings",
    fails=(NotFound,),
)
async def get_settings(call: OperatorCall) -> SettingsInForce:
    return call.operations.settings()


@router.operation(
    "GET /doctor",
    "Check the installation",
    "Checks servers, versions, roles, schema, log, disk and gateway targets from the process that answers, and "
    "says what to do. One check runs at a time, and its answer is given for five seconds.",
    "what each check found",
    fails=(NotFound,),
)
async def check_installation(call: OperatorCall) -> Examination:
    return await call.operations.examine()


@router.operation(
    "GET /keys",
    "List a tenant's keys",
    "Lists keys without their secrets, revoked and expired ones included.",
    "the keys",
)
async def list_keys(call: OperatorCall, asked: TenantParameters) -> KeyList:
    return await call.operations.tenant_keys(asked.tenant)


@router.operation(
    "POST /keys",
    "Create a tenant's key",
    "The key works at once and is not shown again. A tenant is created with its first key. It reads content, so "
    "the operator's key must be one that makes keys (`--makes-keys`).",
    "the key",
    status=201,
    body=NewKeyBody,
)
async def create_key(call: KeyMakerCall, sent: Any) -> NewKey:
    return call.note(await call.operations.create_key(sent))


@router.operation(
    "POST /keys/{key_id}/rotate",
    "Rotate a tenant's key",
    "The new key has the same rights; the old one works until the overlap ends. The operator's key must be one "
    "that makes keys (`--makes-keys`).",
    "the new key",
    status=201,
    body=RotateBody,
    fails=(NotFound,),
)
async def rotate_key(call: KeyMakerCall, sent: Any, key_id: KeyId) -> NewKey:
    return call.note(await call.operations.rotate_key(key_id, sent))


@router.operation(
    "DELETE /keys/{key_id}",
    "Revoke a tenant's key",
    "All processes refuse the key within two seconds.",
    "the key is revoked",
    fails=(NotFound,),
)
async def revoke_key(call: OperatorCall, asked: TenantParameters, key_id: KeyId) -> None:
    call.note_tenant(await call.operations.revoke_key(key_id, asked.tenant))


@router.operation(
    "GET /quotas", "Get a tenant's quotas", "Returns the limits and usage of the tenant and its banks.", "the quotas"
)
async def get_quotas(call: OperatorCall, asked: TenantParameters) -> QuotaList:
    return await call.operations.quotas(asked.tenant)


@router.operation(
    "PUT /quotas",
    "Set the quota of a tenant or bank",
    "Sets all limits at once: one that is left out is unlimited. Stored data counts.",
    "the quotas",
    body=QuotaBody,
    fails=(NotFound,),
)
async def set_quota(call: OperatorCall, sent: Any) -> QuotaList:
    return call.note(await call.operations.set_quota(sent))


@router.operation(
    "GET /jobs",
    "List undone and failed work",
    "Lists rows of the ledger page by page, the oldest first: ids, statuses and reasons.",
    "a page",
)
async def list_jobs(call: OperatorCall, asked: JobsParameters) -> JobPage:
    return await call.operations.work.list_jobs(asked, names=call.operator.makes_keys)


@router.operation(
    "GET /jobs/count", "Count undone and failed work", "Counts rows of the ledger by status.", "the counts"
)
async def count_jobs(call: OperatorCall, asked: JobFilter) -> JobCounts:
    return await call.operations.work.count_jobs(asked)


@router.operation(
    "GET /jobs/{job_id}",
    "Get the work of a turn",
    "Returns every stage of a turn and its recorded attempts, by the id of the turn or of one of its rows.",
    "the rows",
    fails=(NotFound,),
)
async def get_job(call: OperatorCall, asked: TargetsParameters, job_id: JobId) -> JobHistory:
    names = asked.names and call.operator.makes_keys
    return call.note(await call.operations.work.show_job(job_id, asked.tenant, names=names))


@router.operation(
    "POST /jobs",
    "Retry or drop quarantined work",
    "Rows are requeued with a fresh attempt budget, or marked as skipped; work in progress is unchanged.",
    "the number of changed rows",
    body=JobsBody,
)
async def change_jobs(call: OperatorCall, sent: Any) -> JobsChanged:
    return call.note(await call.operations.work.change_jobs(call.name, sent))


@router.operation(
    "POST /jobs/matching",
    "Change all work that matches",
    "Retries, drops or settles every row that a filter selects and that was there when `GET "
    "/api/v1/operator/jobs/count` counted. One call changes rows for ten seconds at most; the `cursor` that it "
    "answers asks for the rest.",
    "the number of changed rows",
    body=MatchingBody,
)
async def change_matching_jobs(call: OperatorCall, sent: Any) -> MatchingChanged:
    return call.note(await call.operations.work.change_matching(call.name, sent))


@router.operation(
    "POST /jobs/{job_id}/settle",
    "Settle a delivery",
    "The delivery goes on as an operator found it at the gateway: delivered or not. It is named by the id of its turn.",
    "the delivery is settled",
    body=SettleBody,
    fails=(NotFound, NotSettled),
)
async def settle_delivery(call: OperatorCall, sent: Any, job_id: JobId) -> SettledDelivery:
    return call.note(
        await call.operations.work.settle_delivery(call.name, job_id, sent, names=call.operator.makes_keys)
    )


@router.operation(
    "GET /workers",
    "List worker processes",
    "Lists workers with version, stages, start time and claims.",
    "the processes",
)
async def list_workers(call: OperatorCall) -> WorkerList:
    return await call.operations.work.list_workers()


@router.operation(
    "POST /workers/drain",
    "Drain worker processes",
    "They finish their work within seconds and then stay idle; the list of workers shows when they are drained.",
    "the workers that drain",
    body=DrainBody,
)
async def drain_workers(call: OperatorCall, sent: Any) -> Draining:
    return await call.operations.work.drain_workers(sent)
