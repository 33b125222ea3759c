"""Commands on single memories: one text each, written, replaced, read and ended by an id of the caller's choice."""

from typing import Annotated, Any, Literal
from uuid import UUID

from afterturn_client.contract.receipts import ForgottenReceipt, MemoryReceipt
from afterturn_client.contract.units import Unit
from pydantic import AfterValidator, Field

from producers.service.authorisation import Action, require_write
from producers.service.banks import resolve_speaker
from producers.service.bodies import parse_body
from producers.service.dependencies import ServiceDependencies
from producers.service.fields import DefaultBank, End, Moment, Name, SpeakerId, Text, field_error, session_name
from producers.service.framing import strip_frames
from producers.service.redacting import Redactor
from producers.service.turns import Metadata, limit_metadata, limit_text
from producers.service.wire import RequestModel
from producers.settings import ApiSettings
from store.ledger.stages import READY_AT_ONCE, Stage
from store.memory.corrections import PINNED
from store.memory.memories import NewMemory, id_of_text
from store.off_loop import run_off_loop
from store.tenancy.keys import Grant


def _own_text(content: str) -> str:
    """Return a memory's text without frames of recalled text."""
    told = strip_frames(content)
    if not told.strip():
        raise field_error("must not be blank or recalled text alone")
    return told


#: The caller's id of a memory, which can be part of a URL's path.
MemoryId = Annotated[str, AfterValidator(session_name)]


class MemoryBody(RequestModel):
    """A single memory."""

    bank: DefaultBank = "default"
    id: MemoryId | None = Field(
        None, description="the caller's own id of the memory; left out: the same text is the same memory"
    )
    content: Annotated[Text, AfterValidator(_own_text)] = Field(repr=False, description="text of the memory")
    title: Name | None = Field(None, repr=False, description="title of the memory")
    kind: Literal["world", "experience", "opinion", "observation", "mental_model"] = Field(
        "world", description="fact type of the memory"
    )
    user_id: SpeakerId = None
    occurred_at: Moment | None = Field(None, description="time at which it happened; left out: when it is written")
    pinned: bool = Field(False, description="whether every recall of the bank returns it")
    expires_at: End = None
    metadata: Metadata = Field(default_factory=dict, repr=False)


class SingleMemories:
    """Commands on single memories; every call takes the grant of a key."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        """Keep the dependencies and settings; a memory has the size limit of a message."""
        self._dependencies = dependencies
        self._settings = settings

    async def keep(self, grant: Grant, asked: Any) -> MemoryReceipt:
        """Write a memory, or replace the one of this id in every field.

        Raises Invalid, TooLarge, PermissionDenied (another's memory, a pin), QuotaExceeded, RateLimited, TurnBusy.
        """
        require_write(grant)
        body = parse_body(MemoryBody, asked)
        limit_text("content", len(body.content.encode()), self._settings)
        redactor = Redactor.of(self._settings, grant)
        content = await run_off_loop(len(body.content), redactor.redact_text, body.content)
        limit_metadata(body.metadata)
        bank = await self._dependencies.reach(grant, body.bank)
        if body.pinned or body.metadata.get(PINNED) == "true":
            await self._dependencies.authorisation.require(grant, Action.PIN, bank)
        memory = NewMemory(
            bank=bank,
            memory_id=body.id or id_of_text(content),
            content=content,
            kind=body.kind,
            title=body.title and redactor.redact_text(body.title),
            user_id=resolve_speaker(grant, body.user_id),
            occurred_at=body.occurred_at,
            expires_at=body.expires_at,
            metadata=body.metadata | ({PINNED: "true"} if body.pinned else {}),
            agent=grant.agent,
        )
        return await self.write(grant, memory)

    async def write(self, grant: Grant, memory: NewMemory) -> MemoryReceipt:
        """Write a memory that was validated elsewhere into a bank that the key reaches. Raises the errors of `keep`."""

        async def permit(unit: UUID) -> None:
            await self._dependencies.authorisation.require(grant, Action.CORRECT, memory.bank, units=[unit])

        kept = await self._dependencies.memories.keep(grant.host_id, memory, permit)
        if kept.changed:
            self._dependencies.notifier.notify(*READY_AT_ONCE, Stage.PROJECTION)
        return kept

    async def read(self, grant: Grant, bank: str, memory_id: str) -> Unit:
        """Return the unit of a memory. Raises NotFound, PermissionDenied."""
        bank = await self._dependencies.reach(grant, bank)
        unit = await self._dependencies.memories.find(grant.host_id, bank, memory_id)
        return await self._dependencies.units.get(grant.host_id, bank, unit)

    async def end(self, grant: Grant, bank: str, memory_id: str) -> ForgottenReceipt:
        """End a memory, with the facts that have no other source. Raises NotFound, PermissionDenied."""
        require_write(grant)
        bank = await self._dependencies.reach(grant, bank)
        unit = await self._dependencies.memories.find(grant.host_id, bank, memory_id)
        await self._dependencies.authorisation.require(grant, Action.FORGET, bank, units=[unit])
        done = await self._dependencies.memories.end(grant.host_id, bank, memory_id, grant.user)
        self._dependencies.notifier.notify(Stage.PROJECTION)
        return done
