"""memory_run_turn: a turn in two calls, behind a token that is used once, holds nothing and opens nothing of others."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from producers.mcp.settings import McpSettings, ToolSettings
from producers.settings import ApiSettings
from store import identity
from store.erasure import Erasures, ErasureTarget, Kind
from store.maintenance import Pruning
from store.memory import open_turns
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.producers.mcp.test_tools import call, client_of, count_events, refusal, said
from tests.servers import TestValkey

TOOL = "memory_run_turn"
MARK = "zq17osprey"
ROWS = "select request, kept from afterturn.open_turn_t where host_id = :h"


@pytest_asyncio.fixture(loop_scope="session")
async def made(world: World, valkey: TestValkey) -> AsyncIterator[World]:
    """An API that serves the tool."""
    settings = ApiSettings(mcp=McpSettings(tools=ToolSettings(each={TOOL: True})))
    there = build(world.postgres, broker_of(valkey.url, "open-turns"), settings=settings)
    yield there
    await there.close()


@pytest_asyncio.fixture(loop_scope="session")
async def eve(made: World) -> AsyncIterator[Tenant]:
    tenant = await made.tenant()
    yield tenant
    await tenant.http.aclose()


async def begin(made: World, tenant: Tenant, text: str = "hello", **more: Any) -> dict[str, Any]:
    async with client_of(made, tenant) as client:
        return await call(client, TOOL, current_input=text, **more)


async def complete(made: World, tenant: Tenant, token: str, output: Any = "hi", **more: Any) -> dict[str, Any]:
    async with client_of(made, tenant) as client:
        return await call(client, TOOL, token=token, output=output, **more)


async def refused(made: World, tenant: Tenant, **arguments: Any) -> tuple[str, bool, str]:
    async with client_of(made, tenant) as client:
        told = await refusal(client, TOOL, **arguments)
    return told["code"], told["retryable"], told["message"]


async def rows_of(made: World, tenant: Tenant) -> list[Any]:
    return await made.sql(ROWS, h=identity.host_id(tenant.host))


async def test_the_first_call_prepares_and_the_second_keeps_the_turn_once(made: World, eve: Tenant) -> None:
    first = await begin(made, eve, f"{MARK} where is it?", session_id="s", turn_id="1", project="garden")
    assert (first["project"], first["turn_id"], first["kept"]) == ("garden", "1", False)
    assert first["input_items"] == [said(f"{MARK} where is it?")]
    assert await count_events(made, eve) == 0
    assert MARK.encode() not in base64.urlsafe_b64decode(first["token"].removeprefix("rt_"))
    kept = await complete(made, eve, first["token"], f"{MARK} here")
    assert (kept["project"], kept["turn_id"], kept["kept"], kept["token"]) == ("garden", "1", True, "")
    [row] = await rows_of(made, eve)
    assert (row.kept, MARK in row.request) == (True, False)
    events = await count_events(made, eve)
    # A retry whose answer was lost.
    assert await complete(made, eve, first["token"], f"{MARK} here", project="garden") == kept
    assert (await refused(made, eve, token=first["token"], output="other"))[:2] == ("TURN_CONFLICT", False)
    assert await count_events(made, eve) == events
    async with client_of(made, eve) as client:
        shown = await call(client, "memory_before_turn", project="garden", session_id="s", current_input="and?")
    texts = [item["content"][0]["text"] for item in shown["input_items"]]
    assert texts == [f"{MARK} where is it?", f"{MARK} here", "and?"]


@pytest.mark.law("L2")
async def test_of_two_outputs_that_come_at_once_one_is_kept(made: World, eve: Tenant) -> None:
    token = (await begin(made, eve, session_id="s"))["token"]

    async def use(output: str) -> tuple[str, str]:
        async with client_of(made, eve) as client:
            result = await client.call_tool(TOOL, {"token": token, "output": output})
        told = json.loads(result.content[0].text)  # type: ignore[union-attr]
        return output, told["code"] if result.is_error else "kept"

    ended = await asyncio.gather(*(use(f"output {n % 2}") for n in range(4)))
    won = {output for output, how in ended if how == "kept"}
    assert len(won) == 1, ended
    assert {how for output, how in ended if output not in won} == {"TURN_CONFLICT"}
    assert {how for output, how in ended if output in won} == {"kept"}
    units = await made.sql(
        "select content from afterturn.agent_memory_unit_t where host_id = :h and origin = 'message' order by seq",
        h=identity.host_id(eve.host),
    )
    assert [row.content for row in units] == ["hello", *won]


async def test_a_token_expires_and_what_expired_is_removed(made: World, eve: Tenant) -> None:
    token = (await begin(made, eve))["token"]
    made.clock.ahead = open_turns.OPEN_FOR - timedelta(minutes=1)
    late = await begin(made, eve)
    made.clock.ahead = open_turns.OPEN_FOR + timedelta(seconds=1)
    code, retryable, _ = await refused(made, eve, token=token, output="hi")
    assert (code, retryable) == ("INVALID_ARGUMENT", False)
    pruning, now = Pruning(made.database), datetime.now(UTC) + made.clock.ahead
    assert await pruning.expired_turns(now) >= 1
    while (await pruning.open_turns(now)).place is not None:
        pass
    assert (await pruning.expired_turns(now), len(await rows_of(made, eve))) == (0, 1)
    assert (await complete(made, eve, late["token"]))["kept"] is True


@pytest.mark.law("L6")
async def test_a_token_opens_nothing_for_another_key_and_a_forged_one_is_as_unknown(made: World, eve: Tenant) -> None:
    token = (await begin(made, eve))["token"]
    other, same_host = await made.tenant(), await made.tenant(eve.host)
    unknown = f"rt_{'A' * 64}"
    forged = token[:-1] + ("A" if token[-1] != "A" else "B")
    told = {await refused(made, eve, token=one, output="x") for one in (unknown, forged, "rt_", token + "=")}
    told |= {await refused(made, one, token=token, output="x") for one in (other, same_host)}
    assert len(told) == 1, told
    assert next(iter(told))[0] == "INVALID_ARGUMENT"
    assert (await refused(made, eve, token=token, output="x", project="elsewhere"))[0] == "INVALID_ARGUMENT"
    assert (await complete(made, eve, token))["kept"] is True
    for tenant in (other, same_host):
        await tenant.http.aclose()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"output": "x"},
        {"current_input": "x", "output": "x"},
        {"token": "rt_"},
        {"token": "TOKEN", "output": "x", "turn_id": "other"},
        {"token": "TOKEN", "output": "x", "current_input": "x"},
        {"token": "TOKEN", "output": [{"no": "type"}]},
        {"token": "TOKEN", "output": [said("nul \0")]},
        {"token": "TOKEN", "output": [said("x")] * 1025},
        {"token": 7, "output": "x"},
    ],
)
async def test_what_breaks_a_rule_is_named_and_uses_up_no_token(
    made: World, eve: Tenant, arguments: dict[str, Any]
) -> None:
    token = (await begin(made, eve))["token"]
    given = {name: token if value == "TOKEN" else value for name, value in arguments.items()}
    assert (await refused(made, eve, **given))[:2] == ("INVALID_ARGUMENT", False)
    assert await count_events(made, eve) == 0
    assert (await complete(made, eve, token))["kept"] is True


async def test_a_turn_that_was_kept_in_another_way_is_a_conflict(made: World, eve: Tenant) -> None:
    token = (await begin(made, eve, turn_id="1"))["token"]
    async with client_of(made, eve) as client:
        await call(client, "memory_after_turn", turn_id="1", input_items=[said("other")])
    assert (await refused(made, eve, token=token, output="x"))[:2] == ("TURN_CONFLICT", False)


@pytest.mark.law("L11")
async def test_an_erasure_closes_what_waits_in_its_bank(made: World, eve: Tenant) -> None:
    async with client_of(made, eve) as client:
        await call(client, "memory_after_turn", session_id="s", turn_id="0", user_id="ann", input_items=[said("x")])
    host, erasures = identity.host_id(eve.host), Erasures(made.database, made.clock)
    for target in (ErasureTarget(Kind.SESSION, "default", "s"), ErasureTarget(Kind.USER, None, "ann")):
        token = (await begin(made, eve, f"{MARK} gone", session_id="s", user_id="ann"))["token"]
        elsewhere = (await begin(made, eve, project="other"))["token"]
        others = (await begin(made, eve, project="other", user_id="bo"))["token"]
        receipt = await erasures.run(host, await erasures.request(host, target))
        assert receipt.counts["open_turns"] == 1
        assert (await refused(made, eve, token=token, output="x"))[0] == "INVALID_ARGUMENT"
        assert not [row for row in await rows_of(made, eve) if MARK in row.request]
        for open_still in (elsewhere, others):
            assert (await complete(made, eve, open_still, "x"))["project"] == "other"


@pytest.mark.law("L11")
async def test_a_users_erasure_closes_what_waits_in_the_users_own_bank_whoever_opened_it(
    made: World, eve: Tenant
) -> None:
    host, erasures = identity.host_id(eve.host), Erasures(made.database, made.clock)
    async with client_of(made, eve) as client:
        await call(client, "memory_after_turn", turn_id="0", project="~ann/b", input_items=[said("x")])
    token = (await begin(made, eve, f"{MARK} gone", project="~ann/b"))["token"]
    await erasures.run(host, await erasures.request(host, ErasureTarget(Kind.USER, None, "ann")))
    assert (await refused(made, eve, token=token, output="x"))[0] == "INVALID_ARGUMENT"
    assert not [row for row in await rows_of(made, eve) if MARK in row.request]


@pytest.mark.law("L7")
async def test_a_token_and_what_a_turn_asks_are_in_no_log_and_no_audit(
    made: World, eve: Tenant, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    token = (await begin(made, eve, f"{MARK} my key is {eve.token}"))["token"]
    [row] = await rows_of(made, eve)
    assert (MARK in row.request, eve.token in row.request) == (True, False)
    await refused(made, eve, token=token, output=[{"no": MARK}])
    await complete(made, eve, token, MARK)
    await refused(made, eve, token=token, output=f"{MARK} again")
    assert await made.recorder.flush()
    audit = await made.sql(
        "select c::text from afterturn.call_audit_t c where host_id = :h", h=identity.host_id(eve.host)
    )
    ours = "\n".join(one.getMessage() for one in caplog.records if not one.name.startswith("http"))
    heard = capsys.readouterr()
    told = f"{ours}{heard.out}{heard.err}{audit}"
    assert TOOL in told
    assert [secret for secret in (MARK, token, token[3:]) if secret in told] == []


async def test_a_tenant_has_so_many_open_turns(made: World, eve: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_turns, "MOST_OPEN", 1)
    token = (await begin(made, eve))["token"]
    assert (await refused(made, eve, current_input="x"))[:2] == ("RESOURCE_BUSY", True)
    await complete(made, eve, token)
    assert (await begin(made, eve))["token"]


async def test_it_is_off_unless_a_tenant_or_key_has_it(world: World, ana: Tenant, valkey: TestValkey) -> None:
    async with client_of(world, ana) as client:
        assert TOOL not in {tool.name for tool in (await client.list_tools()).tools}
        told = await refusal(client, TOOL, current_input="x")
        assert (told["code"], "no such tool" in told["message"]) == ("INVALID_ARGUMENT", True)
    ben = await world.tenant()
    settings = ApiSettings(mcp=McpSettings(tools=ToolSettings(tenants={ben.host: {TOOL: True}})))
    there = build(world.postgres, broker_of(valkey.url, "one-tenant"), settings=settings)
    try:
        for tenant, served in ((ana, False), (ben, True)):
            async with client_of(there, tenant) as client:
                assert (TOOL in {tool.name for tool in (await client.list_tools()).tools}) is served
        reader = await there.tenant(ben.host, write=False)
        assert (await refused(there, reader, current_input="x"))[0] == "PERMISSION_DENIED"
        await reader.http.aclose()
    finally:
        await ben.http.aclose()
        await there.close()
