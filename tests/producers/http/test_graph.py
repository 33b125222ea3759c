"""Entities, mentions, pairs and links over HTTP, single banks and directives, and the history of a session."""

from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest

from store import identity
from store.derived.completion import complete_bank
from store.tenancy.banks import RUNTIME
from tests.producers.conftest import Tenant, World
from tests.producers.http.test_commands import BANK, do, refused, replays_equal
from tests.producers.http.test_lists import get, pages, say

HERE: dict[str, Any] = {"bank": BANK}
NAMES = ("Karl Berger", "Lea Roth", "Mia Falk", "Otto Lind", "Pia Weiss")


async def count(world: World, tenant: Tenant) -> None:
    host = identity.host_id(tenant.host)
    await complete_bank(lambda: world.database.tenant(host), host, identity.bank_id(host, BANK), world.clock())


async def fill(world: World, tenant: Tenant) -> tuple[list[str], list[str]]:
    """Have five units, linked in a row, and five entities, of which each unit mentions all; return their ids."""
    await do(tenant, "createAgentMemoryBank")
    units = [
        (await do(tenant, "retainAgentMemoryUnit", content=f"The violin number {n} is in the attic."))["unitId"]
        for n in range(5)
    ]
    entities = [(await do(tenant, "createAgentMemoryEntity", canonicalName=name))["entityId"] for name in NAMES]
    for unit in units:
        for entity in entities:
            await do(tenant, "linkAgentMemoryUnitEntity", unitId=unit, entityId=entity)
    for one, other in pairwise(units):
        await do(tenant, "createAgentMemoryLink", fromUnitId=one, toUnitId=other, linkType="causes", weight=0.5)
    await count(world, tenant)
    return sorted(units), sorted(entities)


async def test_entities_mentions_pairs_and_links_are_read_to_their_end_and_one_by_one(
    world: World, ana: Tenant
) -> None:
    units, entities = await fill(world, ana)
    listed = await pages(ana, "entities", **HERE)
    assert [one["entity_id"] for one in listed] == entities
    assert ({one["name"] for one in listed}, {one["mentions"] for one in listed}) == ({*NAMES}, {5})
    assert await get(ana, f"entities/{entities[2]}", **HERE) == listed[2]
    mentions = [(one["unit_id"], one["entity_id"]) for one in await pages(ana, "mentions", **HERE)]
    assert mentions == [(unit, entity) for unit in units for entity in entities]
    of_unit = await pages(ana, "mentions", **HERE, unit_id=units[1])
    assert [one["entity_id"] for one in of_unit] == entities
    of_entity = await pages(ana, "mentions", **HERE, entity_id=entities[1])
    assert [one["unit_id"] for one in of_entity] == units
    pairs = await pages(ana, "cooccurrences", **HERE)
    expected = [(one, other) for n, one in enumerate(entities) for other in entities[n + 1 :]]
    assert [(one["entity_id_1"], one["entity_id_2"]) for one in pairs] == expected
    assert {one["count"] for one in pairs} == {5}
    with_one = await pages(ana, "cooccurrences", **HERE, entity_id=entities[4])
    assert [one["entity_id_1"] for one in with_one] == entities[:4]
    links = await pages(ana, "links", **HERE)
    assert len(links) == 4
    places = [(one["from_unit_id"], one["to_unit_id"], one["link_type"]) for one in links]
    assert places == sorted(places)
    first = links[0]
    assert await get(ana, "links/" + "/".join(places[0]), **HERE) == first
    await get(ana, f"links/{places[0][0]}/{places[0][1]}/no%00type", 404, **HERE)
    of_one = await pages(ana, "links", **HERE, unit_id=first["to_unit_id"])
    assert first in of_one
    assert all(first["to_unit_id"] in (one["from_unit_id"], one["to_unit_id"]) for one in of_one)
    cursor = (await get(ana, "links", **HERE, limit=2))["cursor"]
    await get(ana, "links", 422, **HERE, cursor=cursor, unit_id=units[0])
    await get(ana, "mentions", 422, **HERE, cursor=cursor)


