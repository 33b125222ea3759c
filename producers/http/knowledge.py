"""Documents in, directives and links laid down, reflections out."""

from fastapi import APIRouter, Request, Response

from producers.http.openapi import describe_route
from producers.http.reading import BankParameters, body_of, grant_of, json_response, parse_identifier, read_parameters
from producers.service.knowledge import DirectiveBody, DocumentBody, DocumentsParameters, LinkBody, ListParameters
from producers.service.memory import Memory
from store.memory.directives import Directive
from store.memory.documents import Document
from store.tenancy.keys import Keys


def knowledge_routes(memory: Memory, keys: Keys) -> APIRouter:
    """Return the routes of documents, directives, links and reflections."""
    router = APIRouter(prefix="/api/v1", tags=["knowledge"])
    _add_document_routes(router, memory, keys)
    _add_curation_routes(router, memory, keys)
    return router


def _add_document_routes(router: APIRouter, memory: Memory, keys: Keys) -> None:
    @router.post("/docs", **describe_route("Take in a document, or name the file of turns", DocumentBody, created=True))
    async def add(request: Request) -> Response:
        grant = await grant_of(request, keys)
        added = await memory.knowledge.add_document(grant, await body_of(request))
        told = {"position": added.position, "duplicate": added.duplicate, "units": added.units}
        return json_response({"ok": True, "doc_id": str(added.doc_id), **told}, 200 if added.duplicate else 201)

    @router.get("/docs/{doc_id}", **describe_route("A document", query=BankParameters))
    async def one(request: Request, doc_id: str) -> Response:
        grant = await grant_of(request, keys)
        bank = read_parameters(request, BankParameters).bank
        found = await memory.knowledge.document(grant, bank, parse_identifier(doc_id))
        return json_response(_document_json(found))

    @router.get("/docs", **describe_route("The documents of a bank, page by page", query=DocumentsParameters))
    async def documents(request: Request) -> Response:
        grant = await grant_of(request, keys)
        page = await memory.knowledge.list_documents(grant, read_parameters(request, DocumentsParameters))
        shown = [_document_json(one) for one in page.documents]
        return json_response({"docs": shown, "cursor": page.cursor, "has_more": page.cursor is not None})

    @router.delete("/docs/{doc_id}", **describe_route("Forget a document and its units", query=BankParameters))
    async def forget(request: Request, doc_id: str) -> Response:
        grant = await grant_of(request, keys)
        bank = read_parameters(request, BankParameters).bank
        await memory.knowledge.forget_document(grant, bank, parse_identifier(doc_id))
        return Response(status_code=204)


def _add_curation_routes(router: APIRouter, memory: Memory, keys: Keys) -> None:
    @router.post("/directives", **describe_route("Make or change a directive", DirectiveBody, created=True))
    async def lay_down(request: Request) -> Response:
        grant = await grant_of(request, keys)
        directive, changed = await memory.knowledge.lay_down(grant, await body_of(request))
        return json_response({"ok": True, **_directive_json(directive), "changed": changed}, 201 if changed else 200)

    @router.get("/directives", **describe_route("The directives of a bank", query=ListParameters))
    async def directives(request: Request) -> Response:
        grant = await grant_of(request, keys)
        found = await memory.knowledge.directives(grant, read_parameters(request, ListParameters))
        return json_response({"directives": [_directive_json(one) for one in found]})

    @router.delete("/directives/{directive_id}", **describe_route("End a directive", query=BankParameters))
    async def withdraw(request: Request, directive_id: str) -> Response:
        grant = await grant_of(request, keys)
        bank = read_parameters(request, BankParameters).bank
        await memory.knowledge.withdraw(grant, bank, parse_identifier(directive_id))
        return Response(status_code=204)

    @router.post("/links", **describe_route("Link two units of a bank", LinkBody, created=True))
    async def link(request: Request) -> Response:
        grant = await grant_of(request, keys)
        changed = await memory.knowledge.link(grant, await body_of(request))
        return json_response({"ok": True, "changed": changed}, 201 if changed else 200)

    @router.get("/reflections", **describe_route("What a bank came to see in its facts", query=ListParameters))
    async def reflections(request: Request) -> Response:
        grant = await grant_of(request, keys)
        found = await memory.knowledge.reflections(grant, read_parameters(request, ListParameters))
        shown = [
            {"reflection_id": str(one.reflection_id), "content": one.content, "updated_at": one.updated_at}
            for one in found
        ]
        return json_response({"reflections": shown})


def _document_json(document: Document) -> dict[str, object]:
    return {
        "doc_id": str(document.doc_id),
        "content_hash": document.content_hash,
        "title": document.title,
        "metadata": document.metadata,
        "occurred_at": document.occurred_at,
        "updated_at": document.updated_at,
        "units": document.units,
    }


def _directive_json(directive: Directive) -> dict[str, object]:
    return {
        "directive_id": str(directive.directive_id),
        "name": directive.name,
        "content": directive.content,
        "priority": directive.priority,
        "laid_down_by": directive.laid_down_by,
    }
