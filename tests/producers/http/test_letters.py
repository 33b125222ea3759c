"""Dead letters of turn queues over the operator's interface: reasons without content, changed as they were counted."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
import redis

from producers.errors import Unavailable
from producers.queue import dead_letters
from producers.queue.acceptance import Rejection
from producers.queue.dead_letters import DeadLetters
from producers.queue.operated import OperatedQueue
from producers.service import operator_letters
from producers.service.operator_letters import OperatorLetters
from store.tenancy.operator_keys import OperatorKeys
from tests.client.loopback import closed_port
from tests.producers.conftest import QUEUE, QUEUE_TENANT, World

V1 = "/api/v1/operator"
SECRET = "Grimpenmire"
NEVER = Rejection("INVALID_ARGUMENT", "session_id: must not be blank")
BUSY = Rejection("QUOTA_EXCEEDED", "no room")


@pytest_asyncio.fixture(loop_scope="session")
async def letters(world: World) -> AsyncIterator[DeadLetters]:
    """The dead letters of the queue: none."""
    await asyncio.to_thread(empty, world.queue.letters)
    yield world.queue.letters
    await asyncio.to_thread(empty, world.queue.letters)


def empty(letters: DeadLetters) -> None:
    letters.drop([one.message_id for one in letters.list()])
    letters.client.delete(f"{letters.prefix}:turns", f"{letters.prefix}:turns.msgs")


async def operator_of(world: World, *, makes_keys: bool = False) -> httpx.AsyncClient:
    token = await OperatorKeys(world.database).create("on call", makes_keys=makes_keys)
    return world.client({"authorization": f"Bearer {token}"})


async def ask(client: httpx.AsyncClient, method: str, path: str, status: int = 200, **more: Any) -> Any:
    reply = await client.request(method, f"{V1}{path}", **more)
    assert reply.status_code == status, reply.text
    return reply.json()


async def put(letters: DeadLetters, *names: str, why: Rejection = NEVER, kind: str = "turns") -> None:
    for name in names:
        await asyncio.to_thread(letters.put, name, kind, SECRET.encode(), 1, why)


@pytest.mark.law("L7")
async def test_letters_are_paged_and_shown_without_content_or_names(world: World, letters: DeadLetters) -> None:
    names = [f"{SECRET} {nth}" for nth in range(5)]
    await put(letters, *names)
    async with await operator_of(world) as plain, await operator_of(world, makes_keys=True) as trusted:
        asked, listed = {"limit": 2, "names": True}, list[dict[str, Any]]()
        cursors = list[str]()
        while True:
            page = await ask(plain, "GET", "/letters", params=asked)
            listed += page["letters"]
            if not page["has_more"]:
                break
            cursors.append(page["cursor"])
            asked["cursor"] = page["cursor"]
        assert len({one["letter_id"] for one in listed}) == len(listed) == 5
        assert {(one["queue"], one["tenant"], one["code"]) for one in listed} == {(QUEUE, QUEUE_TENANT, NEVER.code)}
        assert SECRET not in str(listed)
        told = (await ask(trusted, "GET", "/letters", params={"names": True}))["letters"]
        assert sorted(one["message_id"] for one in told) == names
        assert [one["letter_id"] for one in told] == [one["letter_id"] for one in listed]
        await ask(plain, "GET", "/letters", 422, params={"cursor": cursors[0], "code": "X"})
        [queue] = (await ask(plain, "GET", "/queues"))["queues"]
        assert (queue["queue"], queue["turns"], queue["dead"]) == (QUEUE, 0, 5)


async def test_letters_of_one_millisecond_are_each_listed_once(
    world: World, letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: 4_000_000_000_000_000_000)
        await put(letters, *"abcdefg")
    monkeypatch.setattr(dead_letters, "BATCH", 2)
    assert [one.message_id for one in letters.iterate()] == list("abcdefg")
    async with await operator_of(world, makes_keys=True) as operator:
        asked, seen = {"limit": 3, "names": True}, list[str]()
        while True:
            page = await ask(operator, "GET", "/letters", params=asked)
            seen += [one["message_id"] for one in page["letters"]]
            if not page["has_more"]:
                break
            asked["cursor"] = page["cursor"]
    assert sorted(seen) == list("abcdefg")


async def test_a_letter_is_retried_or_dropped_by_its_id_once(world: World, letters: DeadLetters) -> None:
    await put(letters, "retried", "dropped")
    async with await operator_of(world) as operator:
        first, second = (await ask(operator, "GET", "/letters"))["letters"]
        for action, letter in (("retry", first), ("drop", second)):
            body = {"action": action, "queue": QUEUE, "ids": [letter["letter_id"]]}
            done = await ask(operator, "POST", "/letters", json=body)
            assert done == {"ok": True, "changed": 1, "left": 0, "cursor": None}
            again = await ask(operator, "POST", "/letters", json=body)
            assert (again["changed"], again["left"]) == (0, 1), "it was changed meanwhile"
        [queue] = (await ask(operator, "GET", "/queues"))["queues"]
        assert (queue["turns"], queue["dead"]) == (1, 0)
        assert await world.recorder.flush()
        calls = (await ask(operator, "GET", "/audit", params={"operation": f"POST {V1}/letters"}))["calls"]
        assert len(calls) >= 4
        await ask(
            operator, "POST", "/letters", 422, json={"action": "drop", "queue": "none", "ids": [first["letter_id"]]}
        )


async def test_letters_that_match_and_were_counted_are_changed(
    world: World, letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(letters, *"123")
    await put(letters, "busy", why=BUSY)
    await put(letters, "asked", kind="recalls")
    bare = DeadLetters(letters.client, letters.prefix)
    await put(bare, "bare")
    where = {"queue": QUEUE, "kind": "turns", "code": NEVER.code}
    async with await operator_of(world) as operator:
        counted = await ask(operator, "GET", "/letters/count", params=where)
        assert (counted["letters"], counted["kept"]) == (4, 3)
        assert (await ask(operator, "GET", "/letters/count", params={**where, "kept": False}))["letters"] == 1
        assert (await ask(operator, "GET", "/letters/count", params={"older_than_s": 3600}))["letters"] == 0
        assert (await ask(operator, "GET", "/letters/count", params={"tenant": "another"}))["newest_at"] is None
        await asyncio.sleep(0.002)
        await put(letters, "later")
        monkeypatch.setattr(operator_letters, "MOST_CHANGED", 3)
        monkeypatch.setattr(operator_letters, "TOGETHER_S", 0.0)
        body = {"action": "retry", "where": where, "newest_at": counted["newest_at"]}
        told, cursor = list[tuple[int, int]](), None
        while not told or cursor:
            done = await ask(operator, "POST", "/letters/matching", json={**body, "cursor": cursor})
            told, cursor = [*told, (done["changed"], done["left"])], done["cursor"]
        assert told[:2] == [(3, 0), (0, 1)], "what one call has no time for is changed by the next"
        assert {one.message_id for one in letters.list()} == {"busy", "asked", "bare", "later"}
        rest = {"action": "drop", "where": {}, "newest_at": "2098-01-01T00:00:00Z"}
        monkeypatch.undo()
        assert (await ask(operator, "POST", "/letters/matching", json=rest))["changed"] == 4
    assert await asyncio.to_thread(letters.count) == 0


async def test_a_server_that_is_away_is_said_and_nothing_is_promised(world: World) -> None:
    client = redis.Redis.from_url(f"redis://127.0.0.1:{closed_port().rpartition(':')[2]}", socket_connect_timeout=1)
    away = OperatorLetters([OperatedQueue("q", "t", DeadLetters(client, "q"))], world.clock)
    with pytest.raises(Unavailable, match="the server of the turn queues does not answer"):
        await away.list_queues()
    with pytest.raises(Unavailable):
        await away.change_matching({"action": "drop", "where": {}, "newest_at": "2098-01-01T00:00:00Z"})
    client.close()
