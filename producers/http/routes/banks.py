"""Banks: made before their first turn, and listed."""

from afterturn_client.contract.banks import BankDetails, BankPage, ChangedBank, MadeBank
from fastapi import APIRouter, Request, Response

from producers.http.authentication import HeavyCall, TenantCall
from producers.http.openapi import LIMITED, WRITING, CallerClass, DescribedAnswer, describe_route
from producers.http.reads import add_read
from producers.http.requests import BankPlace, PathBank, json_response, read_body, read_parameters
from producers.service.banks import BankBody, BankChange, BanksParameters
from store.errors import NotFound

CHANGED = {200: DescribedAnswer("the bank as it is from now on", (ChangedBank,))}

router = APIRouter(prefix="/api/v1", tags=["banks"])


@router.post(
    "/banks",
    **describe_route(
        "Create a bank of the tenant, an agent or a user",
        "Idempotent. A bank is also created by its first turn.",
        CallerClass.WRITER,
        {
            201: DescribedAnswer("the bank was created", (MadeBank,)),
            200: DescribedAnswer("the bank already existed", (MadeBank,)),
        },
        body=BankBody,
        fails=LIMITED,
    ),
)
async def create_bank(request: Request, call: HeavyCall) -> Response:
    made = await call.memory.create_bank(call.grant, await read_body(request))
    return json_response(made, 201 if made.created else 200)


@add_read(
    router,
    "/banks",
    "List banks",
    "Lists the banks that the key can read, by name; `after` continues behind a name. Banks that the runtime of "
    "an agent made for one session are left out unless `runtime` asks for them.",
    "a page",
)
async def list_banks(call: TenantCall, asked: BanksParameters) -> BankPage:
    return await call.memory.list_banks(call.grant, asked)


@add_read(
    router,
    "/bank",
    "Get a bank",
    "Returns one bank with its id in the log, its background, disposition and version.",
    "the bank",
    fails=(NotFound,),
)
async def get_bank(call: TenantCall, asked: BankPlace) -> BankDetails:
    return await call.memory.bank(call.grant, asked.bank)


@router.patch(
    "/banks/{bank:name}",
    **describe_route(
        "Change a bank's language or expiry",
        "New words are cut by the new language at once, older ones follow until `settled`. With `expires_at` "
        "null it never ends; one that has expired is there again until workers end "
        "it, within minutes; after that, `POST /api/v1/banks` begins it anew, empty.",
        CallerClass.KEEPER,
        CHANGED,
        body=BankChange,
        fails=(NotFound, *WRITING),
    ),
)
async def change_bank(request: Request, call: TenantCall, bank: PathBank) -> Response:
    return json_response(await call.memory.change_bank(call.grant, bank, await read_body(request)))


@router.patch(
    "/banks",
    **describe_route(
        "Change a bank, its name as a parameter",
        "The same as with the name in the path, for names that a client or proxy would rewrite.",
        CallerClass.KEEPER,
        CHANGED,
        body=BankChange,
        query=BankPlace,
        fails=(NotFound, *WRITING),
    ),
)
async def change_bank_by_query(request: Request, call: TenantCall) -> Response:
    bank = read_parameters(request, BankPlace).bank
    return json_response(await call.memory.change_bank(call.grant, bank, await read_body(request)))
