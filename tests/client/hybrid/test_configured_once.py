"""A configuration is read when an agent is opened: what changes in it afterwards waits for a restart."""

from pathlib import Path

from tests.client.hybrid.worlds import ANSWER, config, world
from tests.client.loopback import Loopback, loopback


async def test_a_configuration_that_changes_under_an_open_agent_changes_nothing(
    tmp_path: Path, gateway: Loopback, model: Loopback
) -> None:
    settings = config(gateway, scope=["current_chat"])
    with loopback() as elsewhere:
        async with world(settings, tmp_path, gateway, model) as agent:
            section = settings["memory"]
            section["gateway"]["scope"].append("resources")
            section["gateway"] |= {"baseUrl": elsewhere.url, "userId": "eve"}
            section["mode"] = "curated"
            assert (await agent.run()).text == ANSWER
            assert [(body["user_id"], body["scope"]) for body in agent.bodies("search")] == [("ana", ["current_chat"])]
            assert agent.paths() == ["/memories/search", "/memories/add", "/memories/flush"]
        assert elsewhere.seen == []
