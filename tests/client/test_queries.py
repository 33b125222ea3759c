"""The client's reads of the graph, single things and sessions, and its commands, on the real API."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio
from afterturn_client import AsyncAfterturn, EventRefusedError, NotFoundError

from store import identity
from store.derived.completion import complete_bank
from tests.producers.conftest import World, world

__all__ = ["world"]

BANK = str(UUID(int=77))


@pytest_asyncio.fixture(loop_scope="session")
async def client(world: World) -> AsyncIterator[tuple[AsyncAfterturn, UUID]]:
    tenant = await world.tenant()
    transport = httpx.ASGITransport(world.app)
    async with AsyncAfterturn("http://127.0.0.1:8300", tenant.token, bank=BANK, transport=transport) as made:
        yield made, identity.host_id(tenant.host)


async def test_what_commands_wrote_is_read_by_the_client(world: World, client: tuple[AsyncAfterturn, UUID]) -> None:
    memory, host = client

    async def do(action: str, **data: object) -> dict[str, str]:
        return dict((await memory.run_command(action, {"bankId": BANK, **data})).result)

    await do("createAgentMemoryBank")
    one, other = [(await do("retainAgentMemoryUnit", content=f"The violin {n}."))["unitId"] for n in range(2)]
    ann, bob = sorted(
        [(await do("createAgentMemoryEntity", canonicalName=name))["entityId"] for name in ("Ann", "Bob")]
    )
    for entity in (ann, bob):
        await do("linkAgentMemoryUnitEntity", unitId=one, entityId=entity)
    await do("createAgentMemoryLink", fromUnitId=one, toUnitId=other, linkType="causes", weight=0.5)
    rule = (await do("createAgentMemoryDirective", name="tone", content="Answer briefly.", priority=3))["directiveId"]
    session = str(uuid4())
    await do("createAgentSessionHistory", sessionId=session, messages=[{"role": "user", "content": "Where is it?"}])
    bank = identity.bank_id(host, BANK)
    await complete_bank(lambda: world.database.tenant(host), host, bank, world.clock())

    first = await memory.list_entities(limit=1)
    second = await memory.list_entities(limit=1, cursor=first.cursor)
    assert [str(entity.entity_id) for entity in (*first.entities, *second.entities)] == [ann, bob]
    assert (await memory.get_entity(ann)).mentions == 1
    assert [str(row.entity_id) for row in (await memory.list_mentions(unit_id=one)).mentions] == [ann, bob]
    assert [str(row.unit_id) for row in (await memory.list_mentions(entity_id=bob)).mentions] == [one]
    [pair] = (await memory.list_cooccurrences(entity_id=ann)).cooccurrences
    assert (str(pair.entity_id_1), str(pair.entity_id_2), pair.count) == (ann, bob, 1)
    [link] = (await memory.list_links(unit_id=other)).links
    assert link == await memory.get_link(one, other, "causes")
    assert (link.weight, link.version) == (0.5, 1)
    assert (await memory.get_directive(rule)).name == "tone"
    assert (await memory.get_bank()).bank_id == bank
    assert [row.content for row in (await memory.get_session(session)).history] == ["Where is it?"]
    for missing in (memory.get_entity(uuid4()), memory.get_session("nowhere"), memory.get_bank(bank="nowhere")):
        with pytest.raises(NotFoundError):
            await missing


async def test_a_command_of_one_key_is_done_once_and_an_older_version_is_a_conflict(
    client: tuple[AsyncAfterturn, UUID],
) -> None:
    memory, _ = client
    await memory.run_command("createAgentMemoryBank", {"bankId": BANK})
    said = {"bankId": BANK, "content": "The violin is in the attic."}
    kept = [(await memory.run_command("retainAgentMemoryUnit", said, key="k")).result for _ in range(2)]
    assert (kept[0]["unitId"], kept[1]["created"]) == (kept[1]["unitId"], False)
    without = await memory.run_command("retainAgentMemoryUnit", said)
    assert without.result["unitId"] != kept[0]["unitId"], "each call without a key is a command of its own"
    rule = {"bankId": BANK, "name": "tone", "content": "Answer briefly.", "priority": 1}
    made = (await memory.run_command("createAgentMemoryDirective", rule)).result
    changed = {**rule, "directiveId": made["directiveId"], "aggregateVersion": 7}
    with pytest.raises(EventRefusedError, match="VERSION_CONFLICT"):
        await memory.run_command("updateAgentMemoryDirective", changed)
