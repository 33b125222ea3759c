"""The preview and the receipt of an erasure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class TextsAtModel(Shape):
    """Texts that an external model was sent; it may have kept them."""

    purpose: str
    """purpose for which they were sent"""
    endpoint: str
    """address of the model"""
    texts: int
    """number of texts"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePreview(Shape):
    """The preview of an erasure: ids and counts, no content. Nothing has changed."""

    kind: str
    """kind of the target"""
    bank_id: UUID | None
    """id of the bank; null: it is of no single bank"""
    target_id: UUID
    """id of what would be erased"""
    complete: bool
    """whether all was counted; false: there is more than the time allowed to count"""
    counts: Mapping[str, int]
    """rows and events that would be gone, by kind"""
    gateway_sessions: Mapping[str, int]
    """number of its turns that a gateway was told, by session: they would stay there"""
    models: tuple[TextsAtModel, ...]
    """external models that were sent its texts"""
    elsewhere: tuple[str, ...]
    """other copies that would stay, such as backups"""
    stays: tuple[str, ...]
    """content about a user that would stay here"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachedCopies(Shape):
    """Copies of erased data that may exist outside this service."""

    gateway_sessions: Mapping[str, int]
    """number of erased turns that a gateway was told, by session"""
    models: tuple[TextsAtModel, ...]
    """external models that were sent erased texts"""
    elsewhere: tuple[str, ...]
    """other copies, such as backups"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReceipt(Shape):
    """The receipt of an erasure: ids and counts, no content."""

    erasure_id: UUID
    """id of the erasure"""
    kind: str
    """kind of the target: a `unit`, `session`, `document`, `directive`, `memory`, `user` or `bank`"""
    bank_id: UUID | None
    """id of the bank; null: it is of no single bank"""
    target_id: UUID
    """id of what was erased"""
    status: Literal["running", "done"]
    """whether it is complete"""
    counts: Mapping[str, int]
    """rows and events that are gone, by kind"""
    unreached: UnreachedCopies
    """copies that may exist outside this service"""
    stays: tuple[str, ...]
    """content about a user that stays here"""
    requested_at: datetime
    """time of the request"""
    finished_at: datetime | None
    """time of its end; null: it continues"""
