"""Receipts of writes. A recall with `position` as its `min_position` shows what was written."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from afterturn_client.contract.failures import Failure
from afterturn_client.contract.knowledge import Directive
from afterturn_client.contract.shape import Done, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTurn(Done):
    """The turn is durable."""

    position: int
    """position of this in the event log: a recall with it as `min_position` shows this"""
    duplicate: bool
    """whether the turn was stored before"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRefusal(Shape):
    """A refused turn of a batch, with the error; the other turns are not affected."""

    ok: Literal[False] = False
    """always false"""
    error: Failure
    """why this turn was refused"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReceipt(Shape):
    """The results of a batch."""

    results: tuple[StoredTurn | TurnRefusal, ...]
    """the result of each turn, in the order of the request"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentReceipt(Done):
    """The document is durable."""

    doc_id: UUID
    """id of the document; the same content has the same"""
    position: int
    """position of this in the event log: a recall with it as `min_position` shows this"""
    duplicate: bool
    """whether the document was stored before"""
    units: int
    """number of its chunks"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectiveReceipt(Directive, Done):
    """The directive as it is from now on."""

    changed: bool
    """false where it was the same before"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReceipt(Done):
    """The link is made."""

    changed: bool
    """false where the link was the same before"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReceipt(Done):
    """The memory is durable and readable."""

    id: str
    """the caller's own id of the memory, or the one made of its text"""
    unit_id: UUID
    """id of the unit"""
    position: int
    """position of this in the event log: a recall with it as `min_position` shows this"""
    created: bool
    """whether there was none of this id"""
    changed: bool
    """whether something was written"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionReceipt(Done):
    """The unit has the new text, end or pin."""

    unit_id: UUID
    """id of the unit"""
    position: int
    """position of this in the event log: a recall with it as `min_position` shows this"""
    changed: bool
    """false where the unit had this text, end or pin before"""
    facts_ended: int
    """number of facts that ended with the old text or end"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenReceipt(Done):
    """The unit is forgotten."""

    unit_id: UUID
    """id of the unit"""
    position: int
    """position of this in the event log: a recall with it as `min_position` shows this"""
    facts_forgotten: int
    """number of facts that were forgotten with it, since nothing else says them"""
