"""A real API process under one tenant's flood: another tenant's calls pass by it, and it is itself still served."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Self

import httpx
import pytest
from pydantic import SecretStr

from deploy.local.ports import find_free_port
from store.database import Database
from store.settings import DatabaseSettings
from store.tenancy.keys import Keys
from tests.deploy.api.test_process import api, environment, live
from tests.patience import PATIENCE_S
from tests.servers import TestPostgres, TestValkey

pytestmark = pytest.mark.live

FLOOD = 32
#: Calls of the flooding tenant that may end during one call of the other: a few, as its share lets two work at a time.
#: Without fair scheduling all of the 32 work at a time, and about as many end.
MOST = 12
CALLS = 12
WORDS = [
    "Ana",
    "Boris",
    "Porto",
    "plan",
    "garden",
    "violin",
    "train",
    "recipe",
    "doctor",
    "summer",
    "invoice",
    "mountain",
]


def said(n: int) -> str:
    return " ".join(WORDS[(n * k + k) % len(WORDS)] for k in range(1, 12)) + f" {n}"


def turn(n: int) -> dict[str, Any]:
    return {"session_id": f"s{n % 7}", "turn_id": str(n), "messages": [{"role": "user", "content": said(n)}]}


@pytest.fixture(scope="module")
def served(postgres: TestPostgres, valkey: TestValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, folder = find_free_port(), tmp_path_factory.mktemp("fair")
    with (
        api(environment(folder, postgres, valkey, port), folder) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client,
    ):
        live(client, process)
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def tenant(postgres: TestPostgres, url: str, name: str) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client of a new tenant whose bank has something in it."""
    operator = SecretStr(postgres.operator_url)
    database = Database(DatabaseSettings(url=SecretStr(postgres.app_url), operator_url=operator))
    token = await Keys(database).create(name, "test")
    await database.close()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=FLOOD)
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE_S, limits=limits) as client:
        (await client.post("/api/v1/turns:batch", json={"turns": [turn(n) for n in range(200)]})).raise_for_status()
        yield client


async def question(client: httpx.AsyncClient, n: int) -> None:
    (await client.post("/api/v1/recall", json={"query": said(n)})).raise_for_status()


class Flood:
    """32 recalls of one tenant at a time, for as long as the block lasts; counts how they end."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.answered = self.refused = 0

    async def _lane(self) -> None:
        while True:
            reply = await self.client.post("/api/v1/recall", json={"query": said(self.answered)})
            self.answered += reply.status_code == 200
            self.refused += reply.status_code == 429
            assert reply.status_code in {200, 429}

    async def __aenter__(self) -> Self:
        self._lanes = [asyncio.create_task(self._lane()) for _ in range(FLOOD)]
        return self

    async def __aexit__(self, *_exit: object) -> None:
        for lane in self._lanes:
            lane.cancel()
        ended = await asyncio.gather(*self._lanes, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended)


async def test_a_tenant_alone_may_have_as_many_calls_at_a_time_as_before(postgres: TestPostgres, served: str) -> None:
    # The first of the module: no other tenant was ever active.
    async with tenant(postgres, served, "alone") as alone:
        await asyncio.gather(*(question(alone, n) for n in range(48)))
        taken = await asyncio.gather(*(alone.post("/api/v1/turns", json=turn(1000 + n)) for n in range(48)))
        assert {reply.status_code for reply in taken} == {201}


async def test_a_tenants_flood_passes_no_more_than_its_share_by_each_call_of_another(
    postgres: TestPostgres, served: str
) -> None:
    async with tenant(postgres, served, "flooding") as flooding, tenant(postgres, served, "other") as other:
        await question(other, 0)
        passed = []
        async with Flood(flooding) as flood:
            while flood.answered < FLOOD:
                await question(other, 1)
            for n in range(CALLS):
                before = flood.answered
                await question(other, n)
                passed.append(flood.answered - before)
            answered = flood.answered
        assert sorted(passed)[CALLS // 2] <= MOST
        assert answered > FLOOD
