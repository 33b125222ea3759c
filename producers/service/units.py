"""Single units: read, corrected, pinned, forgotten, erased."""

from datetime import timedelta
from typing import Any, Self
from uuid import UUID

from afterturn_client.contract.erasures import ErasurePreview
from afterturn_client.contract.receipts import CorrectionReceipt, ForgottenReceipt
from afterturn_client.contract.units import Unit
from pydantic import Field, model_validator

from producers.errors import FieldProblem, Invalid
from producers.service.authorisation import Action, require_user_erasure, require_write
from producers.service.bodies import parse_body
from producers.service.dependencies import ServiceDependencies
from producers.service.erasures import ErasureBody, describe_preview, may_see_receipt
from producers.service.fields import Moment, Text, field_error
from producers.service.redacting import Redactor
from producers.service.turns import limit_text
from producers.service.wire import RequestModel
from producers.settings import ApiSettings
from store.erasure import ErasureTarget, Kind, Receipt
from store.errors import NotFound, ResourceBusy
from store.gen_ai_spans import MemoryOperation, trace_memory
from store.ledger.stages import Stage
from store.log.catalog import Aggregate
from store.off_loop import run_off_loop
from store.tenancy.banks import scope_of
from store.tenancy.keys import Grant

#: How long a preview counts: the writers of the bank wait meanwhile.
PREVIEW_FOR = timedelta(seconds=1)
#: How long a request works on an erasure before the answer; the sweeper does the rest.
ERASE_FOR = timedelta(seconds=5)


class CorrectionBody(RequestModel):
    """The new text of a unit, or its end."""

    content: Text | None = Field(None, repr=False, description="new text of the unit")
    expires_at: Moment | None = Field(
        None, description="instead of `content`: time from which on no answer shows it; null: never"
    )
    version: int | None = Field(
        None, ge=1, lt=2**63, description="version of the unit that was seen: another one is a conflict; left out: any"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.content is None) == ("expires_at" not in self.model_fields_set):
            raise field_error("needs content or expires_at, one of them")
        return self


