"""Documents, directives, links, reflections, and the profile of a person."""

from typing import Annotated, Any
from uuid import UUID

from afterturn_client.contract.banks import DirectiveDetails
from afterturn_client.contract.facts import Profile
from afterturn_client.contract.knowledge import DirectivePage, Document, DocumentPage, ReflectionPage
from afterturn_client.contract.receipts import DirectiveReceipt, DocumentReceipt, LinkReceipt
from fastapi import Response

from producers.http.authentication import TenantCall
from producers.http.openapi import LIMITED, WRITING, CallerClass
from producers.http.operation_router import OperationRouter
from producers.http.requests import BankParameters, describe_id, json_response
from producers.http.routes.erasures import ERASED, ERASING, DeleteParameters, erase_thing
from producers.service.knowledge import DirectiveBody, DocumentBody, LinkBody
from producers.service.paging import BankPageParameters
from producers.service.profiles import ProfileParameters
from store.errors import NotFound

DocumentId = Annotated[UUID, describe_id("the document")]

DirectiveId = Annotated[UUID, describe_id("the directive")]

router = OperationRouter(prefix="/api/v1", tags=["knowledge"])


@router.operation(
    "POST /docs",
    "Store a document, or register the file of turns",
    "The document is durable when this answers; the same content again is the same document.",
    {201: "the document was stored", 200: "the document already existed"},
    shape=DocumentReceipt,
    access=CallerClass.WRITER,
    body=DocumentBody,
    fails=LIMITED,
)
async def add_document(call: TenantCall, sent: Any) -> Response:
    added = await call.memory.knowledge.add_document(call.grant, sent)
    return json_response(added, 200 if added.duplicate else 201)


@router.operation(
    "GET /docs/{doc_id}",
    "Get a document",
    "Returns the document's metadata and number of units; its text is in the units.",
    "the document",
    fails=(NotFound,),
)
async def get_document(call: TenantCall, asked: BankParameters, doc_id: DocumentId) -> Document:
    return await call.memory.knowledge.document(call.grant, asked.bank, doc_id)


@router.operation(
    "GET /docs", "List documents", "Newest first; a document that is added meanwhile shifts no page.", "a page"
)
async def list_documents(call: TenantCall, asked: BankPageParameters) -> DocumentPage:
    return await call.memory.knowledge.list_documents(call.grant, asked)


@router.operation(
    "DELETE /docs/{doc_id}",
    "Forget a document and its units, or erase them permanently",
    "No read shows the document or its units any more when this answers. `erase` takes them out of the log as "
    "well, also after they were forgotten, and answers with the receipt.",
    {204: "the document is forgotten", 200: ERASED, 202: ERASING},
    access=CallerClass.CHANGER,
    fails=(NotFound, *WRITING),
)
async def forget_document(call: TenantCall, asked: DeleteParameters, doc_id: DocumentId) -> Response | None:
    if asked.erase:
        return await erase_thing(call, {"kind": "document", "bank": asked.bank, "doc_id": str(doc_id)})
    await call.memory.knowledge.forget_document(call.grant, asked.bank, doc_id)
    return None


@router.operation(
    "POST /directives",
    "Create or change a directive",
    "Every recall of the bank returns its directives. The name identifies a directive.",
    {201: "the directive was created or changed", 200: "the directive is unchanged"},
    shape=DirectiveReceipt,
    access=CallerClass.CURATOR,
    body=DirectiveBody,
    fails=LIMITED,
)
async def set_directive(call: TenantCall, sent: Any) -> Response:
    told = await call.memory.knowledge.lay_down(call.grant, sent)
    return json_response(told, 201 if told.changed else 200)


@router.operation(
    "GET /directives",
    "List directives",
    "Lists active directives with their authors, the highest priority first.",
    "the directives",
)
async def list_directives(call: TenantCall, asked: BankPageParameters) -> DirectivePage:
    return await call.memory.knowledge.directives(call.grant, asked)


@router.operation(
    "GET /directives/{directive_id}",
    "Get a directive",
    "Returns one directive with its version, which a command may expect.",
    "the directive",
    fails=(NotFound,),
)
async def get_directive(call: TenantCall, asked: BankParameters, directive_id: DirectiveId) -> DirectiveDetails:
    return await call.memory.knowledge.directive(call.grant, asked.bank, directive_id)


@router.operation(
    "DELETE /directives/{directive_id}",
    "Delete a directive, or erase it permanently",
    "No recall returns the directive any more. `erase` takes its versions out of the log as well, also after it "
    "was deleted, and answers with the receipt.",
    {204: "the directive is deleted", 200: ERASED, 202: ERASING},
    access=CallerClass.CURATOR,
    fails=(NotFound, *WRITING),
)
async def delete_directive(call: TenantCall, asked: DeleteParameters, directive_id: DirectiveId) -> Response | None:
    if asked.erase:
        return await erase_thing(call, {"kind": "directive", "bank": asked.bank, "directive_id": str(directive_id)})
    await call.memory.knowledge.withdraw(call.grant, asked.bank, directive_id)
    return None


@router.operation(
    "POST /links",
    "Link two units of a bank",
    "Idempotent: the same link again changes nothing.",
    {201: "the link was created or changed", 200: "the link is unchanged"},
    shape=LinkReceipt,
    access=CallerClass.CHANGER,
    body=LinkBody,
    fails=(NotFound, *LIMITED),
)
async def link_units(call: TenantCall, sent: Any) -> Response:
    told = await call.memory.knowledge.link(call.grant, sent)
    return json_response(told, 201 if told.changed else 200)


@router.operation(
    "GET /reflections",
    "List reflections",
    "Lists the reflections that workers derived from the bank's facts.",
    "the reflections",
)
async def list_reflections(call: TenantCall, asked: BankPageParameters) -> ReflectionPage:
    return await call.memory.knowledge.reflections(call.grant, asked)


@router.operation(
    "GET /profile",
    "Get a person's profile",
    "Tells the facts that hold, with their sources; with `history`, what they replaced, too. A key of a user "
    "asks about its own user, and by name in a bank it reaches.",
    "the profile",
)
async def get_profile(call: TenantCall, asked: ProfileParameters) -> Profile:
    return await call.memory.profile(call.grant, asked)
