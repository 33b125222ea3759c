"""A random walk over all routes of the plugin: whatever is guessed, no namespace and no tenant reaches another."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio

from store.identity import host_id
from tests.examples import examples
from tests.patience import PATIENCE_S
from tests.producers.conftest import World
from tests.producers.plugin.kept import parts_of, serving

pytestmark = pytest.mark.law("L6")

#: Names that begin each other, differ in case or by a sign, or hold what another is spelled with.
NAMES = ("workspace:a", "workspace:a:b", "workspace:a.", "workspace:A", "team:a", "team:a-b")
#: Spellings of a name that are that name, and such that are none.
SAME = (
    str,
    lambda name: name.replace(":", "%3A"),
    lambda name: name.replace(":", "%3a"),
    lambda name: quote(name, safe=""),
)
NONE = (
    lambda name: name.replace(":", "%253A"),
    lambda name: f"{name}%0A",
    lambda name: f"{name}%00",
    lambda name: f"{name}%20",
    lambda name: f"%20{name}",
    lambda name: name.replace("a", "%D0%B0"),
    lambda name: name.upper(),
    lambda name: f"..%2F{name}",
    lambda name: f"{name}%2F..",
    lambda name: f"gateway:{name}",
)
STEPS = examples(160)

Kept = dict[str, dict[str, str]]


class Walk:
    """One tenant's plugin, and what it should hold."""

    def __init__(self, client: httpx.AsyncClient, random: Random, foreign: list[str]) -> None:
        self.client, self.random, self.foreign = client, random, foreign
        self.kept: Kept = {}
        self.known: list[str] = []

    async def step(self) -> None:
        act = self.random.choice(
            (self.upsert, self.write, self.write, self.forget, self.delete, self.patch, self.guess)
        )
        await act()

    async def upsert(self) -> None:
        name, spelled, real = self.name()
        answer = await self.client.put(f"/v1/namespaces/{spelled}", json={"kind": "team"})
        assert (answer.status_code == 200) == real, (spelled, answer.text)
        if real:
            self.kept.setdefault(name, {})

    async def patch(self) -> None:
        name, spelled, real = self.name()
        answer = await self.client.patch(f"/v1/namespaces/{spelled}", json={"metadata": {"n": 1}})
        assert (answer.status_code == 200) == (real and name in self.kept), (spelled, answer.text)

    async def delete(self) -> None:
        name, spelled, real = self.name()
        answer = await self.client.delete(f"/v1/namespaces/{spelled}")
        assert (answer.status_code == 204) == (real and name in self.kept), (spelled, answer.text)
        if real:
            self.kept.pop(name, None)

    async def write(self) -> None:
        name, spelled, real = self.name()
        memory_id, content = self.some_id(), f"words {self.random.random()}"
        body = {"id": memory_id, "content": content, "kind": "fact", "source": "agent"}
        answer = await self.client.post(f"/v1/namespaces/{spelled}/memories", json=body)
        assert (answer.status_code == 201) == (real and name in self.kept), (spelled, answer.text)
        if answer.status_code == 201:
            self.kept[name][memory_id] = content
            self.known.append(memory_id)

    async def forget(self) -> None:
        name, memory_id = self.random.choice(NAMES), self.some_id()
        body = {"requested_by_namespace": name}
        answer = await self.client.request("DELETE", f"/v1/memories/{memory_id}", json=body)
        assert answer.status_code == (204 if memory_id in self.kept.get(name, {}) else 404)
        self.kept.get(name, {}).pop(memory_id, None)

    async def guess(self) -> None:
        """Search by a name that is none, or forget for it."""
        spelled = self.random.choice(
            ("workspace:a\n", "workspace:%61", "workspace:a b", "WORKSPACE:a", "workspace:", "*")
        )
        assert (await self.client.post("/v1/search", json={"namespaces": [spelled]})).status_code == 400
        body = {"requested_by_namespace": spelled}
        answer = await self.client.request("DELETE", f"/v1/memories/{self.some_id()}", json=body)
        assert answer.status_code == 400

    def name(self) -> tuple[str, str, bool]:
        name = self.random.choice(NAMES)
        real = self.random.random() < 0.8
        return name, self.random.choice(SAME if real else NONE)(name), real

    def some_id(self) -> str:
        """Return an id of this tenant, of another, of a message, or a new one."""
        fresh = str(UUID(int=self.random.getrandbits(128), version=4))
        return self.random.choice((*self.known[-20:], *self.foreign, fresh))

    async def check(self) -> None:
        for name in NAMES:
            for more in ({}, {"query": "words"}):
                body: dict[str, Any] = {"namespaces": [name], "limit": 100, **more}
                found = (await self.client.post("/v1/search", json=body)).json()["memories"]
                assert {one["id"]: one["content"] for one in found} == self.kept.get(name, {}), (name, more)
                assert {one["namespace"] for one in found} <= {name}


@pytest_asyncio.fixture(loop_scope="session")
async def walks(world: World) -> AsyncIterator[list[Walk]]:
    """Two tenants, each with a native turn in banks of the same names, and ids that both guess."""
    shared = [str(uuid4()) for _ in range(6)]
    async with AsyncExitStack() as stack:
        found = []
        for nth in range(2):
            tenant = await world.tenant()
            message = {"role": "user", "content": f"words said natively by {nth}"}
            turn = {"bank": NAMES[0], "session_id": "s", "turn_id": "1", "messages": [message]}
            assert (await tenant.http.post("/api/v1/turns", json=turn)).status_code == 201
            recalled = await tenant.http.post("/api/v1/recall", json={"bank": NAMES[0], "query": "words"})
            units = [one["unit_id"] for one in recalled.json()["results"]]
            assert units
            parts = parts_of(world.database, world.notifier, world.clock)
            url = await stack.enter_async_context(serving(parts, host_id(tenant.host)))
            client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=PATIENCE_S))
            found.append(Walk(client, Random(nth), [*shared, *units]))
        yield found


async def test_namespaces_and_tenants_never_cross(walks: list[Walk]) -> None:
    for nth in range(STEPS):
        walk = walks[nth % 2]
        await walk.step()
        if nth % 20 >= 18:
            for one in walks:
                await one.check()
    assert any(any(kept.values()) for kept in (walk.kept for walk in walks)), "the walk left nothing to find"
