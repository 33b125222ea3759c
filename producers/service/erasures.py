"""Erasures as they are asked for, and the receipt on the wire."""

from dataclasses import asdict
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, model_validator

from producers.service.fields import BankName, Name, SessionName, field_error
from store import identity
from store.erasure import Kind, Receipt
from store.tenancy.keys import Grant

#: Which field names what is erased; a bank needs none beside its own.
NAMED_BY = {"unit": "unit_id", "session": "session_id", "user": "user_id", "bank": None}


class ErasureBody(BaseModel):
    """What is to be gone: `kind` says what, the field of its name says which; a user is gone from all banks."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: Literal["unit", "session", "user", "bank"]
    bank: BankName = "default"
    unit_id: Name | None = None
    session_id: SessionName | None = None
    user_id: Name | None = None

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
        """What the thing is called."""
        return self.unit_id or self.session_id or self.user_id or ""


def may_see_receipt(grant: Grant, receipt: Receipt) -> bool:
    """Say whether a key may see a receipt that is in sight of its user and agent."""
    if grant.banks is None:
        return receipt.kind is not Kind.USER or grant.agent is None
    names = {*grant.banks, *(grant.space.name(bank) for bank in grant.banks)}
    return receipt.bank_id in {identity.bank_id(grant.host_id, name) for name in names}


def scope_of(grant: Grant) -> tuple[UUID | None, UUID | None]:
    """Return the user and the agent a key is limited to."""
    host = grant.host_id
    user = None if grant.user is None else identity.user_id(host, grant.user)
    return user, None if grant.agent is None else identity.agent_id(host, grant.agent)


def as_json(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as it is told outside."""
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