async def test_what_a_forgotten_or_expired_unit_alone_told_is_told_no_more(world: World, ana: Tenant) -> None:
    units, entities = await fill(world, ana)
    for unit in units[1:]:
        await do(ana, "deleteAgentMemoryUnit", unitId=unit)
    lists = ("entities", "mentions", "cooccurrences")
    assert [len(await pages(ana, one, **HERE)) for one in lists] == [5, 5, 10]
    assert await pages(ana, "links", **HERE) == [], "one of the ends of each has gone"
    ends = world.clock() + timedelta(minutes=1)
    await world.sql(
        "update afterturn.agent_memory_unit_t set expires_at = :ends where host_id = :host",
        ends=ends,
        host=identity.host_id(ana.host),
    )
    assert [len(await pages(ana, one, **HERE)) for one in lists] == [5, 5, 10]
    world.clock.ahead = timedelta(minutes=2)
    try:
        assert [len(await pages(ana, one, **HERE)) for one in lists] == [0, 0, 0]
        await get(ana, f"entities/{entities[0]}", 404, **HERE)
    finally:
        world.clock.ahead = timedelta()


async def test_nothing_of_the_graph_is_of_another_bank_or_holds_a_vector(world: World, ana: Tenant) -> None:
    _, entities = await fill(world, ana)
    other = await world.tenant()
    await do(other, "createAgentMemoryBank")
    for name in ("entities", "mentions", "cooccurrences", "links"):
        assert await pages(other, name, **HERE) == []
        for row in await pages(ana, name, **HERE):
            assert not any("embedding" in field or isinstance(value, list) for field, value in row.items())
    await get(other, f"entities/{entities[0]}", 404, **HERE)
    await get(ana, f"entities/{uuid4()}", 404, **HERE)
    await get(ana, f"entities/{entities[0]}", 404)


async def test_a_bank_and_a_directive_are_read_with_the_version_that_a_command_expects(ana: Tenant) -> None:
    made = await do(ana, "createAgentMemoryBank")
    await do(ana, "updateAgentMemoryBank", background="A household.", disposition={"empathy": 5})
    bank = await get(ana, "bank", **HERE)
    assert (bank["bank"], bank["bank_id"], bank["scope"], bank["runtime"]) == (BANK, made["bankId"], "host", False)
    assert (bank["background"], bank["disposition"]["empathy"], bank["version"]) == ("A household.", 5, 2)
    rule = await do(ana, "createAgentMemoryDirective", name="tone", content="Answer briefly.", priority=3)
    read = await get(ana, f"directives/{rule['directiveId']}", **HERE)
    assert (read["name"], read["content"], read["priority"], read["version"]) == ("tone", "Answer briefly.", 3, 1)
    again = {"directiveId": rule["directiveId"], "name": "tone", "content": "At length.", "priority": 1}
    await do(ana, "updateAgentMemoryDirective", aggregateVersion=read["version"], **again)
    assert (await get(ana, f"directives/{rule['directiveId']}", **HERE))["version"] == 2
    await do(ana, "deleteAgentMemoryDirective", directiveId=rule["directiveId"])
    await get(ana, f"directives/{rule['directiveId']}", 404, **HERE)
    await get(ana, "bank", 404, bank="nowhere")


async def test_banks_of_a_runtime_are_left_out_before_the_page_is_counted(world: World, ana: Tenant) -> None:
    for n in range(4):
        bank = str(UUID(int=n + 1))
        named = f"session-{bank}" if n % 2 == 0 else f"bank-{bank}"
        await do(ana, "createAgentMemoryBank", bankId=bank, bankName=named)
    assert [one["bank"] for one in await pages(ana, "banks")] == [str(UUID(int=n)) for n in (2, 4)]
    assert len(await pages(ana, "banks", runtime=True)) == 4
    own = await get(ana, "bank", bank=str(UUID(int=1)))
    assert (own["runtime"], own["disposition"]) == (
        True, {"skepticism": 3, "literalism": 3, "empathy": 3, RUNTIME: True},
    )  # fmt: skip
    told: dict[str, Any] = {"bankId": str(UUID(int=1)), "disposition": {RUNTIME: None}}
    assert await refused(ana, "updateAgentMemoryBank", **told) == "INVALID_ARGUMENT"
    await replays_equal(world, ana)


