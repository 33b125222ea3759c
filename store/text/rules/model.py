"""Input and output types of the rules: texts in, mentions, entities and facts out."""

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum


class MentionKind(StrEnum):
    """The kinds of mentions; `name` is a named thing whose kind the rules cannot tell."""

    PERSON = "person"
    PLACE = "place"
    ORGANISATION = "organisation"
    NAME = "name"
    DATE = "date"
    EMAIL = "email"
    URL = "url"
    HANDLE = "handle"


class Tier(StrEnum):
    """How long a fact is worth keeping: L0 for ever, L1 a day, L2 a week."""

    L0 = "L0"
    L1 = "L1"
    L2 = "L2"


@dataclass(frozen=True, slots=True)
class MessageText:
    """One message as the rules see it: who spoke in which role, and what was said."""

    role: str
    content: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class TurnText:
    """One turn as the rules see it; relative dates need `occurred_at` (an aware time)."""

    messages: tuple[MessageText, ...]
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True, order=True)
class TextSpan:
    """A span of characters in a message: `start` included, `end` not."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mention:
    """One mention of an entity or a date in a turn.

    `ordinal` is the message's number in the turn. `span` is None for the speaker, who stands beside the
    text, not in it; else `surface == content[span.start : span.end]`. `entity` is the normalised name of
    the entity meant, None for a date that names no certain day. `day` is the day a date means.
    """

    kind: MentionKind
    ordinal: int
    span: TextSpan | None
    surface: str
    entity: str | None
    day: date | None = None


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """An entity of a turn, once however often it is mentioned: `normalised` is its identity, `name` for people to read.

    A day is an entity named in ISO form.
    """

    normalised: str
    name: str
    kind: MentionKind


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A durable statement of a person about themselves; `span` is that of its value, or of the words that deny it.

    `fact_id` and `key` are its identity together with `subject`, the speaker's name if there is one. `slug`
    is unique within a message. `value` keeps its case and has at most 128 bytes of UTF-8. `statement` is the
    fact as a sentence. `confidence` is between 0 and 1. One that is `denied` holds for no time: it ends the facts of
    its identity that have its value. One that `replaces` others tells who has a role from now on: the others of its
    kind end (`endings.py`).
    """

    fact_id: str
    key: str
    slug: str
    value: str
    tier: Tier
    confidence: float
    subject: str | None
    statement: str
    ordinal: int
    span: TextSpan
    denied: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Extraction:
    """All findings of one turn: mentions and facts in the order of the text, entities by name."""

    mentions: tuple[Mention, ...]
    entities: tuple[ExtractedEntity, ...]
    facts: tuple[ExtractedFact, ...]


def cues(listed: str) -> tuple[str, ...]:
    """Return the words and phrases between bars, of which a text must have one to be read any further."""
    return tuple(listed.split("|"))
