"""Banks: made before their first turn, and listed."""

from typing import Any

from afterturn_client.contract.banks import BankDetails, BankPage, ChangedBank, MadeBank
from fastapi import Response

from producers.http.authentication import HeavyCall, TenantCall
from producers.http.openapi import LIMITED, WRITING, CallerClass
from producers.http.operation_router import OperationRouter
from producers.http.requests import BankPlace, PathBank, json_response
from producers.service.banks import BankBody, BankChange, BanksParameters
from store.errors import NotFound

router = OperationRouter(prefix="/api/v1", tags=["banks"])


@router.operation(
    "POST /banks",
    "Create a bank of the tenant, an agent or a user",
    "Idempotent. A bank is also created by its first turn.",
    {201: "the bank was created", 200: "the bank already existed"},
    shape=MadeBank,
    access=CallerClass.WRITER,
    body=BankBody,
    fails=LIMITED,
)
async def create_bank(call: HeavyCall, sent: Any) -> Response:
    made = await call.memory.create_bank(call.grant, sent)
    return json_response(made, 201 if made.created else 200)


@router.operation(
    "GET /banks",
    "List banks",
    "Lists the banks that the key can read, by name; `after` continues behind a name. Banks that the runtime of "
    "an agent made for one session are left out unless `runtime` asks for them.",
    "a page",
)
async def list_banks(call: TenantCall, asked: BanksParameters) -> BankPage:
    return await call.memory.list_banks(call.grant, asked)


@router.operation(
    "GET /bank",
    "Get a bank",
    "Returns one bank with its id in the log, its background, disposition and version.",
    "the bank",
    fails=(NotFound,),
)
async def get_bank(call: TenantCall, asked: BankPlace) -> BankDetails:
    return await call.memory.bank(call.grant, asked.bank)


@router.operation(
    "PATCH /banks/{bank:name}",
    "Change a bank's language or expiry",
    "New words are cut by the new language at once, older ones follow until `settled`. With `expires_at` "
    "null it never ends; one that has expired is there again until workers end "
    "it, within minutes; after that, `POST /api/v1/banks` begins it anew, empty.",
    "the bank as it is from now on",
    access=CallerClass.KEEPER,
    body=BankChange,
    fails=(NotFound, *WRITING),
)
async def change_bank(call: TenantCall, sent: Any, bank: PathBank) -> ChangedBank:
    return await call.memory.change_bank(call.grant, bank, sent)


@router.operation(
    "PATCH /banks",
    "Change a bank, its name as a parameter",
    "The same as with the name in the path, for names that a client or proxy would rewrite.",
    "the bank as it is from now on",
    access=CallerClass.KEEPER,
    body=BankChange,
    fails=(NotFound, *WRITING),
)
async def change_bank_by_query(call: TenantCall, asked: BankPlace, sent: Any) -> ChangedBank:
    return await call.memory.change_bank(call.grant, asked.bank, sent)
