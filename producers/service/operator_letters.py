"""Dead letters of turn queues as an operator sees and changes them: reasons and sizes, never content.

A message's id is a name that its publisher gave. It is told only to those who ask for names with a key that may make
keys of tenants, so letters are named by ids of their own.
"""

import asyncio
import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby, islice
from typing import Annotated, Any, Literal, TypeVar
from uuid import NAMESPACE_URL, UUID, uuid5

import redis
from afterturn_client.contract import letters as contract
from pydantic import Field

from producers.errors import FieldProblem, Invalid, Unavailable
from producers.queue.dead_letters import DeadLetter
from producers.queue.operated import OperatedQueue
from producers.service.bodies import parse_body
from producers.service.fields import Moment, Name
from producers.service.operator_work import MOST_CHANGED, TOGETHER_S, AnyTenant, WithNames
from producers.service.paging import Cursor, Limit, ListOrder, Page, read_name, read_position
from producers.service.wire import Parameters, RequestModel
from store.identity import host_id
from store.page_bytes import PageRows
from store.tenancy.call_audit import NO_HOST

MS = timedelta(milliseconds=1)
EPOCH = datetime.fromtimestamp(0, UTC)

LetterAction = Annotated[
    Literal["retry", "drop"],
    Field(description="whether to put the messages back into their queue (`retry`), or to delete the letters for good"),
]
R = TypeVar("R")


class LetterFilter(Parameters):
    """Filter of dead letters: turn queue, tenant, kind, error code, kept content, age."""

    queue: Name | None = Field(None, description="name of the turn queue; left out: all queues")
    tenant: AnyTenant = None
    kind: Literal["turns", "recalls"] | None = Field(None, description="what the message was; left out: either")
    code: Name | None = Field(None, description="error code of the rejection; left out: each")
    kept: bool | None = Field(None, description="whether the message's content is kept; left out: with and without")
    older_than_s: float | None = Field(
        None, ge=0, le=10 * 366 * 86_400, description="seconds since it was rejected, at least; left out: any age"
    )


class LettersParameters(LetterFilter):
    """Filter and page of dead letters, the oldest first."""

    limit: Limit = 50
    cursor: Cursor = None
    names: WithNames = False


class LettersBody(RequestModel):
    """Dead letters of a turn queue, and what to do with them."""

    action: LetterAction
    queue: Name = Field(description="name of the turn queue")
    ids: list[Annotated[UUID, Field(strict=False)]] = Field(
        min_length=1, max_length=MOST_CHANGED, description="ids of dead letters"
    )


class MatchingLettersBody(RequestModel):
    """What to do with every dead letter that matches a filter and was there when they were counted."""

    action: LetterAction
    where: LetterFilter = Field(description="filter of the letters")
    newest_at: Moment = Field(description="`newest_at` of the count that the caller saw: later letters are left out")
    cursor: Cursor = None


@dataclass(frozen=True, slots=True)
class QueuedLetter:
    """A dead letter and its queue."""

    queue: OperatedQueue
    letter: DeadLetter

    @property
    def letter_id(self) -> UUID:
        """Its id outside of the queue's server."""
        return uuid5(NAMESPACE_URL, f"afterturn:letter:{self.queue.name}:{self.letter.message_id}")

    @property
    def place(self) -> tuple[int, str, UUID]:
        """Its place in the list of all queues."""
        return self.letter.died_ms, self.queue.name, self.letter_id

    @property
    def died_at(self) -> datetime:
        """When it was rejected."""
        return EPOCH + self.letter.died_ms * MS

    def describe(self, *, names: bool) -> contract.DeadLetter:
        """Return it as the API answers it."""
        one = self.letter
        return contract.DeadLetter(
            letter_id=self.letter_id,
            queue=self.queue.name,
            tenant=self.queue.tenant,
            kind=one.queue,
            died_at=self.died_at,
            attempts=one.attempts,
            size_bytes=one.size_bytes,
            code=one.code,
            reason=one.message,
            content_kept=one.content_kept,
            message_id=one.message_id if names else None,
        )


LETTERS: ListOrder[QueuedLetter] = ListOrder("letters", lambda one: one.place, (read_position, read_name, UUID))


