"""Parses requests of erasures, and describes their receipts."""

from typing import Literal, Self

from afterturn_client.contract.erasures import ErasurePreview, ErasureReceipt, UnreachedCopies
from pydantic import Field, model_validator

from producers.service.fields import BankName, Name, SessionName, field_error
from producers.service.wire import RequestModel
from store import identity
from store.erasure import Kind, Receipt
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
        counts=_list_counts(receipt),
        gateway_sessions=dict(sorted(receipt.delivered.items())),
        models=receipt.models,
        elsewhere=tuple(receipt.unreached),
        stays=tuple(receipt.stays),
    )


def describe_receipt(receipt: Receipt) -> ErasureReceipt:
    """Return a receipt as it is shown."""
    return ErasureReceipt(
        erasure_id=receipt.erasure_id,
        kind=receipt.kind.value,
        bank_id=receipt.bank_id,
        target_id=receipt.target_id,
        status="done" if receipt.done else "running",
        counts=_list_counts(receipt),
        unreached=UnreachedCopies(
            gateway_sessions=dict(sorted(receipt.delivered.items())),
            models=receipt.models,
            elsewhere=tuple(receipt.unreached),
        ),
        stays=tuple(receipt.stays),
        requested_at=receipt.requested_at,
        finished_at=receipt.finished_at,
    )


def _list_counts(receipt: Receipt) -> dict[str, int]:
    return {name: number for name, number in sorted(receipt.counts.items()) if number}
