"""AfterturnSession, as the OpenAI Agents SDK uses a session: asked for items, handed new ones, once each."""

import inspect
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from afterturn_client import AsyncAfterturn, InvalidRequestError, TurnConflictError
from afterturn_client.agents_session import AfterturnSession

from tests.producers.conftest import Tenant, World

#: The SDK's protocol (openai-agents 0.24): names and parameters.
SHAPE = {"get_items": ["limit"], "add_items": ["items"], "pop_item": [], "clear_session": []}


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


CALL = [
    {"type": "reasoning", "id": "r", "encrypted_content": "gAAA", "summary": []},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "a lamp"},
    said("There is a lamp.", "assistant"),
]


@pytest_asyncio.fixture(loop_scope="session")
async def client(world: World, ana: Tenant) -> AsyncIterator[AsyncAfterturn]:
    transport = httpx.ASGITransport(world.app)
    async with AsyncAfterturn("http://127.0.0.1:8300", ana.token, transport=transport) as made:
        yield made


def test_it_has_the_shape_of_the_sdks_sessions(client: AsyncAfterturn) -> None:
    session = AfterturnSession(client, "s")
    assert (session.session_id, session.session_settings) == ("s", None)
    for name, parameters in SHAPE.items():
        method = getattr(session, name)
        assert inspect.iscoroutinefunction(method)
        assert list(inspect.signature(method).parameters) == parameters


@pytest.mark.law("L2")
async def test_items_come_back_whole_and_a_repeated_run_is_kept_once(client: AsyncAfterturn) -> None:
    for _ in range(2):
        session = AfterturnSession(client, "s", run_id="run")
        await session.add_items([said("What is there?")])
        await session.add_items(CALL)
    assert await session.get_items() == [said("What is there?"), *CALL]
    assert await session.get_items(limit=3) == []
    assert await session.get_items(limit=5) == [said("What is there?"), *CALL]
    await session.add_items([])
    with pytest.raises(TurnConflictError):
        await AfterturnSession(client, "s", run_id="run").add_items([said("another")])
    for taken_back in (session.pop_item, session.clear_session):
        with pytest.raises(InvalidRequestError):
            await taken_back()


@pytest.mark.law("L8")
async def test_what_is_recalled_stands_before_the_new_items_and_is_not_kept_again(client: AsyncAfterturn) -> None:
    await AfterturnSession(client, "other").add_items([said("We fly to Lisbon on Friday")])
    session = AfterturnSession(client, "s")
    await session.add_items([said("hello"), said("hi", "assistant")])
    new = [said("When do we fly to Lisbon?")]
    given = await session.prepare_input(await session.get_items(), new)
    assert "We fly to Lisbon on Friday" in given[1]["content"][0]["text"]
    assert given[2:] == [said("hello"), said("hi", "assistant"), *new]
    await session.add_items(given[:2] + new)
    assert (await session.get_items())[-3:] == [said("hello"), said("hi", "assistant"), *new]