class OperatorLetters:
    """Operations on turn queues for operators; the caller is already authenticated.

    Every method raises Unavailable where the server of the queues does not answer.
    """

    def __init__(self, queues: Sequence[OperatedQueue], clock: Callable[[], datetime]) -> None:
        """Keep the queues of the settings, and the database's clock."""
        self._queues = {one.name: one for one in queues}
        self._clock = clock

    async def list_queues(self) -> contract.TurnQueueList:
        """Return the turn queues, and what waits in each."""
        return contract.TurnQueueList(queues=await _ask(lambda: tuple(map(_describe_queue, self._queues.values()))))

    async def list_letters(self, asked: LettersParameters, *, names: bool) -> contract.DeadLetterPage:
        """Return a page of dead letters. Raises Invalid."""
        scope = asked.model_dump_json(exclude={"limit", "cursor", "names"})
        found = self._select(asked, LETTERS.open(NO_HOST, scope, asked.cursor))
        page: Page[QueuedLetter] = LETTERS.close(
            NO_HOST, scope, await _ask(lambda: list(islice(found, asked.limit + 1))), asked.limit
        )
        letters = tuple(one.describe(names=names and asked.names) for one in page.rows)
        return contract.DeadLetterPage(letters=letters, **page.describe_end())

    async def count_letters(self, asked: LetterFilter) -> contract.DeadLetterCount:
        """Count the dead letters that match. Raises Invalid."""
        return await _ask(partial(_count, self._select(asked)))

    async def change_letters(self, asked: Any) -> tuple[UUID, contract.LettersChanged]:
        """Retry or drop letters; return the counts and the tenant's id. Raises Invalid."""
        body = parse_body(LettersBody, asked)
        wanted = set(body.ids)
        found = self._select(LetterFilter(queue=body.queue))
        changed = await _ask(lambda: _change([one for one in found if one.letter_id in wanted], body.action))
        answer = contract.LettersChanged(changed=changed, left=len(wanted) - changed, cursor=None)
        return host_id(self._queues[body.queue].tenant), answer

    async def change_matching(self, asked: Any) -> tuple[UUID, contract.LettersChanged]:
        """Retry or drop every letter that matches, for `TOGETHER_S` at most; return the counts and the tenant's id.

        The tenant's id is that of none where letters of several may be meant. Raises Invalid.
        """
        body = parse_body(MatchingLettersBody, asked)
        scope = repr(body.model_copy(update={"cursor": None}))
        letters = self._select(body.where, LETTERS.open(NO_HOST, scope, body.cursor))
        counted = (one for one in letters if one.died_at <= body.newest_at)
        changed, left, rest = await _ask(lambda: _change_in_time(counted, body.action))
        cursor = LETTERS.end(NO_HOST, scope, rest).cursor
        queue = self._queues.get(body.where.queue or "")
        tenant = queue.tenant if queue is not None else body.where.tenant
        return host_id(tenant) if tenant else NO_HOST, contract.LettersChanged(
            changed=changed, left=left, cursor=cursor
        )

    def _select(self, asked: LetterFilter, after: tuple[Any, ...] | None = None) -> Iterator[QueuedLetter]:
        """Return the letters that match, the oldest first, read as they are asked for. Raises Invalid."""
        if asked.queue is not None and asked.queue not in self._queues:
            raise Invalid(FieldProblem("queue", "is no turn queue of this process (`queue.tenants`)"))
        queues = [one for one in self._queues.values() if _names_queue(asked, one)]
        age = None if asked.older_than_s is None else timedelta(seconds=asked.older_than_s)
        until = None if age is None else self._clock() - age
        since_ms = 0 if after is None else int(after[0])
        found = heapq.merge(*(_order(one, since_ms) for one in queues), key=lambda one: one.place)
        return (one for one in found if (after is None or one.place > after) and _matches(asked, one, until))


def _names_queue(asked: LetterFilter, queue: OperatedQueue) -> bool:
    return asked.queue in (None, queue.name) and asked.tenant in (None, queue.tenant)


def _matches(asked: LetterFilter, one: QueuedLetter, until: datetime | None) -> bool:
    letter = one.letter
    return (
        asked.kind in (None, letter.queue)
        and asked.code in (None, letter.code)
        and asked.kept in (None, letter.content_kept)
        and (until is None or one.died_at <= until)
    )


def _order(queue: OperatedQueue, since_ms: int) -> Iterator[QueuedLetter]:
    """Yield the letters of a queue by their places."""
    for _, together in groupby(queue.letters.iterate(since_ms), key=lambda letter: letter.died_ms):
        yield from sorted((QueuedLetter(queue, letter) for letter in together), key=lambda one: one.place)


def _describe_queue(queue: OperatedQueue) -> contract.TurnQueue:
    turns, recalls = (queue.count_waiting(kind) for kind in ("turns", "recalls"))
    dead = queue.letters.count()
    return contract.TurnQueue(queue=queue.name, tenant=queue.tenant, turns=turns, recalls=recalls, dead=dead)


def _count(letters: Iterator[QueuedLetter]) -> contract.DeadLetterCount:
    counted = contract.DeadLetterCount(letters=0, kept=0, newest_at=None)
    for one in letters:
        kept = counted.kept + one.letter.content_kept
        counted = replace(counted, letters=counted.letters + 1, kept=kept, newest_at=one.died_at)
    return counted


def _change(letters: Sequence[QueuedLetter], action: str) -> int:
    """Retry or drop letters; return how many were changed."""
    if action == "retry":
        return sum(one.queue.letters.replay(one.letter) for one in letters)
    return sum(one.queue.letters.drop([one.letter.message_id]) for one in letters)


def _change_in_time(letters: Iterator[QueuedLetter], action: str) -> tuple[int, int, PageRows[QueuedLetter]]:
    """Change letters for `TOGETHER_S`; return how many were changed and left, and the last with whether more follow."""
    until, changed, left = time.monotonic() + TOGETHER_S, 0, 0
    while rows := list(islice(letters, MOST_CHANGED)):
        done = _change(rows, action)
        changed, left = changed + done, left + len(rows) - done
        if time.monotonic() >= until:
            return changed, left, PageRows(rows, more=True)
    return changed, left, PageRows([], more=False)


async def _ask(work: Callable[[], R]) -> R:
    """Run what talks to the server of the queues, off the loop. Raises Unavailable."""
    try:
        return await asyncio.to_thread(work)
    except redis.RedisError as error:
        raise Unavailable(f"the server of the turn queues does not answer ({type(error).__name__})") from None
