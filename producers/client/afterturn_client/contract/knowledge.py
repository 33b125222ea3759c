"""Documents, directives and reflections of a bank."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(Shape):
    """A document; its text is in its units."""

    doc_id: UUID
    """id of the document"""
    content_hash: str | None
    """sha256 of the content, in hexadecimal"""
    title: str | None = field(repr=False)
    """title of the document"""
    metadata: Mapping[str, str] = field(repr=False)
    """metadata by name"""
    occurred_at: datetime | None
    """time of the document; null: none was given"""
    updated_at: datetime
    """time of the last write"""
    units: int
    """number of its chunks"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPage(Shape):
    """A page of a bank's documents, the newest first."""

    docs: tuple[Document, ...]
    """documents, the newest first"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive(Shape):
    """An instruction for the agents that read a bank."""

    directive_id: UUID
    """id of the directive"""
    name: str = field(repr=False)
    """name of the directive"""
    content: str = field(repr=False)
    """instruction for every reader of the bank"""
    priority: int
    """the highest is shown first"""
    laid_down_by: str | None = field(default=None, repr=False)
    """author by the key used: `operator`, `user NAME` or `agent NAME`; null: unknown"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectivePage(Shape):
    """A page of a bank's directives, the most important first."""

    directives: tuple[Directive, ...]
    """directives, the highest priority first"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection(Shape):
    """A text derived from several facts of one subject and key."""

    reflection_id: UUID
    """id of the reflection"""
    content: str = field(repr=False)
    """text of the reflection"""
    updated_at: datetime
    """time of its last change"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionPage(Shape):
    """A page of a bank's reflections, the newest first."""

    reflections: tuple[Reflection, ...]
    """reflections, the newest first"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""
