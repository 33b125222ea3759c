"""What has ended is in no answer: each read is tried before an end, after it, and once it is ended."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest_asyncio

from producers.settings import ApiSettings
from store import identity
from store.ledger.ledger import Ledger
from store.memory.turns import TurnStore
from store.recall.recaller import ARMS
from tests.generations import make_live
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.producers.mcp.test_tools import call, client_of
from tests.producers.words import WordEmbedder
from tests.servers import TestPostgres, TestValkey
from tests.workers.conftest import World as Workers
from tests.workers.conftest import now
from tests.workers.stages import Crew

MARK = "Zq41zanzibar"
MINUTE = timedelta(minutes=1)
Read = Callable[[], Awaitable[str]]


@pytest_asyncio.fixture(loop_scope="session")
async def quiet(fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[World]:
    """An API whose stages have nobody else's work."""
    made = build(fresh_database, broker_of(valkey.url, f"ended-{uuid4().hex}"), settings=ApiSettings())
    yield made
    await made.close()


@dataclass
class Ids:
    """What the reads name."""

    lasting: str = ""
    message: str = ""
    memory: str = ""
    document: str = ""
    fact: str = ""
    reflection: str = ""


async def work_through(world: World) -> None:
    workers = Workers(world.postgres, world.database, Ledger(world.database), TurnStore(world.database, now))
    await make_live(world.database, WordEmbedder())
    await Crew(workers, embedder=WordEmbedder()).drain()  # type: ignore[arg-type]  # the API's own


