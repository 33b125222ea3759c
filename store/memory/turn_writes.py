"""The one call that writes completed turns (store/sql/22_append_turns.sql): for one who brings them, for many."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from uuid import UUID

from store.database import Database
from store.memory.prepared_turns import PreparedTurn
from store.tenancy.quotas import retry_on_quota

#: What became of a turn, its position, and whether it is handed to a gateway if it was accepted.
Outcome = tuple[str, int | None, bool]

#: How many arguments the function takes.
ARGUMENTS = 21
_PLACES = ", ".join(f"${n}" for n in range(1, ARGUMENTS + 1))
#: Takes what `append_arguments` returns.
APPEND = f"select outcomes, positions, delivers from afterturn.append_turns({_PLACES})"  # noqa: S608 - numbers alone


async def write_together(
    database: Database, host: UUID, turns: Sequence[Sequence[PreparedTurn]]
) -> list[list[Outcome]]:
    """Write turns of many in one call, none of which waits for another's bank or session: that outcome is `held`."""
    found = iter(await write_offered(database, host, list(chain.from_iterable(turns)), wait=False))
    return [list(islice(found, len(some))) for some in turns]


async def write_offered(
    database: Database, host: UUID, turns: Sequence[PreparedTurn], *, wait: bool = True
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


async def _write_turns(database: Database, host: UUID, turns: Sequence[PreparedTurn], *, wait: bool) -> list[Outcome]:
    if not turns:
        return []
    arguments = append_arguments(host, turns, wait=wait)

    async def write() -> list[Outcome]:
        [(outcomes, positions, delivers)] = await database.fetch(APPEND, *arguments)
        return list(zip(outcomes, positions, delivers, strict=True))

    return await retry_on_quota(write)


def append_arguments(host: UUID, turns: Sequence[PreparedTurn], *, wait: bool) -> list[object]:
    """Return what APPEND takes: the turns, one at least and none named twice, as columns."""
    return [host, wait, *_turn_columns(turns)]


def _turn_columns(turns: Sequence[PreparedTurn]) -> Iterator[Sequence[object]]:
    yield [turn.turn for turn in turns]
    yield [turn.bank for turn in turns]
    yield [turn.session for turn in turns]
    yield [turn.user for turn in turns]
    yield [turn.digest for turn in turns]
    yield [turn.gateway for turn in turns]
    yield [turn.accepted_at for turn in turns]
    yield [turn.size for turn in turns]
    yield [turn.begins for turn in turns]
    yield list(_count_earlier(turn.session for turn in turns))
    yield list(accumulate(len(turn.events) for turn in turns))
    *named, said = zip(*chain.from_iterable(turn.events for turn in turns), strict=True)
    yield from named
    yield [one and one.unit for one in said]
    yield [one and one.terms for one in said]
    yield [one and one.length for one in said]


def _count_earlier(sessions: Iterable[UUID]) -> Iterator[int]:
    """Return for each the number (from 1) of the same one before it, 0 for none."""
    last: dict[UUID, int] = {}
    for nth, session in enumerate(sessions, 1):
        yield last.get(session, 0)
        last[session] = nth
