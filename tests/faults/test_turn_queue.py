"""Turn queues on the product itself: what is published is accepted once or a dead letter, and nobody reads along."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import redis
from afterturn_client import (
    AfterturnError,
    InvalidRequestError,
    Message,
    NewTurn,
    NotFoundError,
    QueueFullError,
    QueueRefusedError,
)
from afterturn_client.envelopes import TURN, wrap_event
from afterturn_client.publisher import AsyncTurnPublisher, QueueOptions, TurnPublisher
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from store import identity
from tests.deploy.cli.test_live import Live, up
from tests.faults.counting import count, wait_for
from tests.patience import PATIENCE_S, until, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("turn-queue")]

QUEUES = json.dumps({"agents": "default", "others": "another tenant"})
SETTINGS = {
    "AFTERTURN_QUEUE__TENANTS": QUEUES,
    "AFTERTURN_QUEUE__KEEP_DEAD_CONTENT": "true",
    "AFTERTURN_QUEUE__TAKEOVER_SECONDS": "3",
    "AFTERTURN_WORKER__NICE": "0",
}
#: `make nightly` publishes 5,000.
TURNS = int(os.environ.get("AFTERTURN_QUEUE_TURNS", "300"))
BATCH = 20
KILLED = ("worker-1", "valkey", "postgres", "worker-2") * (2 if TURNS > 1000 else 1)
OF_BANK = (
    "from afterturn.{} x join afterturn.agent_memory_bank_t b using (host_id, bank_id) "
    "where bank_name = '{}' and x.host_id = '{}'"
)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with up(tmp_path_factory.mktemp("queue") / "data", "--workers", "2", **SETTINGS) as running:
        yield running


@pytest.fixture
def operator(stack: Live, monkeypatch: pytest.MonkeyPatch) -> Live:
    """The stack, for commands that read the same settings."""
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    return stack


@pytest.fixture
def bank() -> str:
    return f"bank-{uuid4().hex[:8]}"


def url_of(stack: Live) -> str:
    return stack.stack.redis_url.get_secret_value()


@contextmanager
def publisher(stack: Live, bank: str, queue: str = "agents", url: str = "", **more: Any) -> Iterator[TurnPublisher]:
    with TurnPublisher(url or url_of(stack), queue, QueueOptions(bank=bank, **more)) as made:
        yield made


def accepted(made: TurnPublisher, what: str) -> None:
    wait_until(lambda: made.length() == made.length("recalls") == 0, what)


def turns_of(stack: Live, bank: str, tenant: str = "default") -> int:
    return count(stack.stack, "select count(*) " + OF_BANK.format("turn_t", bank, identity.host_id(tenant)))


def said(text: str) -> list[Message]:
    return [Message("user", text, name="Ann"), Message("assistant", "Noted.")]


def item(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


async def test_turns_items_and_questions_are_published_and_the_answer_comes_by_its_job(stack: Live, bank: str) -> None:
    async with (
        AsyncTurnPublisher(url_of(stack), "agents", QueueOptions(bank=bank)) as made,
        stack.client(bank=bank) as client,
    ):
        name = await made.add_turn("s", said("the zeppelin lands on Tuesday"))
        await made.add_turn("s", said("the zeppelin lands on Tuesday"), turn_id=name)
        await made.after_turn("s", "items", [item("and the airship on Friday")], user_id="ann")

        async def empty() -> bool:
            return await made.length() == 0

        await until(empty, "the turns are accepted")
        assert (await client.turn_status("s", name)).position != (await client.turn_status("s", "items")).position
        job = await made.start_recall("when does the zeppelin land?", k=3)

        async def answered() -> bool:
            try:
                return (await client.recall_job(job, wait_ms=1000)).status == "done"
            except NotFoundError:
                return False

        await until(answered, "the question is answered")
        state = await client.recall_job(job)
        assert state.answer is not None
        assert {one.turn_id for one in state.answer.results} == {name, "items"}
    assert await asyncio.to_thread(turns_of, stack, bank) == 2


@pytest.mark.law("L6")
def test_the_queue_alone_says_whose_a_message_is(stack: Live, bank: str) -> None:
    """A forged tenant, queue, actor and id change nothing: the turn is the queue's tenant's."""
    data = {"bank": bank, "session_id": "s", "turn_id": "t", "messages": [{"role": "user", "content": "mine"}]}
    forged = json.loads(wrap_event(TURN, data | {"tenant": "default", "host": "default"}, "x").body)
    forged |= {"queue_name": "agents:turns", "actor_name": "work_embedding", "options": {"redis_message_id": "other"}}
    forged["args"][0] |= {"tenant": "default", "host": "default"}
    client = redis.Redis.from_url(url_of(stack))
    client.hset("afterturn:queue:others:turns.msgs", "\xff id", json.dumps(forged))
    client.rpush("afterturn:queue:others:turns", "\xff id")
    client.close()
    with publisher(stack, bank, "others") as made:
        accepted(made, "the forged turn is accepted")
    assert (turns_of(stack, bank), turns_of(stack, bank, "another tenant")) == (0, 1)


@pytest.mark.law("L7")
def test_what_is_never_accepted_is_a_dead_letter_with_its_reason_and_can_be_replayed(operator: Live, bank: str) -> None:
    client = redis.Redis.from_url(url_of(operator))
    with publisher(operator, bank) as made:
        made.add_turn("s", said("first"), turn_id="t")
        accepted(made, "the first turn is accepted")
        made.add_turn("s", said("zq81 another"), turn_id="t")
        made.after_turn("s/", "t", [item("zq81 bad name")])
        for number, garbage in enumerate((b"zq81 no json", b"\xff\xfe", b"[]", b'{"args":[{"type":"zq81"}]}')):
            client.hset("afterturn:queue:agents:turns.msgs", f"bad-{number}", garbage)
            client.rpush("afterturn:queue:agents:turns", f"bad-{number}")
        accepted(made, "all are judged")
        letters = operator.answer("queue", "dead", "agents")["letters"]
        assert sorted(one["code"] for one in letters) == ["INVALID_ARGUMENT"] * 5 + ["TURN_CONFLICT"]
        assert "zq81" not in json.dumps(letters)
        logs = "".join(path.read_text() for path in (operator.data / "logs").glob("worker-*.log"))
        assert "zq81" not in logs
        conflict = next(one["message_id"] for one in letters if one["code"] == "TURN_CONFLICT")
        assert operator.answer("queue", "replay", "agents", conflict) == {"changed": 1, "left": 0}
        accepted(made, "the replayed letter is judged")
        [listed] = [one for one in operator.answer("queue", "list")["queues"] if one["queue"] == "agents"]
        assert listed == {"queue": "agents", "tenant": "default", "turns": 0, "recalls": 0, "dead": 6}
    assert operator.answer("queue", "drop", "agents", "--all", "--yes") == {"changed": 6, "left": 0}
    assert operator.run("queue", "dead", "nowhere").exit_code == 2
    client.close()


@pytest.mark.law("L6")
def test_a_publishers_user_can_push_to_its_queue_and_do_nothing_else(operator: Live, bank: str) -> None:
    admin: Any = redis.Redis.from_url(url_of(operator))
    line = CliRunner().invoke(build_cli("queue"), ["queue", "acl", "agents", "--user", "ann-agent"]).stdout
    admin.execute_command(*line.replace("'", "").replace("PASSWORD", "pw").split())
    parts = urlsplit(url_of(operator))
    mine = f"redis://ann-agent:pw@{parts.hostname}:{parts.port}{parts.path}"
    with publisher(operator, bank, url=mine) as made:
        made.add_turn("s", said("published by a user that may do nothing else"))
        accepted(made, "the turn is accepted")
        with publisher(operator, bank, "others", url=mine) as foreign, pytest.raises(QueueRefusedError):
            foreign.add_turn("s", said("not mine"))
    assert turns_of(operator, bank) == 1
    user: Any = redis.Redis.from_url(mine)
    own = "afterturn:queue:agents:turns"
    for denied in (
        ("HGETALL", f"{own}.msgs"),
        ("LRANGE", own, 0, -1),
        ("LPOP", own),
        ("DEL", own),
        ("GET", "x"),
        ("KEYS", "*"),
        ("EVAL", "return 1", 0),
        ("RPUSH", "afterturn:queue:agents:dead", "x"),
        ("RPUSH", "afterturn:default", "x"),
        ("ACL", "LIST"),
        ("CONFIG", "GET", "*"),
    ):
        with pytest.raises(redis.ResponseError, match="permission"):
            user.execute_command(*denied)
    user.close()
    admin.execute_command("ACL", "DELUSER", "ann-agent")
    admin.close()


def test_a_full_queue_and_what_is_too_long_are_told_before_anything_is_published(stack: Live, bank: str) -> None:
    with publisher(stack, bank, max_length=1) as made:
        with pytest.raises(QueueFullError) as raised:
            made.add_turns([NewTurn("s", said("a")), NewTurn("s", said("b"))])
        assert (raised.value.length, raised.value.limit) == (0, 1)
        with pytest.raises(InvalidRequestError):
            made.add_turn("s", said("x" * 2_100_000))
        assert made.length() == 0
    assert turns_of(stack, bank) == 0


@pytest.mark.law("L1")
@pytest.mark.law("L2")
def test_while_workers_valkey_and_postgresql_are_killed_every_turn_is_there_once_or_a_dead_letter(
    operator: Live, bank: str
) -> None:
    with publisher(operator, bank, max_length=TURNS * 2) as made:
        published: list[NewTurn] = []
        killer = threading.Thread(target=kill_each, args=(operator, published))
        killer.start()
        for first in range(0, TURNS, BATCH):
            some = [turn(number) for number in range(first, first + BATCH)]
            publish(made, some)
            published += some
        killer.join(2 * PATIENCE_S)
        made.add_turn("s0", said("never accepted"), turn_id="t0")
        wait_until(lambda: waiting(made) == 0, "every message is judged", 4 * PATIENCE_S, pause_s=0.2)
    wait_for(operator.stack, "select 1", lambda found: found == 1, "the database is up")
    host = identity.host_id("default")
    assert turns_of(operator, bank) == TURNS
    units = "select count({}) " + OF_BANK.format("agent_memory_unit_t", bank, host) + " and x.origin = 'message'"
    assert count(operator.stack, units.format("*")) == 2 * TURNS
    assert count(operator.stack, units.format("distinct (session_id, seq)")) == 2 * TURNS
    [letter] = operator.answer("queue", "dead", "agents")["letters"]
    assert letter["code"] == "TURN_CONFLICT"
    operator.answer("queue", "drop", "agents", "--all", "--yes")


def kill_each(stack: Live, published: list[NewTurn]) -> None:
    """Kill one after the other, while turns come in: the next when so many more were published."""
    for n, kind in enumerate(KILLED):
        enough = n * TURNS // len(KILLED)
        wait_until(lambda: len(published) >= enough, f"{enough} turns are published", 4 * PATIENCE_S)  # noqa: B023 - at once
        stack.kill(kind)


def turn(number: int) -> NewTurn:
    return NewTurn(f"s{number % 9}", said(f"Turn {number}: Ann met Bob in Porto."), turn_id=f"t{number}")


def publish(made: TurnPublisher, turns: list[NewTurn]) -> None:
    """Publish until it is on the server's disk, as an agent does that gets no answer."""

    def published() -> bool:
        try:
            made.add_turns(turns)
        except AfterturnError:
            return False
        return True

    wait_until(published, "the server takes turns", pause_s=0.1)


def waiting(made: TurnPublisher) -> int:
    try:
        return made.length()
    except AfterturnError:
        return -1
