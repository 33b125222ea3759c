"""Recalls on a real streaming replica: the token of read-your-writes decides who answers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY
from pydantic import SecretStr

from deploy.local.ports import find_free_port
from producers.service.read_replica import ReadReplica
from producers.service.recall_coordinator import RecallBody, RecallCoordinator, RecallResult
from store import identity, migrations
from store.database import Database
from store.database_gauges import read_database_sample
from store.errors import PositionBeyondLog
from store.ledger.freshness import Waiter
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.settings import DatabaseSettings
from store.tenancy.keys import Keys
from tests.patience import PATIENCE_S, until
from tests.producers.words import WordEmbedder
from tests.replicas import Replicated, execute, replicated

HOST = identity.host_id("replicated")
#: As long as a call may wait, in milliseconds: a busy machine is given it.
PATIENT_MS = int(min(PATIENCE_S, 10) * 1000)


def answered(outcome: str) -> float:
    return REGISTRY.get_sample_value("afterturn_replica_recalls_total", {"outcome": outcome}) or 0.0


@dataclass
class Site:
    servers: Replicated
    turns: TurnStore
    recalls: RecallCoordinator
    primary: Database

    async def say(self, words: str) -> int:
        [answer] = await self.turns.append(HOST, [NewTurn("b", "s", words, (NewMessage("user", words),))])
        assert isinstance(answer, Appended)
        return answer.position

    async def ask(self, position: int | None, wait_ms: int = PATIENT_MS) -> RecallResult:
        body = RecallBody(bank="b", query="where is the heron?", min_position=position, wait_ms=wait_ms)
        return await self.recalls.answer(HOST, body)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicated]:
    with replicated(tmp_path_factory.mktemp("replicated")) as made:
        migrations.upgrade_schema(made.primary.owner_url)
        made.wait_for_replay()
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def site(servers: Replicated) -> AsyncIterator[Site]:
    operator = SecretStr(servers.primary.operator_url)
    settings = DatabaseSettings(
        url=SecretStr(servers.primary.app_url),
        operator_url=operator,
        replica_url=SecretStr(servers.replica.app_url),
        pool_size=2,
    )
    there = settings.for_replica()
    assert there is not None
    primary, replica = Database(settings), Database(there)
    await Keys(primary).create("replicated", "test")
    reading = ReadReplica(Recaller(replica, WordEmbedder(), RecallSettings()), Waiter(replica))
    recaller = Recaller(primary, WordEmbedder(), RecallSettings())
    yield Site(
        servers,
        TurnStore(primary, lambda: datetime.now(UTC)),
        RecallCoordinator(primary, recaller, Waiter(primary), replica=reading),
        primary,
    )
    await primary.close()
    await replica.close()


@pytest.mark.law("L4")
async def test_the_token_decides_who_answers(site: Site) -> None:
    position = await site.say("the heron is at the pond")
    before = answered("answered")
    found = await site.ask(position)
    assert found.freshly.met
    assert [item.text for item in found.items] == ["the heron is at the pond"]
    assert answered("answered") == before + 1
    # Without a token nothing says how old an answer may be: the primary's is of now.
    await site.ask(None)
    assert answered("answered") == before + 1


@pytest.mark.law("L4")
async def test_a_replica_that_is_behind_is_waited_for_and_then_the_primary_answers(site: Site) -> None:
    await site.ask(await site.say("the heron is at the lake"))
    await site.servers.hold_replay()
    try:
        position = await site.say("the heron is at the weir")
        behind, served = answered("behind"), answered("answered")
        found = await site.ask(position, wait_ms=50)
        assert (found.freshly.met, answered("behind"), answered("answered")) == (True, behind + 1, served)
        assert "the heron is at the weir" in {item.text for item in found.items}
        waiting = asyncio.create_task(site.ask(position))
    finally:
        await site.servers.resume_replay()
    assert (await waiting).freshly.met
    assert answered("answered") == served + 1
    with pytest.raises(PositionBeyondLog):
        await site.ask(position + 10_000, wait_ms=0)


async def test_a_replica_that_is_away_costs_no_answer(site: Site) -> None:
    position = await site.say("the heron is away")
    nowhere = SecretStr(f"postgresql+asyncpg://nobody:x@127.0.0.1:{find_free_port()}/afterturn")
    away = Database(DatabaseSettings(url=nowhere, operator_url=nowhere, pool_size=1))
    reading = ReadReplica(Recaller(away, WordEmbedder(), RecallSettings()), Waiter(away))
    recalls = RecallCoordinator(
        site.primary, Recaller(site.primary, WordEmbedder(), RecallSettings()), Waiter(site.primary), None, reading
    )
    failed = answered("failed")
    found = await replace(site, recalls=recalls).ask(position)
    assert (found.freshly.met, answered("failed")) == (True, failed + 1)
    await away.close()


async def test_the_gauges_see_a_replica_stand_still_where_the_operator_may_look(site: Site) -> None:
    assert (await read_database_sample(site.primary)).replicas == {}
    superuser = site.servers.primary.superuser_url
    await execute(superuser, "grant pg_monitor to afterturn_operator")
    await site.servers.hold_replay()
    try:
        await site.say("the heron is at the gate")

        async def lags() -> bool:
            seen = await read_database_sample(site.primary)
            assert list(seen.replicas) == ["walreceiver"]
            return seen.replicas["walreceiver"] < seen.written

        # The tests' servers flush their log a moment after a commit.
        await until(lags, "the replica is seen to lag")
    finally:
        await site.servers.resume_replay()
        await execute(superuser, "revoke pg_monitor from afterturn_operator")
