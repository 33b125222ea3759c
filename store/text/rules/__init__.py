"""Extraction rules: names, places, dates, addresses and durable facts of a turn. Pure.

Hands out `extract_turn`, `VERSION`, `canonical_name` and the types of `store.text.rules.model`.
"""

from store.text.rules.canonical import canonical_name
from store.text.rules.extract import VERSION, extract_turn
from store.text.rules.model import (
    ExtractedEntity,
    ExtractedFact,
    Extraction,
    Mention,
    MentionKind,
    MessageText,
    TextSpan,
    Tier,
    TurnText,
)

__all__ = [
    "VERSION",
    "ExtractedEntity",
    "ExtractedFact",
    "Extraction",
    "Mention",
    "MentionKind",
    "MessageText",
    "TextSpan",
    "Tier",
    "TurnText",
    "canonical_name",
    "extract_turn",
]
