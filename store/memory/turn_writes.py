"""The one call that writes completed turns (`afterturn.append_turns`): those of one caller, or of many together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from uuid import UUID

from store.database import Database
from store.memory.prepared_turns import AppendableTurn
from store.tenancy.quotas import retry_on_quota
from store.tracing import current_traceparent

#: What became of a turn, its position, and whether it is handed to a gateway if it was accepted.
Outcome = tuple[str, int | None, bool]

#: The function that APPEND calls; a schema of another version has none of that name that takes the same.
SIGNATURE = "afterturn.append_turns(uuid, afterturn.offered_turn[], boolean)"
#: Takes what `append_arguments` returns.
APPEND = "select outcomes, positions, delivers from afterturn.append_turns($1, $2, $3)"
#: Takes the traceparents of the turns, too: called only where one has any.
APPEND_TRACED = "select outcomes, positions, delivers from afterturn.append_traced_turns($1, $2, $3, $4)"


def in_trace(turn: AppendableTurn) -> AppendableTurn:
    """Return a turn that continues the trace of the current request, if that is traced."""
    return replace(turn, traceparent=traceparent) if (traceparent := current_traceparent()) else turn


async def write_together(
    database: Database, host: UUID, turns: Sequence[Sequence[AppendableTurn]]
) -> list[list[Outcome]]:
    """Write turns of many in one call, none of which waits for another's bank or session: that outcome is `held`."""
    found = iter(await write_offered(database, host, list(chain.from_iterable(turns)), wait=False))
    return [list(islice(found, len(some))) for some in turns]


async def write_offered(
    database: Database, host: UUID, turns: Sequence[AppendableTurn], *, wait: bool = True
) -> list[Outcome]:
    """Append turns in one call; return what became of each. What is named twice is asked for again once it is written.

    Where a quota was used up meanwhile, nothing was written and the call is made again. Raises RateLimited in the end.
    """
    first: dict[UUID, int] = {}
    again = [n for n, turn in enumerate(turns) if first.setdefault(turn.turn, n) != n]
    once = list(first.values())
    found = dict(zip(once, await _write_turns(database, host, [turns[n] for n in once], wait=wait), strict=True))
    if again:
        answers = await write_offered(database, host, [turns[n] for n in again], wait=wait)
        found.update(zip(again, answers, strict=True))
    return [found[n] for n in range(len(turns))]


async def _write_turns(database: Database, host: UUID, turns: Sequence[AppendableTurn], *, wait: bool) -> list[Outcome]:
    if not turns:
        return []
    statement, arguments = APPEND, list[object](append_arguments(host, turns, wait=wait))
    traceparents = [turn.traceparent for turn in turns]
    if any(traceparents):
        statement, arguments = APPEND_TRACED, [*arguments, traceparents]

    async def write() -> list[Outcome]:
        [(outcomes, positions, delivers)] = await database.fetch(statement, *arguments)
        return list(zip(outcomes, positions, delivers, strict=True))

    return await retry_on_quota(write)


def append_arguments(host: UUID, turns: Sequence[AppendableTurn], *, wait: bool) -> tuple[UUID, list[object], bool]:
    """Return what APPEND takes: host, turns (one at least and none named twice), whether to wait for other writers."""
    follows = _count_earlier(turn.session for turn in turns)
    return host, [_as_offered(turn, before) for turn, before in zip(turns, follows, strict=True)], wait


def _as_offered(turn: AppendableTurn, follows: int) -> tuple[object, ...]:
    """Return a turn as `afterturn.offered_turn` has it."""
    return (
        turn.turn,
        turn.bank,
        turn.session,
        turn.user,
        turn.digest,
        turn.gateway,
        turn.accepted_at,
        turn.size,
        turn.begins,
        follows,
        turn.events,
    )


def _count_earlier(sessions: Iterable[UUID]) -> Iterator[int]:
    """Return for each the number (from 1) of the same one before it, 0 for none."""
    last: dict[UUID, int] = {}
    for nth, session in enumerate(sessions, 1):
        yield last.get(session, 0)
        last[session] = nth
