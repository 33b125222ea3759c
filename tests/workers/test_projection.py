"""What the projection stage counts step by step equals a count from nothing, whatever came and went."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from sqlalchemy import Executable, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived import bank_state, projection
from store.derived.bank_state import ProjectionStep
from store.ledger.stages import Stage
from store.log.envelope import Origin
from store.memory.units import Units
from tests.examples import examples
from tests.servers import TestPostgres
from tests.workers.conftest import BANK, HOST, World, dialogue, now, open_world
from tests.workers.loops import LoopThread, loop_thread
from tests.workers.stages import LEASE, Crew
from workers.projection import ProjectionStage

UNITS, ENTITIES = 4, 4
PLACE = {"host": HOST, "bank": BANK}

ADD_ENTITY = text("""
    insert into agent_memory_entity_t (host_id, bank_id, entity_id, canonical_name, update_ts, update_user)
    values (:host, :bank, :entity, 'somebody', now(), 'test') on conflict do nothing""")
LINK = text("""
    insert into agent_memory_unit_entity_t (host_id, bank_id, unit_id, entity_id, mentions)
    values (:host, :bank, :unit, :entity, :mentions) on conflict do nothing""")
UNLINK = text("""
    update agent_memory_unit_entity_t set removed_at = now()
     where host_id = :host and bank_id = :bank and unit_id = :unit and entity_id = :entity and removed_at is null""")
RELINK = text("""
    update agent_memory_unit_entity_t set removed_at = null
     where host_id = :host and bank_id = :bank and unit_id = :unit and entity_id = :entity""")
PAIRS = text("""
    select entity_id_1, entity_id_2, cooccur_count, last_cooccurred from agent_memory_entity_cooccur_t
     where host_id = :host and bank_id = :bank order by 1, 2""")
MENTIONS = text("""
    select entity_id, mention_count from agent_memory_entity_t where host_id = :host and bank_id = :bank order by 1""")
UNIT_IDS = text("""
    select unit_id from agent_memory_unit_t where host_id = :host and bank_id = :bank order by position""")

Place = tuple[int, int]
places = st.tuples(st.integers(0, UNITS - 1), st.integers(0, ENTITIES - 1))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("link"), places, st.integers(1, 3)),
        st.tuples(st.just("unlink"), places, st.just(0)),
        st.tuples(st.just("relink"), places, st.just(0)),
        st.tuples(st.just("count"), st.just((0, 0)), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


@dataclass(frozen=True)
class Bench:
    world: World
    loop: LoopThread
    units: list[UUID]
    entities: list[UUID]


@pytest.fixture
def bench(servers: tuple[TestPostgres, object]) -> Iterator[Bench]:
    with loop_thread() as loop:
        database = loop.run(servers[0].create("projection_property"))
        world = loop.run(open_world(database))
        loop.run(world.append("s", "t0"))
        loop.run(world.append("s", "t1"))
        yield Bench(world, loop, loop.run(_units(world)), [uuid5(BANK, str(n)) for n in range(ENTITIES)])
        loop.run(world.database.close())
        loop.run(database.drop())


async def _units(world: World) -> list[UUID]:
    async with world.database.tenant(HOST) as connection:
        return list((await connection.execute(UNIT_IDS, PLACE)).scalars())


class _Done(Exception):
    pass


async def _same(connection: AsyncConnection, actual: Executable, expected: Executable) -> None:
    found = (await connection.execute(actual, PLACE)).all()
    assert found == (await connection.execute(expected, PLACE)).all()


async def _play(bench: Bench, played: list[tuple[str, Place, int]]) -> None:
    """Play one example in a transaction that is rolled back."""
    statements = {"link": LINK, "unlink": UNLINK, "relink": RELINK}
    async with bench.world.database.tenant(HOST) as connection:
        for entity in bench.entities:
            await connection.execute(ADD_ENTITY, {**PLACE, "entity": entity})
        for name, (unit, entity_number), mentions in [*played, ("count", (0, 0), 0)]:
            if name == "count":
                await projection.count_links(connection, HOST, BANK, [])
                await _same(connection, PAIRS, projection.EXPECTED_PAIRS)
                await _same(connection, MENTIONS, projection.EXPECTED_MENTIONS)
                continue
            link = {**PLACE, "unit": bench.units[unit], "entity": bench.entities[entity_number]}
            more = {"mentions": mentions} if name == "link" else {}
            await connection.execute(statements[name], {**link, **more})
        raise _Done


def test_counting_links_as_they_come_and_go_equals_a_count_from_nothing(bench: Bench) -> None:
    @settings(
        max_examples=examples(20),
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(steps)
    def holds(played: list[tuple[str, Place, int]]) -> None:
        with pytest.raises(_Done):
            bench.loop.run(_play(bench, played))

    holds()


async def test_forgetting_a_unit_takes_its_pairs_back_when_the_bank_is_counted_again(world: World) -> None:
    await world.append("s", "t0", messages=dialogue("Karl Berger met Ann Moore in Kyoto.", "In Kyoto, good."))
    await world.append("s", "t1", messages=dialogue("Karl Berger met Ann Moore in Lisbon.", "Good."))
    crew = Crew(world)
    await crew.drain(Stage.EXTRACTION, Stage.PROJECTION)
    counted = "select count(*) as pairs from afterturn.agent_memory_entity_cooccur_t"
    [before] = await world.sql(counted)
    units = await world.sql("select unit_id from afterturn.agent_memory_unit_t where content like '%Lisbon%'")
    await Units(world.database, now).forget(HOST, "default", units[0].unit_id)
    await world.append("s", "t2", messages=dialogue("Nothing new.", "Fine."))
    await crew.drain(Stage.EXTRACTION, Stage.PROJECTION)
    async with world.database.tenant(HOST) as connection:
        await _same(connection, PAIRS, projection.EXPECTED_PAIRS)
        await _same(connection, MENTIONS, projection.EXPECTED_MENTIONS)
    [after] = await world.sql(counted)
    assert 0 < after.pairs < before.pairs


async def test_a_bank_has_one_writer_at_a_time(world: World) -> None:
    for n in range(30):
        await world.append(f"s{n % 5}", f"t{n}", messages=dialogue(f"Karl Berger met Ann Moore on day {n}."))
    crew = Crew(world)
    await crew.drain(Stage.EXTRACTION)
    await asyncio.gather(*(crew.runner(Stage.PROJECTION).drain() for _ in range(4)))
    assert set(await world.statuses(Stage.PROJECTION)) == {"done"}
    async with world.database.tenant(HOST) as connection:
        await _same(connection, PAIRS, projection.EXPECTED_PAIRS)
    rows = await world.sql("select units from afterturn.bank_statistics_t")
    total = await world.sql("select count(*) as n from afterturn.agent_memory_unit_t")
    assert rows[0].units == total[0].n


async def forget_places(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count three turns, then forget a message of each, and let a run count the links of one message."""
    for n, place in enumerate(("Kyoto", "Lisbon", "Vienna")):
        await world.append("s", f"t{n}", messages=dialogue(f"Karl Berger met Ann Moore in {place}.", "Good."))
    await Crew(world).drain(Stage.EXTRACTION, Stage.PROJECTION)
    for row in await world.sql("select unit_id from afterturn.agent_memory_unit_t where content like '% met %'"):
        await Units(world.database, now).forget(HOST, "default", row.unit_id)
    monkeypatch.setattr(projection, "OTHERS_LIMIT", 1)