class UnitCalls:
    """Reads, corrects, pins and forgets units; requests erasures of any target, and reads their receipts."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        self._dependencies = dependencies
        self._settings = settings

    async def get(self, grant: Grant, bank: str, unit: UUID) -> Unit:
        """Return one unit with its provenance. Raises NotFound, PermissionDenied."""
        bank = await self._dependencies.reach(grant, bank)
        return await self._dependencies.units.get(grant.host_id, bank, unit)

    async def correct(self, grant: Grant, bank: str, unit: UUID, asked: Any) -> CorrectionReceipt:
        """Change one unit's text, or set its end; facts drawn from it as it was end.

        Raises Invalid, TooLarge, NotFound, PermissionDenied, TurnBusy, ConcurrencyError (another version was seen).
        """
        require_write(grant)
        body = parse_correction(asked, self._settings)
        bank = await self._reach_unit(grant, Action.CORRECT, bank, unit)
        told = await self._change(grant, bank, unit, body)
        if told.changed:
            self._dependencies.notifier.notify(Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION)
        return told

    async def _change(self, grant: Grant, bank: str, unit: UUID, body: CorrectionBody) -> CorrectionReceipt:
        units, host, version = self._dependencies.units, grant.host_id, body.version
        if body.content is None:
            return await units.end(host, bank, unit, body.expires_at, version=version, user=grant.user)
        redact = Redactor.of(self._settings, grant).redact_text
        content = await run_off_loop(len(body.content), redact, body.content)
        return await units.correct(host, bank, unit, content, version=version, user=grant.user)

    async def pin(self, grant: Grant, bank: str, unit: UUID, *, pinned: bool) -> CorrectionReceipt:
        """Pin one unit, so that every answer of its bank holds it, or unpin it. Raises NotFound, PermissionDenied."""
        require_write(grant)
        bank = await self._dependencies.reach(grant, bank)
        await self._dependencies.authorisation.require(grant, Action.PIN, bank)
        told = await self._dependencies.units.pin(grant.host_id, bank, unit, pinned=pinned, user=grant.user)
        if told.changed:
            self._dependencies.notifier.notify(Stage.EMBEDDING)
        return told

    async def forget(
        self,
        grant: Grant,
        bank: str,
        unit: UUID,
        *,
        with_facts: bool = True,
        version: int | None = None,
        only: Aggregate | None = None,
    ) -> ForgottenReceipt:
        """Forget one unit, and the facts drawn from it that have no other source: see store.memory.units.

        Raises NotFound, PermissionDenied, ConcurrencyError (another version than `version`).
        """
        require_write(grant)
        bank = await self._reach_unit(grant, Action.FORGET, bank, unit)
        done = await self._dependencies.units.forget(
            grant.host_id, bank, unit, grant.user, with_facts=with_facts, version=version, only=only
        )
        self._dependencies.notifier.notify(Stage.PROJECTION)
        return done

    async def erase(self, grant: Grant, asked: Any) -> Receipt:
        """Erase the body's target; return the receipt. A large erasure goes on after this returns.

        A repeated request continues it, with what was written since, or finds nothing left. Raises Invalid, NotFound,
        PermissionDenied; ResourceBusy where it could not be accepted.
        """
        require_write(grant)
        body = parse_body(ErasureBody, asked)
        target = await self._build_target(grant, body)
        erasures, host = self._dependencies.erasures, grant.host_id
        erasure = await erasures.request(host, target)
        try:
            with trace_memory(MemoryOperation.DELETE, host):
                return await erasures.run(host, erasure, ERASE_FOR)
        except ResourceBusy:
            # The erasure is accepted: the sweeper continues it.
            return await erasures.receipt(host, erasure)

    async def preview_erasure(self, grant: Grant, asked: Any) -> ErasurePreview:
        """Return the preview of an erasure of the body's target; nothing changes.

        Raises Invalid, NotFound, PermissionDenied, ResourceBusy.
        """
        require_write(grant)
        target = await self._build_target(grant, parse_body(ErasureBody, asked))
        receipt, complete = await self._dependencies.erasures.preview(grant.host_id, target, PREVIEW_FOR)
        return describe_preview(receipt, complete=complete)

    async def _reach_unit(self, grant: Grant, action: Action, bank: str, unit: UUID) -> str:
        """Return the whole name of the bank of a unit that a key may change. Raises NotFound, PermissionDenied."""
        name = await self._dependencies.reach(grant, bank)
        await self._dependencies.authorisation.require(grant, action, name, units=[unit])
        return name

    async def _build_target(self, grant: Grant, body: ErasureBody) -> ErasureTarget:
        """Return the target of an erasure that a key may request. Raises NotFound, PermissionDenied."""
        if body.kind == "user":
            require_user_erasure(grant, body.name)
            return ErasureTarget(Kind.USER, None, body.name)
        bank = await self._dependencies.reach(grant, body.bank)
        target = ErasureTarget(Kind(body.kind), bank, body.name)
        thing, require = target.ids(grant.host_id)[1], self._dependencies.authorisation.require
        match target.kind:
            case Kind.UNIT:
                await require(grant, Action.ERASE, bank, units=[thing])
            case Kind.MEMORY:
                lives = await self._dependencies.memories.list_lives(grant.host_id, bank, body.name)
                await require(grant, Action.ERASE, bank, units=lives)
            case Kind.DOCUMENT:
                await require(grant, Action.ERASE, bank, document=thing)
            case Kind.DIRECTIVE:
                await require(grant, Action.DIRECT, bank)
            case _:
                await require(grant, Action.ERASE_SHARED, bank)
        return target

    async def read_receipt(self, grant: Grant, erasure: UUID) -> Receipt:
        """Return the receipt of an erasure, done or not. Raises NotFound."""
        receipt = await self._dependencies.erasures.receipt(
            grant.host_id, erasure, *scope_of(grant.host_id, grant.space)
        )
        if not may_see_receipt(grant, receipt):
            raise NotFound("no such erasure")
        return receipt


def parse_correction(value: Any, settings: ApiSettings) -> CorrectionBody:
    """Return the correction in a JSON value. Raises Invalid, or TooLarge for a text beyond a message's limit."""
    body = parse_body(CorrectionBody, value)
    if body.content is None:
        return body
    if not body.content.strip():
        raise Invalid(FieldProblem("content", "must not be blank; to remove a unit, delete it"))
    limit_text("content", len(body.content.encode()), settings)
    return body