async def post(tenant: Tenant, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    reply = await tenant.http.post(f"/api/v1/{path}", json=dict(body))
    assert reply.is_success, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def say(tenant: Tenant, turn: str, text: str, **more: Any) -> str:
    """Say one message; return its unit."""
    said = {"session_id": "s", "turn_id": turn, "messages": [{"role": "user", "content": text}], "user_id": "ann"}
    await post(tenant, "turns", said | more)
    bank = identity.bank_id(identity.host_id(tenant.host), more.get("bank", "default"))
    return str(identity.unit_id(identity.turn_id(identity.session_id(bank, "s"), turn), 0))


async def fill(world: World, tenant: Tenant, ends: str) -> Ids:
    """Have a lasting message, and of every kind of memory one that ends; and a bank that does."""
    ids = Ids(lasting=await say(tenant, "lasts", "The island has one harbour.", user_id="bob"))
    # Each fact in a turn of its own and worked through: what was said twice is a reflection.
    for nth in range(2):
        ids.message = await say(tenant, f"ends{nth}", f"I like the island {MARK}.", expires_at=ends)
        await work_through(world)
    link = {"from_unit_id": ids.lasting, "to_unit_id": ids.message, "link_type": "causes"}
    await post(tenant, "links", link)
    ended = {"content": f"The island {MARK} is warm", "expires_at": ends}
    ids.memory = (await post(tenant, "memories", {"id": "m", **ended}))["unit_id"]
    await post(tenant, "memories", {"id": "p", "content": f"{MARK} first", "pinned": True, "expires_at": ends})
    ids.document = (await post(tenant, "docs", {**ended, "title": f"{MARK} manual"}))["doc_id"]
    await post(tenant, "banks", {"bank": f"{MARK} trip", "expires_at": ends})
    trip = {"bank": f"{MARK} trip"}
    await say(tenant, "1", f"I like the island {MARK}.", **trip)
    await post(tenant, "memories", {"id": "m", "content": f"The island {MARK} is warm", **trip})
    await post(tenant, "docs", {"content": f"The island {MARK}", "title": MARK, **trip})
    await post(tenant, "directives", {"name": MARK, "content": f"Speak of {MARK} only.", **trip})
    await work_through(world)
    units = (await tenant.http.get("/api/v1/units")).json()["units"]
    ids.fact = next(one["unit_id"] for one in units if one["kind"] == "world" and one["turn_id"] == "ends1")
    [reflection] = (await tenant.http.get("/api/v1/reflections")).json()["reflections"]
    ids.reflection = reflection["reflection_id"]
    return ids


def get(tenant: Tenant, path: str, **query: Any) -> Read:
    async def read() -> str:
        return (await tenant.http.get(f"/api/v1/{path}", params=query)).text

    return read


def ask(tenant: Tenant, **more: Any) -> Read:
    async def read() -> str:
        return json.dumps((await post(tenant, "recall", {"query": "island", "k": 50, **more}))["results"])

    return read


def tool(world: World, tenant: Tenant, name: str, **arguments: Any) -> Read:
    async def read() -> str:
        async with client_of(world, tenant) as client:
            return json.dumps(await call(client, name, **arguments))

    return read


TRIP: dict[str, Any] = {"bank": f"{MARK} trip"}


def list_questions(tenant: Tenant, **moment: str) -> dict[str, Read]:
    """Return questions by their names; `moment` is what they are about.

    Each arm is asked alone; three of them answer only where the question asks for what they find.
    """
    arms = [arm.name for arm in ARMS]
    asks = {
        "recent": {"query": "What did I just say?"},
        "time": {"query": "What was said today?"},
        "facts": {"query": "What do I like?"},
    }
    asked: dict[str, dict[str, Any]] = {
        **{f"arm {one}": {"without": [arm for arm in arms if arm != one], **asks.get(one, {})} for one in arms},
        "facts": {"kinds": ["world"]},
        "reflections": {"kinds": ["observation"]},
        "session": {"session_id": "s"},
        "one session": {"sessions": ["s"]},
        "roles": {"roles": ["user"]},
        "user": {"user_id": "ann"},
        "ended bank": TRIP,
    }
    return {name: ask(tenant, **more, **moment) for name, more in asked.items()}


def list_reads(world: World, tenant: Tenant, ids: Ids) -> dict[str, Read]:
    """Return every other read there is, by its name."""

    async def ask_prompt() -> str:
        async with client_of(world, tenant) as client:
            return str(await client.get_prompt("recall", {"query": "island", "project": "default"}))

    async def read_resources() -> str:
        async with client_of(world, tenant) as client:
            listed = (await client.list_resources()).resources
            return f"{listed} {await client.read_resource('memory://default')}"

    async def prepare() -> str:
        item = {"type": "message", "role": "user", "content": "island?"}
        return json.dumps(
            await post(tenant, "turns/before", {"session_id": "s", "turn_id": "next", "current_input": [item]})
        )

    paths: dict[str, dict[str, Any]] = {
        **dict.fromkeys(("units ", "docs ", "memories/m ", "directives"), TRIP),
        "profile": {"user_id": "ann"},
        "units": {},
        "turns/s/ends0": {},
        "turns": {"session_id": "s"},
        "docs": {},
        f"docs/{ids.document}": {},
        "memories/m": {},
        **{f"units/{one}": {} for one in (ids.message, ids.memory, ids.fact, ids.reflection, ids.lasting)},
        "reflections": {},
        "banks": {},
        "bank": TRIP,
        "sessions/s": {"messages": 1000},
        "sessions/s ": TRIP,
    }
    return {
        **{path: get(tenant, path.strip(), **query) for path, query in paths.items()},
        "prepared turn": prepare,
        "memory_search": tool(world, tenant, "memory_search", query="island"),
        "memory_before_turn": tool(world, tenant, "memory_before_turn", session_id="s", current_input_text="island?"),
        "prompt": ask_prompt,
        "resources": read_resources,
    }


def shows(text: str) -> bool:
    """Say whether something that ends is in an answer: by its words, or a turn by its name."""
    return MARK in text or '"ends0"' in text


async def told_by(reads: Mapping[str, Read]) -> set[str]:
    return {name for name, read in reads.items() if shows(await read())}


async def test_what_has_ended_is_in_no_answer_of_any_read_whether_or_not_an_event_has_ended_it(
    quiet: World,
) -> None:
    tenant = await quiet.tenant()
    # All within the minutes in which the newest messages are recalled for being new.
    ends, earlier = ((quiet.clock() + ahead).isoformat() for ahead in (5 * MINUTE, 2 * MINUTE))
    ids = await fill(quiet, tenant, ends)
    reads = list_questions(tenant) | list_reads(quiet, tenant, ids)
    before = list_questions(tenant, as_of=earlier)
    assert set(reads) - await told_by(reads) == set()
    users = (await tenant.http.get("/api/v1/users")).json()["users"]
    quiet.clock.ahead = 10 * MINUTE
    assert await told_by(reads) == set()
    # Facts are asked for as they hold now.
    assert {*before} - await told_by(before) == {"arm facts"}
    assert len(users) == len((await tenant.http.get("/api/v1/users")).json()["users"]) + 1
    ending = quiet.memory.sessions._dependencies.ending
    assert ending is not None
    host = identity.host_id(tenant.host)
    while (found := await ending.find_ending(host, UUID(int=0))) is not None:
        await ending.end(host, found)
    await work_through(quiet)
    assert await told_by(reads) == set()
    # What was drawn from it went with the event, and its place in time; its text is found by words and meaning.
    assert {*before} - await told_by(before) == {"arm facts", "arm recent", "arm time", "reflections"}
    await tenant.http.aclose()
