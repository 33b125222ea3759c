"""What is derived of a bank step by step equals what is made of it from nothing, whatever came and went."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4, uuid5

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store import identity
from store.connections import create_owner_engine
from store.database import Database
from store.derived import bank_state, entity_profiles, locks, postings
from store.derived.postings import count_unit_terms
from store.derived.projection import PAIRED
from store.errors import EventRefused
from store.log.append import append_events, read_versions
from store.log.catalog import EventType as E
from store.log.envelope import Origin, build_offer
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from store.replay import ReplayScope
from store.replay import derived as replay_derived
from store.tenancy.keys import Keys
from store.text.word_rules import AUTO, rules_of
from tests.examples import examples
from tests.patience import PATIENCE_S
from tests.servers import TestPostgres
from tests.store.conftest import blocked, settings_of
from tests.store.derived_rows import read_contents
from tests.workers.loops import LoopThread, loop_thread

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
BANK = "home"
#: Steps after which a replay's look at derived state is taken.
SEEN_EVERY = 8
NAMES = ("Zoë", "Zoe", "Zoe Klein", "Zoë Marsh", "ana", "Ana Lima", "Paris")
KINDS = ("person", "place", "name")
SAID = ("Anna met Karl in Kyoto", "Karl went home", "", "the of and", "rain in Kyoto again")
HOMES = ("Porto", "Lisbon", "Kyoto", "porto")
FACTS = (("user_home", "home"), ("user_like", "like"), ("user_sister", "Anna"))
DONE = text("update afterturn.ledger_t set status = 'done' where stage = 'projection' and turn_id = any(:turns)")
FACT_ROWS = text("""
    select f.unit_id, f.fact_id, f.subject, f.key, f.value, f.valid_from, f.position, f.denied, f.valid_to,
           f.superseded_by
      from afterturn.fact_t f where f.host_id = :host and f.bank_id = :bank
     order by f.valid_from, f.position, f.unit_id""")
ALIVE = text("""
    select unit_id from afterturn.agent_memory_unit_t where host_id = :host and bank_id = :bank and active
       and origin = 'extraction'""")
UNIT = text("""
    select unit_id, name, role, origin, context, event_date, content from afterturn.agent_memory_unit_t
     where host_id = :host and bank_id = :bank and unit_id = :unit and active""")
REFLECTED = text("""
    select count(*) from afterturn.agent_memory_reflection_t where host_id = :host and bank_id = :bank and active""")

small = st.integers(0, 6)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.integers(0, len(SAID) - 1), small),
        st.tuples(st.just("fact"), small, st.integers(0, 11)),
        st.tuples(st.just("denial"), small, st.integers(0, 11)),
        st.tuples(st.just("link"), small, small),
        st.tuples(st.just("name many"), small, small),
        st.tuples(st.just("unlink"), small, small),
        st.tuples(st.just("forget"), small, small),
        st.tuples(st.just("reword"), small, small),
        st.tuples(st.just("end entity"), small, small),
        st.tuples(st.just("rename"), small, small),
        st.tuples(st.just("end bank"), small, small),
        st.tuples(st.just("advance"), small, small),
        st.tuples(st.just("advance"), small, small),
    ),
    min_size=8,
    max_size=40,
)


@dataclass
class Play:
    """One history of one bank, and the names it knows things by."""

    database: Database
    host: UUID
    numbers: int = 0
    units: list[UUID] = field(default_factory=list)
    waiting: list[UUID] = field(default_factory=list)
    turn_of: dict[UUID, UUID] = field(default_factory=dict)

    @property
    def bank(self) -> UUID:
        return identity.bank_id(self.host, BANK)

    @property
    def origin(self) -> Origin:
        self.numbers += 1
        return Origin(self.host, self.bank, self.host, START + timedelta(minutes=self.numbers))

    @property
    def place(self) -> dict[str, UUID]:
        return {"host": self.host, "bank": self.bank}

    async def step(self, name: str, first: int, second: int) -> None:
        await {
            "turn": self.turn,
            "fact": self.fact,
            "denial": self.denial,
            "link": self.link,
            "name many": self.name_many,
            "unlink": self.unlink,
            "forget": self.forget,
            "reword": self.reword,
            "end entity": self.end_entity,
            "rename": self.rename,
            "end bank": self.end_bank,
            "advance": self.advance,
        }[name](first, second)

    async def offer(self, kind: E, parts: tuple[object, ...], data: dict[str, Any]) -> None:
        """Offer the next version of an aggregate; what the log refuses (a change of nothing) changes nothing."""
        origin = self.origin
        subject = "|".join(str(part) for part in (self.host, self.bank, *parts))
        try:
            async with self.database.tenant(self.host) as connection:
                version = (await read_versions(connection, self.host, [subject]))[subject] + 1
                await append_events(connection, self.host, [build_offer(origin, kind, parts, data, nth=str(version))])
        except EventRefused:
            return

    async def turn(self, said: int, _second: int) -> None:
        self.numbers += 1
        new = NewTurn(BANK, "s", f"t{self.numbers}", [NewMessage("user", SAID[said])])
        [answer] = await TurnStore(self.database, lambda: START).append(self.host, [new])
        assert isinstance(answer, Appended)
        turn = identity.turn_id(identity.session_id(self.bank, "s"), new.turn_name)
        self.units.append(identity.unit_id(turn, 0))
        self.turn_of[self.units[-1]] = turn
        self.waiting.append(turn)

    async def denial(self, kind: int, when: int) -> None:
        await self.state(kind, when, denied="true")

    async def fact(self, kind: int, when: int) -> None:
        await self.state(kind, when)

    async def state(self, kind: int, when: int, **more: str) -> None:
        """State a fact in the newest turn, if its projection has not been made."""
        if not self.waiting:
            return
        fact_id, key = FACTS[kind % len(FACTS)]
        value = HOMES[when % len(HOMES)]
        unit, content = uuid4(), f"lives in {value}"
        data = {
            "unitId": str(unit),
            "content": content,
            "factType": "world",
            "origin": "extraction",
            "eventDate": (START + timedelta(days=when % 5 - 5)).isoformat(),
            "turnId": str(self.waiting[-1]),
            "metadata": {"fact_id": fact_id, "key": key, "value": value, **more},
        }
        await self.offer(E.UNIT_RETAINED, (unit,), data)
        await self.word(unit)
        self.units.append(unit)

    async def word(self, unit: UUID) -> None:
        """Write the words of a unit, should it live: as interfaces do for what they bring."""
        async with self.database.tenant(self.host) as connection:
            told = (await connection.execute(UNIT, {**self.place, "unit": unit})).one_or_none()
            if told is not None:
                await postings.insert_postings(
                    connection, self.host, self.bank, [count_unit_terms(told, rules_of(AUTO))]
                )

    def entity(self, number: int) -> UUID:
        return uuid5(self.bank, f"entity:{number}")

    async def link(self, unit: int, number: int) -> None:
        if not self.units:
            return
        entity, named = self.entity(number), NAMES[number]
        await self.offer(E.ENTITY_CREATED, (entity,), {"entityId": str(entity), "canonicalName": named})
        one = self.units[unit % len(self.units)]
        data = {"unitId": str(one), "entityId": str(entity), "mentions": 1 + unit % 3}
        said = {"name": NAMES[(number + unit) % len(NAMES)], "kind": KINDS[unit % len(KINDS)]} if unit % 2 else {}
        await self.offer(E.UNIT_ENTITY_LINKED, (one, entity), data | said)

    async def name_many(self, unit: int, number: int) -> None:
        """Have a unit name more entities than make pairs, in an order of its own."""
        if not self.units:
            return
        one = self.units[unit % len(self.units)]
        for nth in range(PAIRED + 2):
            entity = self.entity(number + nth)
            await self.offer(E.ENTITY_CREATED, (entity,), {"entityId": str(entity), "canonicalName": f"Zoe {nth}"})
            data = {"unitId": str(one), "entityId": str(entity), "place": nth * (1 + unit) % (PAIRED + 3)}
            await self.offer(E.UNIT_ENTITY_LINKED, (one, entity), data)

    async def unlink(self, unit: int, number: int) -> None:
        if self.units:
            one, entity = self.units[unit % len(self.units)], self.entity(number)
            data = {"unitId": str(one), "entityId": str(entity)}
            await self.offer(E.UNIT_ENTITY_UNLINKED, (one, entity), data)

    async def forget(self, unit: int, _second: int) -> None:
        if self.units:
            one = self.units[unit % len(self.units)]
            await self.offer(E.UNIT_DELETED, (one,), {"unitId": str(one)})

    async def reword(self, unit: int, second: int) -> None:
        if self.units:
            one = self.units[unit % len(self.units)]
            data = {"unitId": str(one), "content": f"other words {second}", "eventDate": START.isoformat()}
            await self.offer(E.UNIT_UPDATED, (one,), data)
            await self.word(one)

    async def end_entity(self, number: int, _second: int) -> None:
        entity = self.entity(number)
        await self.offer(E.ENTITY_DELETED, (entity,), {"entityId": str(entity)})

    async def rename(self, number: int, other: int) -> None:
        entity = self.entity(number)
        data = {"entityId": str(entity), "canonicalName": NAMES[other], "metadata": {"kind": "person"}}
        await self.offer(E.ENTITY_UPDATED, (entity,), data)

    async def end_bank(self, first: int, second: int) -> None:
        if first == second:
            await self.offer(E.BANK_DELETED, (), {})

    async def advance(self, _first: int, _second: int) -> None:
        """Do as the projection stage does."""
        async with self.database.tenant(self.host) as connection:
            await locks.lock_bank(connection, self.bank)
            await bank_state.advance_bank(connection, self.origin, self.waiting)
            await connection.execute(DONE, {"turns": self.waiting})
        self.waiting = []

    async def compare(self) -> None:
        async with self.database.tenant(self.host) as connection:
            step_by_step = await read_contents(connection, self.host, self.bank)
            await self.check_facts(connection)
            await bank_state.rebuild_bank(connection, self.host, self.bank)
            from_nothing = await read_contents(connection, self.host, self.bank)
        assert told(step_by_step) == told(from_nothing)

    async def nothing_is_amiss(self, owner: AsyncEngine) -> None:
        """What was not come to yet is not wrong."""
        async with owner.connect() as connection:
            told = await replay_derived.check_derived(connection, ReplayScope(self.host, self.bank))
        # The stages that make vectors do not run here.
        assert [one for one in told if not one.equal and one.name != "vectors"] == []

    async def check_facts(self, connection: AsyncConnection) -> None:
        """Compare supersession with a plain reading of the same rule."""
        rows = (await connection.execute(FACT_ROWS, self.place)).all()
        for n, row in enumerate(rows):
            if row.denied:
                assert (row.valid_to, row.superseded_by) == (row.valid_from, None)
                continue
            after = (
                (other.unit_id, other.valid_from)
                for other in rows[n + 1 :]
                if (other.fact_id, other.subject, other.key) == (row.fact_id, row.subject, row.key)
                and (other.value != row.value) != other.denied
            )
            assert (row.superseded_by, row.valid_to) == next(after, (None, None))
        alive = set((await connection.execute(ALIVE, self.place)).scalars())
        assert {row.unit_id for row in rows} <= alive


def told(contents: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """Leave out what says nothing: a bank of no units, with or without a row that says so."""
    return contents | {"bank_statistics_t": [row for row in contents["bank_statistics_t"] if any(row)]}


@pytest.fixture
def stage(servers: tuple[TestPostgres, object]) -> Iterator[tuple[LoopThread, Database, AsyncEngine]]:
    with loop_thread() as loop:
        made = loop.run(servers[0].create(f"derived_property_{uuid4().hex}"))
        database, owner = Database(settings_of(made)), create_owner_engine(made.owner_url)
        yield loop, database, owner
        loop.run(owner.dispose())
        loop.run(database.close())
        loop.run(made.drop())


async def begin(database: Database) -> Play:
    name = f"host-{uuid4().hex}"
    await Keys(database).create(name, "test")
    return Play(database, identity.host_id(name))


async def play(database: Database, owner: AsyncEngine, played: list[tuple[str, int, int]]) -> None:
    stage = await begin(database)
    for n, step in enumerate(played, 1):
        await stage.step(*step)
        if n % SEEN_EVERY == 0:
            await stage.nothing_is_amiss(owner)
    await stage.advance(0, 0)
    await stage.compare()


@pytest.mark.law("L5")
@pytest.mark.parametrize("compared", [entity_profiles.COMPARED, 2])
def test_derived_state_made_step_by_step_equals_that_made_from_nothing(
    stage: tuple[LoopThread, Database, AsyncEngine], monkeypatch: pytest.MonkeyPatch, compared: int
) -> None:
    loop, database, owner = stage
    monkeypatch.setattr(entity_profiles, "COMPARED", compared)

    @settings(
        max_examples=examples(25),
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(steps)
    def holds(played: list[tuple[str, int, int]]) -> None:
        loop.run(play(database, owner, played))

    holds()


async def test_a_fact_gives_way_to_the_next_and_comes_back_when_that_is_forgotten(database: Database) -> None:
    bank = await begin(database)
    for home in (0, 1):
        await bank.turn(0, 0)
        await bank.fact(0, home)
        await bank.advance(0, 0)
    porto, lisbon = bank.units[1], bank.units[3]
    query = text("select unit_id, valid_to is null from afterturn.fact_v where bank_id = :bank order by valid_from")
    async with database.tenant(bank.host) as connection:
        found = [tuple(row) for row in await connection.execute(query, {"bank": bank.bank})]
        assert (await connection.execute(REFLECTED, bank.place)).scalar() == 1
    assert found == [(porto, False), (lisbon, True)]
    await bank.forget(3, 0)
    await bank.advance(0, 0)
    async with database.tenant(bank.host) as connection:
        found = [tuple(row) for row in await connection.execute(query, {"bank": bank.bank})]
        assert (await connection.execute(REFLECTED, bank.place)).scalar() == 0
    assert found == [(porto, True)]


async def test_a_fact_that_a_rebuild_came_to_first_is_reflected_upon_when_its_turn_is_counted(
    database: Database,
) -> None:
    """A later reading of a turn that was counted before states facts that wait for a row of their own."""
    bank = await begin(database)
    await bank.turn(0, 0)
    await bank.fact(0, 0)
    await bank.turn(0, 0)
    read_again = bank.waiting[-1:]
    await bank.advance(0, 0)
    bank.waiting = read_again
    await bank.fact(0, 1)
    async with database.tenant(bank.host) as connection:
        await bank_state.rebuild_bank(connection, bank.host, bank.bank)
    await bank.advance(0, 0)
    async with database.tenant(bank.host) as connection:
        assert (await connection.execute(REFLECTED, bank.place)).scalar() == 1


async def test_what_is_forgotten_while_its_turn_is_counted_is_taken_back_by_the_next_run(database: Database) -> None:
    bank = await begin(database)
    await bank.turn(0, 0)
    async with database.tenant(bank.host) as connection:
        await locks.lock_bank(connection, bank.bank)
        await bank_state.advance_bank(connection, bank.origin, bank.waiting)
        forgetting = asyncio.create_task(bank.forget(0, 0))
        await blocked(database, bank.host)
        await connection.execute(DONE, {"turns": bank.waiting})
    await asyncio.wait_for(forgetting, PATIENCE_S)
    bank.waiting = []
    await bank.advance(0, 0)
    await bank.compare()
    async with database.tenant(bank.host) as connection:
        assert (await read_contents(connection, bank.host, bank.bank))["term_t"] == []
