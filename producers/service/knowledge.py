"""Commands and reads of documents, directives, links and reflections, outside recall."""

from typing import Any, Literal, Self
from uuid import UUID

from afterturn_client.contract.banks import DirectiveDetails
from afterturn_client.contract.knowledge import (
    Directive,
    DirectivePage,
    Document,
    DocumentPage,
    Reflection,
    ReflectionPage,
)
from afterturn_client.contract.receipts import DirectiveReceipt, DocumentReceipt, LinkReceipt
from afterturn_client.moments import parse_zoned
from pydantic import Field, model_validator

from producers import fair_queue
from producers.service.authorisation import Action, require_write
from producers.service.banks import describe_keeper, resolve_speaker
from producers.service.bodies import parse_body
from producers.service.dependencies import ServiceDependencies
from producers.service.fields import DefaultBank, End, Moment, Name, SpeakerId, Text, field_error
from producers.service.paging import (
    BankPageParameters,
    ListOrder,
    read_name,
    read_priority,
)
from producers.service.redacting import Redactor
from producers.service.turns import Metadata, limit_metadata, limit_text
from producers.service.wire import RequestModel
from producers.settings import ApiSettings
from store.ledger.stages import READY_AT_ONCE, Stage
from store.memory.directives import NewDirective, NewLink
from store.memory.documents import DocumentPlace, NewDocument, content_hash
from store.off_loop import run_off_loop
from store.tenancy.keys import Grant

LinkKind = Literal["temporal", "semantic", "entity", "causes", "caused_by", "enables", "prevents"]


class _BankBody(RequestModel):
    bank: DefaultBank = "default"


class DocumentBody(_BankBody):
    """A document: its text, or a file whose turns refer to it."""

    content: Text | None = Field(None, min_length=1, description="text of the document")
    content_hash: str | None = Field(
        None,
        pattern="^[0-9a-f]{64}$",
        description="sha256, in hexadecimal, of a file whose turns refer to it; instead of `content`",
    )
    title: Name | None = Field(None, description="title of the document")
    user_id: SpeakerId = None
    occurred_at: Moment | None = Field(None, description="time of the document; left out: none")
    expires_at: End = None
    metadata: Metadata = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.content is None) == (self.content_hash is None):
            raise field_error("needs either content or content_hash")
        if self.content is not None and not self.content.strip():
            raise field_error("content must not be blank")
        return self


class DirectiveBody(_BankBody):
    """A directive."""

    name: Name = Field(description="name of the directive, which identifies it in its bank")
    content: Text = Field(min_length=1, description="instruction for every reader of the bank")
    priority: int = Field(0, ge=-(2**31), lt=2**31, description="the highest is shown first")


class LinkBody(_BankBody):
    """A link between two units of the bank."""

    from_unit_id: str = Field(description="id of the unit that the link leads from")
    to_unit_id: str = Field(description="id of the unit that the link leads to")
    link_type: LinkKind = Field(description="kind of the link")
    weight: float = Field(1.0, ge=0, le=1, allow_inf_nan=False, description="weight of the link, 0 to 1")

    @model_validator(mode="after")
    def _units_are_ids(self) -> Self:
        for value in (self.from_unit_id, self.to_unit_id):
            try:
                UUID(value)
            except ValueError:
                raise field_error("a unit is named by its id") from None
        return self


DOCUMENTS: ListOrder[Document] = ListOrder(
    "docs", lambda one: (one.updated_at.isoformat(), one.doc_id), (parse_zoned, UUID)
)
DIRECTIVES: ListOrder[Directive] = ListOrder(
    "directives", lambda one: (one.priority, one.name, one.directive_id), (read_priority, read_name, UUID)
)
REFLECTIONS: ListOrder[Reflection] = ListOrder(
    "reflections", lambda one: (one.updated_at.isoformat(), one.reflection_id), (parse_zoned, UUID)
)


