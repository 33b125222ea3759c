"""Measures the acknowledgement time of a turn beside the same rows written bare, on one connection and on several."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self
from uuid import UUID

from deploy.lab.bench.bench_database import BenchDatabase
from deploy.lab.bench.floors import Floors, Rows
from deploy.lab.bench.talk import BANK, TurnGenerator
from deploy.lab.bench.timing import compute_p50_ms, run_lanes
from store import identity
from store.clock import read_machine_time
from store.database import Database
from store.memory.turns import Appended, NewTurn, TurnStore

WARM_UP_TURNS = 20


class TurnNotAccepted(Exception):
    """A turn of the benchmark was not accepted, so its figures would be meaningless."""


@dataclass(slots=True)
class AcknowledgementTimes:
    """Durations of single turns in seconds: ours, and of the floor, the same rows written bare."""

    ours: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)

    def p50(self) -> tuple[float, float]:
        """Return the medians in milliseconds: ours and the floor's."""
        return compute_p50_ms(self.ours), compute_p50_ms(self.floor)


class AcknowledgementBench:
    """Appends turns to one session per connection, and writes their rows again without logic."""

    def __init__(self, ground: BenchDatabase, database: Database, floors: Floors, host: UUID, lanes: int) -> None:
        self._ground, self._database, self._floors, self._host = ground, database, floors, host
        self._store = TurnStore(database, read_machine_time)
        self._talks = [TurnGenerator(f"lane-{lane}-of-{lanes}") for lane in range(lanes)]

    async def warmed_up(self) -> Self:
        """Run every connection's statements once before times are measured, and return this object."""
        await self._floors_follow(WARM_UP_TURNS // 4)
        await self.block(WARM_UP_TURNS)
        return self

    async def rounds(self, rounds: int, turns: int) -> AcknowledgementTimes:
        """Return the times of alternating blocks, each with `turns` turns per connection."""
        found = AcknowledgementTimes()
        for _ in range(rounds):
            one = await self.block(turns)
            found.ours += one.ours
            found.floor += one.floor
        return found

    async def block(self, turns: int) -> AcknowledgementTimes:
        """Time one block: append turns (ours), then write their rows (the floor)."""
        lanes = [talk.take(turns) for talk in self._talks]
        ours = await self._append(lanes)
        rows = [await self._build_rows(lane) for lane in lanes]
        bare = [[partial(self._floors.write, self._database, row) for row in lane] for lane in rows]
        return AcknowledgementTimes(ours, await run_lanes(bare))

    async def _floors_follow(self, turns: int) -> None:
        """Create the bank and the sessions with `turns` turns each, and copy both to the floor's host."""
        await self._append([talk.take(turns) for talk in self._talks])
        await self._floors.adopt(self._host)

    async def _append(self, lanes: Sequence[Sequence[NewTurn]]) -> list[float]:
        ids = [derive_turn_ids(self._host, lane) for lane in lanes]
        held = [session for session, _ in ids], [turn for _, of_lane in ids for turn in of_lane]
        async with self._ground.kept_from_workers(self._host, *held):
            return await run_lanes(
                [[partial(append_new_turns, self._store, self._host, turn) for turn in lane] for lane in lanes]
            )

    async def _build_rows(self, lane: Sequence[NewTurn]) -> list[Rows]:
        session, turns = derive_turn_ids(self._host, lane)
        return await self._floors.rows(self._host, identity.bank_id(self._host, BANK), session, turns)


async def append_new_turns(store: TurnStore, host: UUID, *turns: NewTurn) -> None:
    """Append turns that must be new. Raises TurnNotAccepted."""
    answers = await store.append(host, turns)
    if not all(isinstance(answer, Appended) and not answer.duplicate for answer in answers):
        raise TurnNotAccepted("a turn of the bench was not accepted as new")


async def time_new_turns(ground: BenchDatabase, store: TurnStore, host: UUID, turns: Sequence[NewTurn]) -> list[float]:
    """Append new turns of one session one by one, kept from workers; return the seconds of each."""
    session, ids = derive_turn_ids(host, turns)
    async with ground.kept_from_workers(host, [session], ids):
        return await run_lanes([[partial(append_new_turns, store, host, turn) for turn in turns]])


def derive_turn_ids(host: UUID, turns: Sequence[NewTurn]) -> tuple[UUID, list[UUID]]:
    """Return the session id and the turn ids of turns of one session."""
    session = identity.session_id(identity.bank_id(host, turns[0].bank), turns[0].session_name)
    return session, [identity.turn_id(session, turn.turn_name) for turn in turns]
