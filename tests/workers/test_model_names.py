"""A model and the rules call one thing by one name, so that what changed is superseded whoever read it."""

from typing import Any

from store.ledger.stages import Stage
from store.memory.turns import NewMessage
from store.text.rules.fact_rules import RULES
from tests.workers.conftest import World, dialogue
from tests.workers.models import fact, facts, model, reader
from tests.workers.stages import Crew
from workers.extraction.llm.request import INSTRUCTIONS


def test_a_model_is_told_the_names_of_the_rules() -> None:
    named = {f"{rule.fact_id} with key {rule.key}" for rule in RULES if rule.key}
    assert named
    assert {one for one in named if one not in INSTRUCTIONS} == set()


async def test_what_a_model_reads_supersedes_what_a_rule_read_before(world: World) -> None:
    def says(turn: Any) -> dict[str, Any]:
        said = next(one["text"] for one in turn["messages"] if one["role"] == "user")
        moved = fact("Lisbon", "our new flat in Lisbon", fact_id="user_home", key="home")
        return facts(moved) if "Lisbon" in said else facts()

    with model() as server:
        server.says = says
        asked = reader(server.url)
        try:
            await world.append(turn="t1", messages=dialogue("I live in Porto.", "I see."))
            await world.append(turn="t2", messages=[NewMessage("user", "We slept in our new flat in Lisbon.")])
            crew = Crew(world, reader=asked)
            await crew.drain()
            await crew.drain(Stage.ENRICHMENT, Stage.PROJECTION)
        finally:
            await asked.close()
    lines = await world.sql("""
        select value, valid_to is null as holds from afterturn.fact_t where fact_id = 'user_home' order by said""")
    assert [tuple(line) for line in lines] == [("porto", False), ("lisbon", True)]
