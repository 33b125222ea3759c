"""Measures a very long session: after_turn beside its maintenance, and the listing of it."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from deploy.lab.bench.bench_database import BenchDatabase
from deploy.lab.bench.measures import Measure, MeasureTarget
from deploy.lab.bench.talk import BANK, TurnGenerator, build_completed_turn
from deploy.lab.bench.timing import compute_p95_ms, run_lanes
from producers.service.memory import MemoryFacade
from producers.service.session_summaries import RuleDigester, Summariser
from producers.turns.directories import DirectoryQuery
from store import identity
from store.clock import DatabaseClock
from store.database import Database
from store.maintenance import Consolidation
from store.memory.session_summaries import SessionPlace, SummaryLimits
from store.memory.turns import TurnStore
from store.tenancy.keys import Grant

SESSION, USER = "long", "repeats"
#: Messages of a turn while the session is filled, and turns that are appended in one call.
MESSAGES, TURNS_A_CALL = 500, 2
#: How often one fact is said in all, for each message of the session.
REPEATED = 0.1
LISTINGS = 20
#: How long each step of maintenance takes at most, in seconds.
STEP_S = 0.5
#: What maintenance may make of the p95 of after_turn, and a listing's time in ms.
TIMES_QUIET, LISTING_MS = 3.0, 300.0

# One fact, said again and again in the session, as the stages leave it.
FACTS = """
    with said as (
        select n, gen_random_uuid() as unit, timestamptz '2026-01-01' + n * interval '1 minute' as at
          from generate_series(1, $4::int) n
    ), unit as (
        insert into afterturn.agent_memory_unit_t
               (host_id, bank_id, unit_id, content, event_date, fact_type, user_id, origin, session_id, turn_id,
                position, metadata, update_ts, update_user)
        select $1, $2, unit, 'The user likes jazz.', at, 'world', $3, 'extraction', $5, unit, n,
               '{"fact_id": "user_like", "key": "like", "value": "jazz", "tier": "L2", "confidence": "0.85"}',
               at, 'bench'
          from said
    )
    insert into afterturn.fact_t
           (host_id, bank_id, unit_id, subject, fact_id, key, value, position, valid_from, said, weight,
            consolidated_by)
    select $1, $2, unit, $3::text, 'user_like', 'jazz', 'jazz', n, at, n, 1.05, lead(unit) over (order by n)
      from said"""


@dataclass(frozen=True, slots=True)
class LongSession:
    """A session of `messages` messages of one tenant, whose stages are done."""

    here: BenchDatabase
    memory: MemoryFacade
    turns: TurnStore
    consolidation: Consolidation
    grant: Grant
    messages: int

    @classmethod
    async def fill(
        cls, here: BenchDatabase, database: Database, memory: MemoryFacade, clock: DatabaseClock, messages: int
    ) -> "LongSession":
        """Append the session's turns, and facts that say the same."""
        host, store, talk = await here.new_host(database), TurnStore(database, clock), TurnGenerator(SESSION, MESSAGES)
        turns = talk.take(-(-messages // MESSAGES))
        bank = identity.bank_id(host, BANK)
        async with here.kept_from_workers(host, *_list_streams(host, [turn.turn_name for turn in turns])):
            for first in range(0, len(turns), TURNS_A_CALL):
                await store.append(host, turns[first : first + TURNS_A_CALL])
        place = (host, bank, identity.user_id(host, USER), int(messages * REPEATED), identity.session_id(bank, SESSION))
        async with here.owner.connect() as connection:
            raw: Any = (await connection.get_raw_connection()).driver_connection
            await raw.execute("select set_config('afterturn.host', $1, false)", str(host))
            await raw.execute(FACTS, *place)
            for table in ("agent_memory_unit_t", "fact_t", "agent_session_history_t"):
                await raw.execute(f"vacuum (analyze) afterturn.{table}")
        grant = Grant(key_id=UUID(int=0), host_id=host, banks=None, write=True)
        return cls(here, memory, store, Consolidation(database, clock), grant, messages)

    async def measure(self, turns: int) -> list[Measure]:
        """Return the p95 of `turns` calls of after_turn beside maintenance and without it, and that of a listing."""
        await self._keep("warm", 5)
        quiet = await self._keep("quiet", turns)
        ending = asyncio.Event()
        working = asyncio.create_task(self._maintain(ending))
        await asyncio.sleep(0.2)
        busy = await self._keep("busy", turns)
        ending.set()
        await working
        listed = [await self._list() for _ in range(LISTINGS)]
        return [
            Measure(
                f"after_p95_maintaining_{self.messages}",
                "ms",
                compute_p95_ms(busy),
                MeasureTarget("<=", TIMES_QUIET),
                compute_p95_ms(quiet),
            ),
            Measure(f"listing_p95_of_{self.messages}", "ms", compute_p95_ms(listed), MeasureTarget("<=", LISTING_MS)),
        ]

    async def _maintain(self, ending: asyncio.Event) -> None:
        """Read, summarise and consolidate the session, step by step, as memory_run_maintenance and workers do."""
        host, bank = self.grant.host_id, identity.bank_id(self.grant.host_id, BANK)
        place, limits = SessionPlace(host, bank, identity.session_id(bank, SESSION)), SummaryLimits()
        rules = RuleDigester(self.turns.digests)
        summariser = Summariser(self.turns.summaries, self.turns.sessions, lambda _host, _bank: limits, rules)
        while not ending.is_set():
            await self.turns.digests.extend(place, time.monotonic() + STEP_S)
            await summariser.summarise(place, time.monotonic() + STEP_S)
            await self.consolidation.consolidate(host, bank)

    async def _list(self) -> float:
        begun = time.perf_counter()
        found = await self.memory.sessions.list_directories(self.grant, BANK, SESSION, DirectoryQuery())
        if not found["summaries"]:
            raise NothingListed("the long session of the bench has no directories")
        return time.perf_counter() - begun

    async def _keep(self, name: str, turns: int) -> list[float]:
        """Call after_turn for new turns of the session, one after the other; return the seconds of each."""
        said = [[one.content for one in turn.messages] for turn in TurnGenerator(f"{SESSION}-{name}").take(turns)]
        names = [f"{name}-{nth}" for nth in range(turns)]
        after_turn = self.memory.lifecycle.after_turn
        lane = [
            partial(after_turn, self.grant, build_completed_turn(BANK, SESSION, turn, words))
            for turn, words in zip(names, said, strict=True)
        ]
        async with self.here.kept_from_workers(self.grant.host_id, *_list_streams(self.grant.host_id, names)):
            return await run_lanes([lane])


class NothingListed(Exception):
    """A listing is empty, so the figures would be meaningless."""


def _list_streams(host: UUID, turns: Sequence[str]) -> tuple[list[UUID], list[UUID]]:
    session = identity.session_id(identity.bank_id(host, BANK), SESSION)
    return [session], [identity.turn_id(session, turn) for turn in turns]
