"""Parses requests of erasures, and serialises their receipts."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from afterturn_client.contract.erasures import ErasurePreview, TextsAtModel
from pydantic import Field, model_validator

from producers.service.fields import BankName, Name, SessionName, field_error
from producers.service.wire import RequestModel, WireModel
from store import identity
from store.erasure import Kind, Receipt
from store.tenancy.external_models import SentTexts
from store.tenancy.keys import Grant

#: The field that names the target, by kind of erasure; a bank needs none besides `bank`.
NAMED_BY = {
    "unit": "unit_id",
    "session": "session_id",
    "document": "doc_id",
    "directive": "directive_id",
    "memory": "memory_id",
    "user": "user_id",
    "bank": None,
}


class ErasureBody(RequestModel):
    """The target of an erasure."""

    kind: Literal["unit", "session", "document", "directive", "memory", "user", "bank"] = Field(
        description="what to erase"
    )
    bank: BankName = Field(
        "default",
        description="bank of what is to be erased, or the bank to erase; not for a user, who is erased from all banks",
    )
    unit_id: Name | None = Field(None, description="id of the unit, for the kind `unit`")
    session_id: SessionName | None = Field(
        None, description="the caller's own id of the session, for the kind `session`"
    )
    doc_id: Name | None = Field(None, description="id of the document, for the kind `document`")
    directive_id: Name | None = Field(None, description="id of the directive, for the kind `directive`")
    memory_id: Name | None = Field(
        None, description="id of the single memory, for the kind `memory`: all that had this id"
    )
    user_id: Name | None = Field(None, description="the caller's own id of the user, for the kind `user`")

    @model_validator(mode="after")
    def _names_one_thing(self) -> Self:
        given = {name for name in NAMED_BY.values() if name and getattr(self, name) is not None}
        wanted = {name for name in (NAMED_BY[self.kind],) if name}
        if given != wanted:
            raise field_error(f"a {self.kind} is named by {' and '.join(wanted) or 'its bank alone'}")
        if self.kind == "bank" and "bank" not in self.model_fields_set:
            raise field_error("the bank to erase must be named")
        if self.kind == "user" and "bank" in self.model_fields_set:
            raise field_error("a user is erased from all banks")
        return self

    @property
    def name(self) -> str:
        """The id of the target."""
        named = NAMED_BY[self.kind]
        return str(getattr(self, named)) if named else ""


class UnreachedCopies(WireModel):
    """Copies of erased data that may exist outside this service."""

    gateway_sessions: dict[str, int] = Field(description="number of erased turns that a gateway was told, by session")
    models: list[SentTexts] = Field(description="external models that were sent erased texts")
    elsewhere: list[str] = Field(description="other copies, such as backups")


class ReceiptAnswer(WireModel):
    """The receipt of an erasure: ids and counts, no content."""

    erasure_id: UUID = Field(description="id of the erasure")
    kind: Kind = Field(description="what was erased")
    bank_id: UUID | None = Field(description="id of the bank; null: it is of no single bank")
    target_id: UUID = Field(description="id of what was erased")
    status: Literal["running", "done"] = Field(description="whether it is complete")
    counts: dict[str, int] = Field(description="rows and events that are gone, by kind")
    unreached: UnreachedCopies = Field(description="copies that may exist outside this service")
    stays: list[str] = Field(description="what of a user stays here")
    requested_at: datetime = Field(description="time of the request")
    finished_at: datetime | None = Field(description="time of its end; null: it continues")


def may_see_receipt(grant: Grant, receipt: Receipt) -> bool:
    """Return whether a key may see a receipt that its user and agent can see."""
    if grant.banks is None:
        return receipt.kind is not Kind.USER or grant.agent is None
    names = {*grant.banks, *(grant.space.name(bank) for bank in grant.banks)}
    return receipt.bank_id in {identity.bank_id(grant.host_id, name) for name in names}


def describe_preview(receipt: Receipt, *, complete: bool) -> ErasurePreview:
    """Return what an erasure would take; `complete`: all of it is counted."""
    return ErasurePreview(
        kind=receipt.kind.value,
        bank_id=receipt.bank_id,
        target_id=receipt.target_id,
        complete=complete,
        counts={name: number for name, number in sorted(receipt.counts.items()) if number},
        gateway_sessions=dict(sorted(receipt.delivered.items())),
        models=tuple(TextsAtModel(**asdict(one)) for one in receipt.models),
        elsewhere=tuple(receipt.unreached),
        stays=tuple(receipt.stays),
    )


def as_json(receipt: Receipt) -> dict[str, Any]:
    """Return the API's JSON of a receipt."""
    return {
        "erasure_id": str(receipt.erasure_id),
        "kind": receipt.kind.value,
        "bank_id": receipt.bank_id and str(receipt.bank_id),
        "target_id": str(receipt.target_id),
        "status": "done" if receipt.done else "running",
        "counts": {name: number for name, number in sorted(receipt.counts.items()) if number},
        "unreached": {
            "gateway_sessions": dict(sorted(receipt.delivered.items())),
            "models": [asdict(one) for one in receipt.models],
            "elsewhere": list(receipt.unreached),
        },
        "stays": list(receipt.stays),
        "requested_at": receipt.requested_at.isoformat(),
        "finished_at": receipt.finished_at and receipt.finished_at.isoformat(),
    }
