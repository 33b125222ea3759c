"""Calls `afterturn.accept_turns`, which writes completed turns: those of one caller, or of many callers together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from uuid import UUID

from store.authority import AuthorityRow, current_authority
from store.database import Database
from store.memory.offered_turns import OfferedTurn
from store.tenancy.quotas import retry_on_quota
from store.tracing import current_traceparent

#: The outcome of a turn (store/sql/turns.sql explains the words), its position, and whether an accepted turn is
#: delivered to a gateway.
AppendOutcome = tuple[str, int | None, bool]

#: The function that ACCEPT calls; a schema of another version lacks a function of this name and signature.
SIGNATURE = "afterturn.accept_turns(uuid, afterturn.offered_turn[], boolean, text[], afterturn.call_authority[])"
#: The append alone; its arguments are those of `append_arguments`.
APPEND = "select outcomes, positions, delivers from afterturn.append_turns($1, $2, $3)"
#: The same with the turns' traceparents, and the authorities of the calls that hand them in.
ACCEPT = "select outcomes, positions, delivers from afterturn.accept_turns($1, $2, $3, $4, $5)"


def attach_call(turn: OfferedTurn) -> OfferedTurn:
    """Return the turn with the traceparent of the current call, if that is traced, and the call's authority."""
    return replace(turn, traceparent=current_traceparent(), authority=current_authority())


async def write_coalesced(
    database: Database, host: UUID, turns: Sequence[Sequence[OfferedTurn]]
) -> list[list[AppendOutcome]]:
    """Write turns of many callers in one call; a turn whose bank or session is locked does not wait, but is `held`."""
    found = iter(await write_offered(database, host, list(chain.from_iterable(turns)), wait=False))
    return [list(islice(found, len(some))) for some in turns]


async def write_offered(
    database: Database, host: UUID, turns: Sequence[OfferedTurn], *, wait: bool = True
) -> list[AppendOutcome]:
    """Append turns in one call; return the outcome of each. A repeated turn is sent again after the first is written.

    Where another writer used up a quota meanwhile, nothing was written and the call is repeated; at last it raises
    RateLimited.
    """
    first: dict[UUID, int] = {}
    again = [n for n, turn in enumerate(turns) if first.setdefault(turn.turn, n) != n]
    once = list(first.values())
    found = dict(zip(once, await _write_turns(database, host, [turns[n] for n in once], wait=wait), strict=True))
    if again:
        answers = await write_offered(database, host, [turns[n] for n in again], wait=wait)
        found.update(zip(again, answers, strict=True))
    return [found[n] for n in range(len(turns))]


async def _write_turns(
    database: Database, host: UUID, turns: Sequence[OfferedTurn], *, wait: bool
) -> list[AppendOutcome]:
    if not turns:
        return []
    traceparents = [turn.traceparent for turn in turns]
    arguments = (*append_arguments(host, turns, wait=wait), traceparents, authorities_of(turns))

    async def write() -> list[AppendOutcome]:
        [(outcomes, positions, delivers)] = await database.fetch(ACCEPT, *arguments)
        return list(zip(outcomes, positions, delivers, strict=True))

    found = await retry_on_quota(write)
    if wait and (held := [n for n, (outcome, *_) in enumerate(found) if outcome == "held"]):
        # The authority of another one had ended: nothing was written yet.
        again = await _write_turns(database, host, [turns[n] for n in held], wait=wait)
        for n, answer in zip(held, again, strict=True):
            found[n] = answer
    return found


def authorities_of(turns: Sequence[OfferedTurn]) -> list[AuthorityRow | None]:
    """Return the authority of each turn as `afterturn.call_authority`."""
    return [None if turn.authority is None else turn.authority.as_row() for turn in turns]


def append_arguments(host: UUID, turns: Sequence[OfferedTurn], *, wait: bool) -> tuple[UUID, list[object], bool]:
    """Return the arguments of APPEND: host, turns (at least one, none twice), whether to wait for other writers."""
    follows = _count_earlier(turn.session for turn in turns)
    return host, [_as_offered(turn, before) for turn, before in zip(turns, follows, strict=True)], wait


def _as_offered(turn: OfferedTurn, follows: int) -> tuple[object, ...]:
    """Return a turn as the fields of `afterturn.offered_turn`."""
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
    """Yield for each session the number (from 1) of its last occurrence before, 0 for none."""
    last: dict[UUID, int] = {}
    for nth, session in enumerate(sessions, 1):
        yield last.get(session, 0)
        last[session] = nth
