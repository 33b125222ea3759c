"""Frames recalled text as untrusted data, by the same function as in the agent's process.

A frame is a message of the user's role, never of the system's. Its form, and how it is taken out again, is the
client's `reference` module: both sides must agree to the letter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from afterturn_client import reference
from afterturn_client.reference import strip_frames

__all__ = ["ReferenceDirective", "ReferenceItem", "frame_message", "strip_frames"]


@dataclass(frozen=True, slots=True)
class ReferenceItem:
    """One recalled unit as shown to an agent; `session` and `turn` are the agent's own ids.

    `confidence` is how sure a fact is, from 0 to 1; what was said was said, and has none.
    """

    id: str | None
    text: str
    score: float | None
    session: str | None = None
    turn: str | None = None
    role: str | None = None
    name: str | None = None
    time: datetime | None = None
    source_scope: str | None = None
    resource_uri: str | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class ReferenceDirective:
    """A directive as shown to an agent, with its author."""

    name: str
    text: str
    laid_down_by: str


def frame_message(
    items: Sequence[ReferenceItem], directives: Sequence[ReferenceDirective] = ()
) -> dict[str, str] | None:
    r"""Return the message for an agent to put before the user's own text, or None when there is nothing to show.

    The message is `{"role": "user", "content": "<memory_reference>\n{json}\n</memory_reference>"}`; empty fields
    of items are left out, scores are text. Directives come first, in `<memory_directives>` of their own. Its size was
    limited by `k` and `max_tokens` already.
    """
    standing = reference.frame_directives([asdict(one) for one in directives])
    recalled = reference.frame([_framed_item(item) for item in items], max_characters=None)
    content = "".join(part for part in (standing, recalled) if part)
    return {"role": "user", "content": content} if content else None


def _framed_item(item: ReferenceItem) -> Mapping[str, str | None]:
    return {
        "id": item.id,
        "session": item.session,
        "turn": item.turn,
        "role": item.role,
        "name": item.name,
        "time": None if item.time is None else item.time.isoformat(),
        "confidence": None if item.confidence is None else f"{item.confidence:g}",
        "score": None if item.score is None else f"{item.score:.4f}",
        "source_scope": item.source_scope,
        "resource_uri": item.resource_uri,
        "text": item.text,
    }
