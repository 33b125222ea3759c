"""What is near in meaning is linked, beside the pipeline: once, in the log, and gone with what it stood between."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID, uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from store import identity
from store.derived.nearest_units import Nearness, NearPair, SearchedUnit, estimate_size
from store.derived.semantic_links import NearLinks
from store.derived.vector_indexes import VectorIndexes
from store.erasure import Erasures, ErasureTarget, Kind
from store.ledger.stages import Stage
from store.log.append import append_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer
from store.memory.corrections import correct_unit
from store.memory.directives import Curation, NewLink
from store.memory.turns import NewMessage
from store.memory.units import Units
from store.recall.settings import RecallSettings
from store.replay import verify_log
from tests.patience import until
from tests.store.conftest import blocked
from tests.workers.conftest import BANK, HOST, World, now, turn_uuid
from tests.workers.maintenance.conftest import Yard
from tests.workers.stages import Crew, KnownEmbedder
from workers.maintenance import Task, linking_task
from workers.settings import SemanticLinkSettings

MODEL = "topics"
#: Of the texts of one topic.
COSINE = 0.8
LINKS = """
    select l.content as later, e.content as earlier, k.weight, k.bank_id
      from afterturn.agent_memory_link_t k
      join afterturn.agent_memory_unit_t l on l.unit_id = k.from_unit_id
      join afterturn.agent_memory_unit_t e on e.unit_id = k.to_unit_id
     where k.link_type = 'semantic' and k.active order by l.position, k.weight desc, e.position"""
READABLE = "select max(xid) < pg_snapshot_xmin(pg_current_snapshot()) from afterturn.event_store_t"
EVENTS = """
    select payload::text as told, payload->'data' as data from hindsight.event_store_t
     where aggregate_type = 'AgentMemoryLink' order by nonce"""


class TopicEmbedder(KnownEmbedder):
    """Texts that begin with the same word are near each other, and to nothing else."""

    def vector(self, text: str) -> NDArray[np.float32]:
        topic, own = super().vector(text.split(" ", maxsplit=1)[0]), super().vector(text)
        mixed = topic + 0.5 * own
        return np.asarray(mixed / np.linalg.norm(mixed), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Interrupted(Nearness):
    """Something happens while vectors were compared and nothing is written yet."""

    happens: Callable[[], Awaitable[object]]

    async def of(self, host: UUID, bank: UUID, lists: int, units: Sequence[SearchedUnit]) -> list[NearPair]:
        found = await super(Interrupted, self).of(host, bank, lists, units)
        await self.happens()
        return found


def links_of(world: World, nearness: Nearness | None = None, settings: RecallSettings | None = None) -> NearLinks:
    compared = nearness or Nearness(world.database, 1, 2, 0.6)
    return NearLinks(world.database, compared, MODEL, settings or RecallSettings(), now)


def task(yard: Yard, links: NearLinks | None = None) -> Task:
    return linking_task(
        yard.world.database, links or links_of(yard.world), SemanticLinkSettings(enabled=True), at_once=2
    )


async def link(yard: Yard, links: NearLinks | None = None) -> int:
    """Run the task as an operator would; returns how many events it took."""
    await readable(yard.world)
    told = await yard.maintainer().work(task(yard, links), by_hand=True)
    assert told.outcome == "done"
    return told.removed


async def say(world: World, *said: str, bank: str = "default", session: str = "s") -> None:
    for words in said:
        await world.append(session, words, messages=[NewMessage("user", words)], gateway=False, bank=bank)


async def settled(world: World) -> None:
    """Work everything off, and wait until the log may be read to its end: other tests write to the same server."""
    await Crew(world, TopicEmbedder()).drain()
    await readable(world)


async def readable(world: World) -> None:
    async def seen_by_all() -> bool:
        return bool((await world.sql(READABLE))[0][0])

    await until(seen_by_all, "nobody writes any more")


async def pairs(world: World) -> list[tuple[str, str]]:
    return [(row.later, row.earlier) for row in await world.sql(LINKS)]


async def unit(world: World, content: str) -> UUID:
    query = "select unit_id from afterturn.agent_memory_unit_t where content = :content and active"
    found: UUID = (await world.sql(query, content=content))[0].unit_id
    return found


async def forget(world: World, content: str) -> None:
    await Units(world.database, now).forget(HOST, "default", await unit(world, content))


async def replayed(world: World) -> bool:
    return (await verify_log(world.postgres.owner_url)).equal


async def test_a_text_is_linked_to_the_few_earlier_ones_it_is_nearest_to(yard: Yard) -> None:
    await say(yard.world, "boats one", "rain one", "boats two", "boats three", "boats four")
    await settled(yard.world)
    assert await link(yard) == 5
    found = await yard.world.sql(LINKS)
    assert [(row.later, row.earlier) for row in found][:1] == [("boats two", "boats one")]
    assert [row.later for row in found] == ["boats two", *["boats three"] * 2, *["boats four"] * 2]
    assert all(abs(row.weight - COSINE) < 0.1 for row in found)
    assert await replayed(yard.world)


async def test_a_unit_tells_of_its_links_in_both_directions_the_strongest_first(yard: Yard) -> None:
    await say(yard.world, "boats one", "boats two", "rain one")
    await settled(yard.world)
    await link(yard)
    units = Units(yard.world.database, now)
    one, two, rain = [await unit(yard.world, said) for said in ("boats one", "boats two", "rain one")]
    await Curation(yard.world.database, now).link(HOST, "default", NewLink(one, rain, "causes", 0.25))
    near, caused = (await units.get(HOST, "default", one)).links
    assert (near.unit_id, near.kind, near.onward, near.excerpt) == (two, "semantic", False, "boats two")
    assert (caused.unit_id, caused.kind, caused.onward, caused.weight) == (rain, "causes", True, 0.25)
    await forget(yard.world, "boats two")
    assert [found.unit_id for found in (await units.get(HOST, "default", one)).links] == [rain]


async def test_its_events_name_the_model_and_hold_no_vector(yard: Yard) -> None:
    await say(yard.world, "boats one", "boats two")
    await settled(yard.world)
    await link(yard)
    (event,) = await yard.world.sql(EVENTS)
    assert event.data["embeddingModel"] == MODEL
    assert set(event.data) == {
        *("hostId", "bankId", "fromUnitId", "toUnitId", "linkType", "weight", "embeddingModel"),
        *("aggregateVersion", "newAggregateVersion"),
    }


async def test_what_one_turn_says_and_what_another_bank_holds_is_not_linked(yard: Yard) -> None:
    both = [NewMessage("user", "boats one"), NewMessage("assistant", "boats two")]
    await yard.world.append("s", "t", messages=both, gateway=False)
    await say(yard.world, "boats three", bank="other")
    await settled(yard.world)
    assert await link(yard) == 0
    await say(yard.world, "boats four", bank="other")
    await settled(yard.world)
    await link(yard)
    assert [(row.later, row.earlier, row.bank_id) for row in await yard.world.sql(LINKS)] == [
        ("boats four", "boats three", identity.bank_id(HOST, "other"))
    ]


async def test_of_two_workers_at_once_and_of_one_that_comes_again_each_link_is_one_event(yard: Yard) -> None:
    await say(yard.world, *(f"boats {n}" for n in range(8)))
    await settled(yard.world)
    await asyncio.gather(*(links_of(yard.world).step(HOST) for _ in range(4)))
    events = len(await yard.world.sql(EVENTS))
    assert events == len(await pairs(yard.world)) == 1 + 2 * 6
    await yard.world.sql("delete from afterturn.subscription_t")
    await link(yard)
    assert len(await yard.world.sql(EVENTS)) == events
    assert await link(yard) == 0


async def test_texts_wait_for_vectors_and_the_order_these_come_in_makes_no_difference(yard: Yard) -> None:
    crew = Crew(yard.world, TopicEmbedder())
    await say(yard.world, "boats one", "boats two")
    await crew.drain(Stage.EXTRACTION)
    await yard.world.sql(
        "update afterturn.ledger_t set next_attempt_at = now() + interval '1 hour' where stage = 'embedding'"
        " and position = (select min(position) from afterturn.ledger_t)"
    )
    await crew.drain(Stage.EMBEDDING)
    assert await link(yard) == 0
    await yard.world.forget_backoff()
    await crew.drain()
    await link(yard)
    assert await pairs(yard.world) == [("boats two", "boats one")]


@pytest.mark.law("L5")
async def test_a_text_that_is_still_being_written_is_not_passed_by(yard: Yard) -> None:
    """A slow writer begins first and commits last: a reader by position alone would pass it by."""
    await say(yard.world, "boats one", "rain one")
    await settled(yard.world)
    assert await link(yard) == 0
    corrected = await unit(yard.world, "rain one")
    origin = Origin(HOST, BANK, identity.user_id(HOST, None), now())
    async with yard.world.database.tenant(HOST) as writer:
        await correct_unit(writer, origin, corrected, "boats two", None)
        await say(yard.world, "snow one", session="quick")
        await Crew(yard.world, TopicEmbedder()).drain(Stage.EMBEDDING)
        assert await links_of(yard.world).step(HOST) is None
    await settled(yard.world)
    await link(yard)
    assert await pairs(yard.world) == [("boats two", "boats one")]


async def test_what_never_gets_a_vector_is_passed_by(yard: Yard) -> None:
    await say(yard.world, "boats one", "boats two", "boats three")
    await yard.world.sql(
        "update afterturn.ledger_t set status = 'dead' where stage = 'embedding' and turn_id = :turn",
        turn=turn_uuid("s", "boats two"),
    )
    await settled(yard.world)
    await link(yard)
    assert await pairs(yard.world) == [("boats three", "boats one")]


async def test_links_end_with_either_text_and_are_erased_with_it(yard: Yard) -> None:
    await say(yard.world, "boats one", "boats two")
    await say(yard.world, "boats three", session="secret")
    await settled(yard.world)
    await link(yard)
    await forget(yard.world, "boats one")
    assert await pairs(yard.world) == [("boats three", "boats two")]
    erasures = Erasures(yard.world.database, now)
    erasure = await erasures.request(HOST, ErasureTarget(Kind.SESSION, "default", "secret"))
    assert (await erasures.run(HOST, erasure)).done
    assert await pairs(yard.world) == []
    left = [event.data for event in await yard.world.sql(EVENTS)]
    assert [("weight" in data, "embeddingModel" in data) for data in left].count((True, True)) == 1
    await link(yard)
    assert await pairs(yard.world) == []
    assert await replayed(yard.world)


async def test_links_end_with_their_bank(yard: Yard) -> None:
    await say(yard.world, "boats one", "boats two")
    await settled(yard.world)
    await link(yard)
    await say(yard.world, "boats three")
    await settled(yard.world)
    origin = Origin(HOST, BANK, identity.user_id(HOST, None), now())
    async with yard.world.database.tenant(HOST) as connection:
        await append_events(connection, HOST, [build_offer(origin, EventType.BANK_DELETED, (), {}, nth="2")])
    await link(yard)
    assert await pairs(yard.world) == []
    assert await replayed(yard.world)


async def test_what_is_forgotten_or_erased_while_vectors_are_compared_is_not_linked(yard: Yard) -> None:
    await say(yard.world, "boats one", "boats two", "rain one")
    await say(yard.world, "rain two", session="secret")
    await settled(yard.world)
    erasures = Erasures(yard.world.database, now)

    async def happens() -> None:
        await forget(yard.world, "boats one")
        erasure = await erasures.request(HOST, ErasureTarget(Kind.SESSION, "default", "secret"))
        await erasures.run(HOST, erasure)

    await links_of(yard.world, Interrupted(yard.world.database, 1, 2, 0.6, happens)).step(HOST)
    assert await yard.world.sql(EVENTS) == []
    assert await replayed(yard.world)


async def test_who_changes_two_texts_while_they_are_being_linked_is_served(yard: Yard) -> None:
    """Texts are held in the order of their ids; whoever corrects goes by what follows from what."""
    await say(yard.world, "boats one", "boats two")
    await settled(yard.world)
    first, last = sorted([await unit(yard.world, said) for said in ("boats one", "boats two")])
    origin = Origin(HOST, BANK, identity.user_id(HOST, None), now())
    async with yard.world.database.tenant(HOST) as connection:
        await correct_unit(connection, origin, last, "rain one", None)
        linking_them = asyncio.create_task(links_of(yard.world).step(HOST))
        await blocked(yard.world.database, HOST)
        await correct_unit(connection, origin, first, "rain two", None)
    await linking_them
    assert await yard.world.sql(EVENTS) == []


async def test_a_corrected_text_is_linked_anew_and_what_somebody_linked_himself_stays(yard: Yard) -> None:
    await say(yard.world, "boats one", "boats two", "rain one", "rain two")
    await settled(yard.world)
    await link(yard)
    by_hand = NewLink(await unit(yard.world, "boats two"), await unit(yard.world, "rain one"), "semantic", 0.5)
    await Curation(yard.world.database, now).link(HOST, "default", by_hand)
    await Units(yard.world.database, now).correct(HOST, "default", await unit(yard.world, "boats two"), "rain zero")
    await settled(yard.world)
    await link(yard)
    assert sorted((row.later, row.earlier, row.weight > 0.6) for row in await yard.world.sql(LINKS)) == [
        ("rain two", "rain one", True),
        ("rain zero", "rain one", False),
        ("rain zero", "rain two", True),
    ]
    assert await replayed(yard.world)
    events = await yard.world.sql(EVENTS)
    assert await link(yard) == 0
    assert await yard.world.sql(EVENTS) == events


async def test_an_index_by_nearness_is_asked_in_a_large_bank(yard: Yard) -> None:
    large = RecallSettings(exact_units=1, read_units=1)
    await say(yard.world, "boats one", "rain one", "boats two", "snow one", "wind one")
    await settled(yard.world)
    indexes = VectorIndexes(yard.world.postgres.owner_url, 1)
    await yard.world.sql("analyze afterturn.unit_vector_t")
    while await indexes.build_some():
        pass
    async with yard.world.database.tenant(HOST) as connection:
        assert (await estimate_size(connection, HOST, BANK, large)).lists == 1
    await link(yard, links_of(yard.world, settings=large))
    assert await pairs(yard.world) == [("boats two", "boats one")]


async def test_every_host_has_its_turn_and_a_dry_run_counts_what_is_left(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.derived.semantic_links.EVENTS", 3)
    for name in ("a", "b", "c"):
        await yard.world.sql(
            "insert into afterturn.host_t (host_id, name) values (:host, :name)", host=uuid4(), name=name
        )
    await say(yard.world, "boats one", "rain one", "boats two")
    await settled(yard.world)
    assert await task(yard).count() == 3
    await link(yard)
    assert await task(yard).count() == 0
    assert await pairs(yard.world) == [("boats two", "boats one")]


async def test_a_long_run_is_cut_and_rests_before_it_goes_on(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.derived.semantic_links.EVENTS", 3)
    await say(yard.world, "boats one", "boats two")
    await settled(yard.world)
    hasty = replace(task(yard), longest_s=1e-9)
    assert (await yard.maintainer().work(hasty)).outcome == "cut"
    assert await yard.maintainer(hasty).look() == []
    planned = (await yard.maintainer().schedule.planned())[0]
    assert planned.next_run is not None
    assert planned.ended_at is not None
    assert planned.next_run - planned.ended_at == timedelta(seconds=30)
    await link(yard)
    assert await pairs(yard.world) == [("boats two", "boats one")]


async def test_nothing_is_linked_unless_somebody_asked_for_it(yard: Yard) -> None:
    await say(yard.world, "boats one", "boats two")
    await settled(yard.world)
    off = linking_task(yard.world.database, links_of(yard.world), SemanticLinkSettings())
    assert (await yard.maintainer().work(off, by_hand=True)).outcome == "off"
    assert await yard.maintainer(off).look() == []
    assert await pairs(yard.world) == []
