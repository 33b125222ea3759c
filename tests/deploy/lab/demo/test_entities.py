"""What a bank speaks of most, whatever it calls it."""

from deploy.lab.demo.run import most_mentioned
from tests.servers import TestPostgres
from tests.workers.conftest import HOST, dialogue, open_world
from tests.workers.stages import Crew


async def test_mentions_of_aliases_are_those_of_whom_they_mean(fresh_database: TestPostgres) -> None:
    world = await open_world(fresh_database)
    for n, said in enumerate(("Ana Lima lives in Kyoto.", "Ana went to Kyoto.", "Karl Berger met Ana in Kyoto.")):
        await world.append("s", f"t{n}", messages=dialogue(said, "Good."), gateway=False)
    assert await most_mentioned(world.database, HOST, "default") == []
    await Crew(world).drain()
    seen = {one.name: one for one in await most_mentioned(world.database, HOST, "default")}
    await world.database.close()
    assert "Ana" not in seen
    assert seen["Ana Lima"].mentions == 3
    assert dict(seen["Ana Lima"].beside) == {"Kyoto": 3, "Karl Berger": 1}
    assert dict(seen["Kyoto"].beside)["Ana Lima"] == 3