class Knowledge:
    """Documents, directives, links and reflections of banks; every call takes the grant of a key."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        """Keep the dependencies and settings; a directive has the size limit of a message."""
        self._dependencies = dependencies
        self._settings = settings
        self._documents = dependencies.documents
        self._curation = dependencies.curation
        self._banks = dependencies.banks
        self._notifier = dependencies.notifier

    async def add_document(self, grant: Grant, asked: Any) -> DocumentReceipt:
        """Add a document; the same content again is the same document.

        Raises Invalid, TooLarge, PermissionDenied, QuotaExceeded, RateLimited.
        """
        require_write(grant)
        body = parse_body(DocumentBody, asked)
        limit_metadata(body.metadata)
        redactor = Redactor.of(self._settings, grant)
        content = body.content and await run_off_loop(len(body.content), redactor.redact_text, body.content)
        document = NewDocument(
            bank=await self._dependencies.reach(grant, body.bank),
            content_hash=body.content_hash or content_hash((content or "").encode()),
            text=content,
            title=body.title and redactor.redact_text(body.title),
            user_id=resolve_speaker(grant, body.user_id),
            occurred_at=body.occurred_at,
            expires_at=body.expires_at,
            metadata=body.metadata,
            agent=grant.agent,
        )
        if document.text is None:
            await self._banks.begin(grant.host_id, grant.user, document.bank)
            return await self._documents.register(grant.host_id, document)
        added = await self._documents.add(grant.host_id, document)
        if not added.duplicate:
            self._notifier.notify(*READY_AT_ONCE)
        return added

    async def document(self, grant: Grant, bank: str, doc: UUID) -> Document:
        """Return a document. Raises NotFound, PermissionDenied."""
        return await self._documents.get(grant.host_id, await self._dependencies.reach(grant, bank), doc)

    async def list_documents(self, grant: Grant, asked: BankPageParameters) -> DocumentPage:
        """Return a page of a bank's documents, the last written first. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        place = DOCUMENTS.open(grant.host_id, bank, asked.cursor)
        after = DocumentPlace(*place) if place else None
        found = await self._documents.list(grant.host_id, bank, after, asked.limit)
        fair_queue.charge_tenant(sum(len(value) for one in found.rows for value in one.metadata.values()))
        page = DOCUMENTS.end(grant.host_id, bank, found)
        return DocumentPage(docs=tuple(page.rows), **page.describe_end())

    async def forget_document(self, grant: Grant, bank: str, doc: UUID) -> None:
        """Forget a document and its units. Raises NotFound, PermissionDenied."""
        require_write(grant)
        bank = await self._dependencies.reach(grant, bank)
        await self._dependencies.authorisation.require(grant, Action.FORGET, bank, document=doc)
        await self._documents.forget(grant.host_id, bank, doc, grant.user)
        self._notifier.notify(Stage.PROJECTION)

    async def lay_down(self, grant: Grant, asked: Any) -> DirectiveReceipt:
        """Write a directive.

        Raises Invalid, TooLarge for a text beyond a message's limit, PermissionDenied, QuotaExceeded.
        """
        require_write(grant)
        body = parse_body(DirectiveBody, asked)
        limit_text("content", len(body.content.encode()), self._settings)
        bank = await self._dependencies.reach(grant, body.bank)
        await self._dependencies.authorisation.require(grant, Action.DIRECT, bank)
        await self._banks.begin(grant.host_id, grant.user, bank)
        redactor = Redactor.of(self._settings, grant)
        content = await run_off_loop(len(body.content), redactor.redact_text, body.content)
        new = NewDirective(redactor.redact_text(body.name), content, body.priority, describe_keeper(grant))
        return await self._curation.lay_down(grant.host_id, bank, new, grant.user)

    async def directives(self, grant: Grant, asked: BankPageParameters) -> DirectivePage:
        """Return a page of a bank's directives. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        place = DIRECTIVES.open(grant.host_id, bank, asked.cursor)
        found = await self._curation.directives(grant.host_id, bank, asked.limit, place)
        fair_queue.charge_tenant(sum(len(one.content) for one in found.rows))
        page = DIRECTIVES.end(grant.host_id, bank, found)
        return DirectivePage(directives=tuple(page.rows), **page.describe_end())

    async def directive(self, grant: Grant, bank: str, directive: UUID) -> DirectiveDetails:
        """Return one directive with its version. Raises NotFound, PermissionDenied."""
        bank = await self._dependencies.reach(grant, bank)
        return await self._curation.directive(grant.host_id, bank, directive)

    async def withdraw(self, grant: Grant, bank: str, directive: UUID) -> None:
        """End a directive. Raises NotFound, PermissionDenied."""
        require_write(grant)
        bank = await self._dependencies.reach(grant, bank)
        await self._dependencies.authorisation.require(grant, Action.DIRECT, bank)
        await self._curation.withdraw(grant.host_id, bank, directive, grant.user)

    async def link(self, grant: Grant, asked: Any) -> LinkReceipt:
        """Link two units. Raises Invalid, NotFound, PermissionDenied."""
        require_write(grant)
        body = parse_body(LinkBody, asked)
        bank = await self._dependencies.reach(grant, body.bank)
        link = NewLink(UUID(body.from_unit_id), UUID(body.to_unit_id), body.link_type, body.weight)
        await self._dependencies.authorisation.require(grant, Action.LINK, bank, units=[link.first, link.second])
        return LinkReceipt(changed=await self._curation.link(grant.host_id, bank, link, grant.user))

    async def reflections(self, grant: Grant, asked: BankPageParameters) -> ReflectionPage:
        """Return a page of a bank's reflections. Raises Invalid, PermissionDenied."""
        bank = await self._dependencies.reach(grant, asked.bank)
        return await REFLECTIONS.read_page(
            ReflectionPage,
            grant.host_id,
            bank,
            asked,
            lambda place, most: self._curation.reflections(grant.host_id, bank, most, place),
        )
