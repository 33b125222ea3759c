"""What a turn says by itself: names, places, dates, addresses and durable facts, by rules and without I/O.

Hands out `extract`, `VERSION`, `canonical` and the types of `workers.extraction.model`.
"""

from workers.extraction.canonical import canonical
from workers.extraction.extract import VERSION, extract
from workers.extraction.model import (
    Entity,
    Extraction,
    Fact,
    Mention,
    MentionKind,
    MessageText,
    Span,
    Tier,
    TurnText,
)

__all__ = [
    "VERSION",
    "Entity",
    "Extraction",
    "Fact",
    "Mention",
    "MentionKind",
    "MessageText",
    "Span",
    "Tier",
    "TurnText",
    "canonical",
    "extract",
]