async def assert_counted(world: World) -> None:
    async with world.database.tenant(HOST) as connection:
        await _same(connection, PAIRS, projection.EXPECTED_PAIRS)
        await _same(connection, MENTIONS, projection.EXPECTED_MENTIONS)


@pytest.mark.law("L5")
async def test_all_that_was_forgotten_is_counted_however_little_a_run_takes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await forget_places(world, monkeypatch)
    await Crew(world).drain(Stage.PROJECTION)
    assert set(await world.statuses(Stage.PROJECTION)) == {"done"}
    await assert_counted(world)


@pytest.mark.law("L1")
async def test_what_a_forgetting_left_to_count_stays_open_should_its_worker_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await forget_places(world, monkeypatch)
    claims = await world.ledger.claim(Stage.PROJECTION, streams=1, rows=64, lease=LEASE, worker="w", max_attempts=5)
    assert (await ProjectionStage(world.database).work(claims)).outcomes == []
    assert await world.statuses(Stage.PROJECTION) == ["done"] * 3 + ["pending"] * 3
    await Crew(world).drain(Stage.PROJECTION)
    assert set(await world.statuses(Stage.PROJECTION)) == {"done"}
    await assert_counted(world)


async def test_a_reflection_of_a_later_run_is_embedded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter([(True, False), (True, True), (False, False)])

    async def advance(_connection: AsyncConnection, _origin: Origin, _turns: Sequence[UUID]) -> ProjectionStep:
        return ProjectionStep(*next(runs))

    await world.append()
    crew = Crew(world)
    await crew.drain(Stage.EXTRACTION)
    crew.notified.clear()
    monkeypatch.setattr(bank_state, "advance_bank", advance)
    await crew.drain(Stage.PROJECTION)
    assert crew.notified == [Stage.EMBEDDING]
