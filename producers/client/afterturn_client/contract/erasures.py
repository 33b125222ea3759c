"""What an erasure would do, before it is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class TextsAtModel(Shape):
    """Texts that an external model was sent; it may have kept them."""

    purpose: str
    """what they were sent for"""
    endpoint: str
    """address of the model"""
    texts: int
    """number of texts"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePreview(Shape):
    """What an erasure would take: ids and counts, no content. Nothing has changed."""

    kind: str
    """what would be erased"""
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
    """what of a user would stay here"""