@pytest.mark.law("L7")
async def test_a_history_is_bounded_and_masked_when_it_is_read(world: World, ana: Tenant) -> None:
    session = str(uuid4())
    await do(ana, "createAgentMemoryBank")
    await do(ana, "createAgentSessionHistory", sessionId=session, messages=[])
    for n in range(3):
        said = [{"role": "user", "content": f"The violin {n}."}, {"role": "assistant", "content": [{"text": "Noted."}]}]
        await do(ana, "appendAgentSessionHistory", sessionId=session, messages=said)
    await say(ana, session, "1", "And the cello.", **HERE)
    read = await get(ana, f"sessions/{session}", **HERE)
    assert [one["content"] for one in read["history"]][-3:] == [
        "The violin 2.", [{"text": "Noted."}], "And the cello.",
    ]  # fmt: skip
    assert ([one["seq"] for one in read["history"]], read["messages"]) == ([*range(7)], 7)
    assert (read["history"][0]["unit_id"], read["history"][6]["unit_id"] is None) == (None, False)
    assert (read["has_more"], read["version"] > 4) == (False, True)
    short = await get(ana, f"sessions/{session}", **HERE, messages=2)
    assert ([one["seq"] for one in short["history"]], short["has_more"]) == ([5, 6], True)
    # As a history that came past the API would hold it.
    secret = "sk-ant-api03-" + "Ab3" * 31 + "AA"
    await world.sql(
        "update afterturn.session_message_t set message = jsonb_set(message, '{content}', "
        "to_jsonb(cast(:said as text))) where host_id = :host and seq = 0",
        said=f"The key is {secret}",
        host=identity.host_id(ana.host),
    )
    masked = (await get(ana, f"sessions/{session}", **HERE))["history"][0]["content"]
    assert masked.startswith("The key is [REDACTED:")
    assert secret not in masked
    await do(ana, "deleteAgentSessionHistory", sessionId=session)
    await get(ana, f"sessions/{session}", 404, **HERE)
    await get(ana, "sessions/nowhere", 404)
    await get(ana, "sessions/no%00where", 422)


async def test_a_history_is_cut_where_its_messages_have_four_megabytes(ana: Tenant) -> None:
    session = str(uuid4())
    await do(ana, "createAgentMemoryBank")
    await do(ana, "createAgentSessionHistory", sessionId=session, messages=[])
    long: list[dict[str, Any]] = [{"role": "user", "content": "violin " * 30_000}]
    for _ in range(22):
        await do(ana, "appendAgentSessionHistory", sessionId=session, messages=long)
    read = await get(ana, f"sessions/{session}", **HERE)
    assert (len(read["history"]), read["has_more"], read["messages"]) == (20, True, 22)


async def test_the_entities_around_one_are_read_by_its_id_and_by_its_name(world: World, ana: Tenant) -> None:
    units, entities = await fill(world, ana)
    around = await get(ana, "neighbourhood", **HERE, entity_id=entities[3])
    assert around["entities"][0]["entity_id"] == around["entity_id"] == entities[3]
    assert sorted(one["entity_id"] for one in around["entities"]) == entities
    assert (len(around["cooccurrences"]), around["whole"]) == (10, True)
    few = await get(ana, "neighbourhood", **HERE, entity_id=entities[3], limit=3)
    ids = {one["entity_id"] for one in few["entities"]}
    assert (len(ids), few["whole"]) == (3, False)
    assert {ids >= {pair["entity_id_1"], pair["entity_id_2"]} for pair in few["cooccurrences"]} == {True}
    named = await get(ana, "neighbourhood", **HERE, name="LEA ROTH")
    assert named["entities"][0]["name"] == "Lea Roth"
    for wrong in ({}, {"name": "Lea Roth", "entity_id": entities[0]}, {"name": "Lea Roth", "limit": 301}):
        await get(ana, "neighbourhood", 422, **HERE, **wrong)
    await get(ana, "neighbourhood", 404, **HERE, name="Nobody")
    other = await world.tenant()
    await do(other, "createAgentMemoryBank")
    await get(other, "neighbourhood", 404, **HERE, entity_id=entities[3])
    for unit in units:
        await do(ana, "deleteAgentMemoryUnit", unitId=unit)
    await get(ana, "neighbourhood", 404, **HERE, entity_id=entities[3])


async def test_the_strongest_of_those_around_one_come_first(world: World, ana: Tenant) -> None:
    await do(ana, "createAgentMemoryBank")
    made = [(await do(ana, "createAgentMemoryEntity", canonicalName=name))["entityId"] for name in NAMES]
    for n, beside in enumerate(made[1:], start=1):
        for turn in range(n):
            text = f"The violin number {n} {turn} is in the attic."
            unit = (await do(ana, "retainAgentMemoryUnit", content=text))["unitId"]
            for entity in (made[0], beside):
                await do(ana, "linkAgentMemoryUnitEntity", unitId=unit, entityId=entity)
    await count(world, ana)
    around = await get(ana, "neighbourhood", **HERE, entity_id=made[0], limit=4)
    assert [one["entity_id"] for one in around["entities"]] == [made[0], *made[:1:-1]]
    assert [one["count"] for one in around["cooccurrences"]] == [4, 3, 2]
