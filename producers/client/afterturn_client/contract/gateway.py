"""Answers of a Memory Gateway's three calls, as this service gives them to hybrid agents."""

from dataclasses import dataclass
from typing import Literal

from afterturn_client.contract.shape import Shape, SparseShape


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedCount(Shape):
    """What became of the messages."""

    message_count: int
    """number of stored messages; blank and recalled ones are left out"""
    status: Literal["accumulated"] = "accumulated"
    """always `accumulated`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReply(Shape):
    """The messages are durable."""

    request_id: str
    """id of the request; it stands in the log"""
    data: AddedCount
    """what became of it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushStatus(Shape):
    """Extraction has begun."""

    status: Literal["extracted"] = "extracted"
    """always `extracted`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushReply(Shape):
    """Nothing was waiting."""

    request_id: str
    """id of the request; it stands in the log"""
    data: FlushStatus
    """what became of it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Shape):
    """One message or fact."""

    id: str
    """id of the message or fact"""
    session_id: str | None
    """session of it; null: it has none"""
    text: str
    """text of it"""
    score: float
    """how well it fits the query"""
    source_scope: Literal["current_chat", "all_user_memory"]
    """whether it is from this conversation or another"""
    resource_uri: str | None = None
    """address of its resource; null: it has none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReply(SparseShape):
    """The results of a search."""

    results: tuple[SearchResult, ...]
    """results, best first"""
    truncated: bool | None = None
    """true where there was no room for all results"""
    note: str | None = None
    """what was left out, and how to ask for less"""
