"""The check of recall that runs by itself: what it finds is counted."""

from prometheus_client import REGISTRY

from store.recall.settings import RecallSettings
from tests.generations import make_generation_live
from tests.workers.maintenance.conftest import Yard
from workers.maintenance import recall_check_task


def counted(name: str) -> float:
    return REGISTRY.get_sample_value(f"afterturn_recall_{name}_total", {"filter": "none"}) or 0.0


async def test_what_is_there_and_what_recall_finds_of_it_is_counted(yard: Yard) -> None:
    world = yard.world
    for nth in range(3):
        await world.append("s", f"t{nth}")
    await world.sql("""
        insert into afterturn.unit_vector_t
        select host_id, bank_id, unit_id, 0, 1, cast(array_fill(1, array[384]) as public.halfvec)
          from afterturn.agent_memory_unit_t""")
    await make_generation_live(world.database, 1)
    before = counted("compared"), counted("found")
    large = recall_check_task(world.database, RecallSettings(exact_units=1))
    assert await large.count() == 1
    assert (await yard.maintainer().work(large, by_hand=True)).outcome == "done"
    there, found = counted("compared") - before[0], counted("found") - before[1]
    assert there == found > 0
    small = recall_check_task(world.database, RecallSettings())
    assert await small.count() == 0
    assert (await yard.maintainer().work(small, by_hand=True)).outcome == "done"
    assert counted("compared") - before[0] == there
