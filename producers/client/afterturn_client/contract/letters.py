"""Turn queues of publishing agents and their dead letters, as operators see them: reasons and sizes, never content."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnQueue(Shape):
    """A turn queue, and what waits in it."""

    queue: str
    """name of the queue"""
    tenant: str
    """name of the tenant whose queue it is"""
    turns: int | None
    """turns that wait; null: a publisher made a key of another type, which a worker deletes"""
    recalls: int | None
    """questions that wait, the same way"""
    dead: int
    """number of dead letters"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnQueueList(Shape):
    """The turn queues."""

    queues: tuple[TurnQueue, ...]
    """turn queues that the process that answers knows (`queue.tenants`); none: there is none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(Shape):
    """A message of a turn queue that was never accepted, without its content."""

    letter_id: UUID
    """id of the dead letter"""
    queue: str
    """name of the turn queue"""
    tenant: str
    """name of the tenant whose queue it is"""
    kind: str
    """`turns` or `recalls`: what the message was"""
    died_at: datetime
    """time at which it was rejected"""
    attempts: int
    """number of attempts"""
    size_bytes: int
    """size of the message in bytes"""
    code: str
    """error code, as an HTTP call with this body would get it"""
    reason: str
    """why it was rejected, without content"""
    content_kept: bool
    """whether its content is kept (`queue.keep_dead_content`), without which it cannot be retried"""
    message_id: str | None = None
    """id of the message, which its publisher gave; null: not asked for"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPage(Shape):
    """A page of dead letters, the oldest first."""

    letters: tuple[DeadLetter, ...]
    """dead letters, the oldest first"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterCount(Shape):
    """Number of dead letters that match."""

    letters: int
    """dead letters that match"""
    kept: int
    """those of them whose content is kept, which alone can be retried"""
    newest_at: datetime | None
    """time at which the newest of them died: `POST /api/v1/operator/letters/matching` takes it and changes what was
    counted; null: none matches"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersChanged(Shape):
    """The dead letters are changed, as far as they were seen in the time of one call."""

    ok: bool = True
    """always true"""
    changed: int
    """number of changed letters"""
    left: int
    """number of the others: they were changed meanwhile, or their content was not kept"""
    cursor: str | None
    """asks for the rest with the same body; null: every letter was seen"""
