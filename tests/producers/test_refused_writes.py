"""A broker that answers PING and takes no writes: it is seen, the work is done without it, and nothing is forgotten."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import pytest
import redis
from pydantic import SecretStr

from deploy.components.broker_fitness import find_broker_problems
from deploy.lab.chaos.faults import REFUSALS, WriteRefusal, send_command
from deploy.local import EmbeddedValkey
from producers.jobs import QUEUES
from producers.notifications import Notifier
from producers.settings import BrokerSettings
from store.ledger.stages import Stage
from tests.patience import until
from tests.producers.conftest import broker_of

SPACE = "refused"
KINDS = ("ReadOnlyError", "OutOfMemoryError", "NOREPLICAS")
JOB = (UUID(int=1), UUID(int=2))

refusals = pytest.mark.parametrize("refusal, kind", list(zip(REFUSALS, KINDS, strict=True)), ids=KINDS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    own = EmbeddedValkey(tmp_path_factory.mktemp("valkey"))
    own.start()
    yield own
    own.stop()


@pytest.fixture
def operator(server: EmbeddedValkey) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(server.url) as client:
        yield client
        for refusal in REFUSALS:
            send_command(client, refusal.end)
        client.flushall()


@pytest.fixture
async def notifier(server: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Notifier]:
    monkeypatch.setattr("producers.notifications.BACK_OFF_S", 0.05)
    made = Notifier(broker_of(server.url, SPACE))
    yield made
    await made.close()


@refusals
async def test_a_notification_that_was_refused_is_told_and_sent_when_the_broker_takes_it(
    operator: "redis.Redis", notifier: Notifier, refusal: WriteRefusal, kind: str
) -> None:
    send_command(operator, refusal.begin)
    assert operator.ping()
    assert await notifier.deliver([Stage.EXTRACTION], [JOB]) == kind
    assert await notifier.find_fault() == kind
    send_command(operator, refusal.end)
    queues = (QUEUES[Stage.EXTRACTION], "recall")
    await until(lambda: all(operator.hlen(f"{SPACE}:{queue}.msgs") for queue in queues), "both were sent")
    await until(lambda: not notifier._fault, "it took notice")
    assert await notifier.find_fault() == ""
    assert await notifier.deliver([Stage.EMBEDDING], []) == ""


@refusals
async def test_refused_writes_are_found_before_there_was_a_notification(
    operator: "redis.Redis", notifier: Notifier, refusal: WriteRefusal, kind: str
) -> None:
    assert await notifier.find_fault() == ""
    send_command(operator, refusal.begin)
    assert await notifier.find_fault() == kind


@refusals
def test_the_doctor_names_refused_writes(
    server: EmbeddedValkey, operator: "redis.Redis", refusal: WriteRefusal, kind: str
) -> None:
    settings = BrokerSettings(url=SecretStr(server.url), namespace=SPACE)
    assert find_broker_problems(settings) == []
    send_command(operator, refusal.begin)
    [flaw] = find_broker_problems(settings)
    assert flaw.what == f"it refuses writes ({kind})"
    assert not flaw.loses


async def test_a_user_who_may_set_flags_and_not_send_is_a_refusal_that_silences_no_other(
    server: EmbeddedValkey, operator: "redis.Redis", notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A second try of the refused one would hold the flag for the moment in which the other asks for it.
    monkeypatch.setattr("producers.notifications.BACK_OFF_S", 60.0)
    operator.acl_setuser(
        "picky", enabled=True, reset=True, passwords="+zq82", keys="*", channels="*", commands=["+@all", "-@scripting"]
    )
    picky = Notifier(
        broker_of(server.url.replace("redis://:", "redis://picky:").replace(_password(server), "zq82"), SPACE)
    )
    assert await picky.deliver([Stage.EXTRACTION], []) == "NoPermissionError"
    assert await picky.find_fault() == "NoPermissionError"
    await asyncio.sleep(0.2)  # in which a second try would be made
    assert [str(one["count"]) for one in operator.acl_log()] == ["1"]
    assert await notifier.deliver([Stage.EXTRACTION], []) == ""
    assert operator.hlen(f"{SPACE}:{QUEUES[Stage.EXTRACTION]}.msgs") == 1
    await picky.close()


def _password(server: EmbeddedValkey) -> str:
    return server.url.partition("redis://:")[2].partition("@")[0]
