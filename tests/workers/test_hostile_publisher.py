"""What a publisher's user can write to its queue by hand costs others nothing, and hides no message of theirs."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import redis
from afterturn_client.envelopes import TURN, wrap_event
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.worker.resources import begin_rewrite
from producers.queue.dead_letters import MOST_BYTES, DeadLetters
from tests.patience import wait_until
from tests.workers.test_turn_queue import MARK, NEVER, Queue, Taken, queue
from workers.turn_queue import HELD_BYTES, LONGEST_ID, TurnQueueBroker

__all__ = ["queue"]
LARGEST = 1 << 20


def message(turn: str, size: int = 0) -> bytes:
    data = {"bank": "b", "session_id": "s", "turn_id": turn, "messages": [{"role": "user", "content": "x" * size}]}
    return wrap_event(TURN, data, "x").body


def push(queue: Queue, *bodies: tuple[bytes | str, bytes]) -> None:
    line = f"{queue.prefix}:turns"
    for name, body in bodies:
        queue.client.hset(f"{line}.msgs", name, body)
        queue.client.rpush(line, name)


def take_all(queue: Queue) -> Taken:
    taken = Taken()
    with queue.worker(taken.accept):
        wait_until(lambda: queue.left() == 0, "every message is judged")
    return taken


def test_ids_without_bodies_are_cleared_at_once(queue: Queue) -> None:
    line = f"{queue.prefix}:turns"
    for first in range(0, 200_000, 10_000):
        queue.client.rpush(line, *range(first, first + 10_000))
    queue.publish("1")
    taken = take_all(queue)
    assert taken.seen == [("1", 0)]
    assert queue.client.llen(line) == 0


def test_an_id_that_is_repeated_is_one_message(queue: Queue) -> None:
    push(queue, ("one", message("1")))
    queue.client.rpush(f"{queue.prefix}:turns", *["one"] * 20_000)
    assert take_all(queue).seen == [("1", 0)]


def test_a_worker_holds_no_more_bytes_of_a_queue_than_its_bound(queue: Queue) -> None:
    may_end = threading.Event()

    async def slow(raw: bytes, failures: int) -> None:
        del raw, failures
        await asyncio.to_thread(may_end.wait, 60)

    push(queue, *((f"m{n}", message(f"{n}", LARGEST - 1000)) for n in range(24)))
    held = 0
    with queue.worker(slow, threads=32) as broker:
        wait_until(
            lambda: sum(broker.handed_out["turns"].values()) > HELD_BYTES - LARGEST, "as many as may be are held"
        )
        for _ in range(10):
            held = max(held, sum(broker.handed_out["turns"].values()))
            threading.Event().wait(0.05)
        may_end.set()
        wait_until(lambda: queue.left() == 0, "every message is accepted")
    assert held <= HELD_BYTES


def test_a_message_beyond_the_limit_is_a_dead_letter_and_never_read(queue: Queue) -> None:
    queue.letters = DeadLetters(queue.client, queue.prefix, keep_content=True)
    body = message("1", LARGEST)
    push(queue, ("large", body), ("small", message("2")))
    taken = take_all(queue)
    assert taken.seen == [("2", 0)]
    [letter] = queue.letters.list()
    told = (letter.message_id, letter.size_bytes, letter.code, letter.content_kept)
    assert told == ("large", len(body), "PAYLOAD_TOO_LARGE", False)


def test_a_message_whose_id_is_long_is_kept_under_a_short_one(queue: Queue) -> None:
    push(queue, ("n" * (LONGEST_ID + 1), message("1")), ("m" * 1_000_000, b"no json"))
    broker = TurnQueueBroker(queue.url, queue.prefix, 3.0, LARGEST)
    consumer = broker.consume("turns", prefetch=2)
    found = [next(consumer), next(consumer)]
    assert [len(one.args[2]) for one in found if one] == [45, 45]
    consumer.requeue([one for one in found if one])
    broker.client.close()
    queue.client.hdel(
        f"{queue.prefix}:turns.msgs", *(one.args[2] for one in found if one and one.args[0] == b"no json")
    )
    assert take_all(queue).seen == [("1", 0)]


@pytest.mark.parametrize("busy", [False, True])
def test_keys_of_another_type_stop_no_worker(queue: Queue, *, busy: bool) -> None:
    """`busy`: a worker is reading the queue meanwhile, whose consumer must not fail."""

    def spoil() -> None:
        queue.client.hset(f"{queue.prefix}:turns", "x", "y")
        queue.client.rpush(f"{queue.prefix}:turns.msgs", "x")

    def is_empty() -> bool:
        return not queue.client.exists(f"{queue.prefix}:turns", f"{queue.prefix}:turns.msgs")

    taken = Taken()
    if not busy:
        spoil()
    with queue.worker(taken.accept):
        for nth in range(5 if busy else 1):
            if busy:
                wait_until(is_empty, "the queue is empty")
                spoil()
            wait_until(is_empty, "the keys are gone")
            push(queue, (f"m{nth}", message(f"{nth}")))
            wait_until(lambda: queue.left() == 0, "the message is accepted")
    assert [turn for turn, _ in taken.seen] == [str(nth) for nth in range(5 if busy else 1)]


def test_a_body_that_was_never_pushed_is_accepted_once(queue: Queue) -> None:
    queue.client.hset(f"{queue.prefix}:turns.msgs", "alone", message("1"))
    assert take_all(queue).seen == [("1", 0)]


def test_queue_list_shows_the_others_whatever_one_publisher_wrote(queue: Queue) -> None:
    tenants = {"agents": "a\x1b[31m", "others": "b"}
    environment = {
        "AFTERTURN_BROKER__URL": queue.url,
        "AFTERTURN_BROKER__NAMESPACE": queue.namespace,
        "AFTERTURN_QUEUE__TENANTS": json.dumps(tenants),
    }
    queue.client.rpush(f"{queue.prefix}:turns.msgs", "x")
    queue.client.hset(f"{queue.prefix}:recalls.msgs", "\x1b[31m", "y")
    queue.client.hset(f"{queue.namespace}:queue:others:turns.msgs", "x", "y")
    runner, app = CliRunner(env=environment), build_cli("queue")
    listed = json.loads(runner.invoke(app, ["queue", "list", "--json"], catch_exceptions=False).stdout)["queues"]
    [spoilt, other] = listed
    assert (spoilt["turns"], spoilt["recalls"], spoilt["dead"]) == (None, 1, 0)
    assert (other["turns"], other["recalls"], other["dead"]) == (1, 0, 0)
    queue.letters.put("\x1b[31mred\nrow", "turns", b"", 1, NEVER)
    for command in (["list"], ["dead", "agents"]):
        told = runner.invoke(app, ["queue", *command], catch_exceptions=False)
        assert told.exit_code == 0
        assert "\x1b[31m" not in told.output


def test_contents_of_dead_letters_are_bounded_and_not_read_to_list_them(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("producers.queue.dead_letters.MOST_BYTES", 3 * LARGEST)
    assert MOST_BYTES <= 1 << 26
    letters = DeadLetters(queue.client, queue.prefix, keep_content=True)
    for name in ("one", "two", "three", "four", "four"):
        letters.put(name, "turns", b"x" * LARGEST, 1, NEVER)
    assert [letter.message_id for letter in letters.list()] == ["two", "three", "four"]
    assert int(queue.client.get(f"{queue.prefix}:dead.bytes")) == 3 * LARGEST
    read: int = queue.client.info("stats")["total_net_output_bytes"]
    letters.list()
    assert queue.client.info("stats")["total_net_output_bytes"] - read < LARGEST
    assert letters.replay(letters.list()[0])
    letters.drop(["three", "four"])
    assert int(queue.client.get(f"{queue.prefix}:dead.bytes")) == 0


@pytest.mark.law("L7")
def test_words_of_accepted_messages_leave_the_append_only_file(queue: Queue) -> None:
    folder = Path(queue.client.config_get("dir")["dir"])

    def on_disk() -> bool:
        found = False
        for path in folder.rglob("appendonly*"):
            try:
                found = found or (path.is_file() and MARK.encode() in path.read_bytes())
            except FileNotFoundError:
                continue
        return found

    queue.publish("1")
    wait_until(on_disk, "the file has the message")
    take_all(queue)
    assert on_disk()
    mark = f"{queue.namespace}:rewritten"

    def begun() -> bool:
        try:
            return begin_rewrite(queue.client, mark, 60)
        except redis.ResponseError:  # another rewrite is under way
            return False

    wait_until(begun, "a rewrite begins")
    wait_until(lambda: not on_disk(), "the file is rewritten")
    assert begin_rewrite(queue.client, mark, 60) is False


def test_a_rewrite_that_the_server_refuses_is_begun_again(queue: Queue) -> None:
    queue.client.execute_command("ACL", "SETUSER", "norewrite", "on", ">pw", "~*", "+@all", "-bgrewriteaof")
    place = queue.url.rpartition("@")[2]
    refused: Any = redis.Redis.from_url(f"redis://norewrite:pw@{place}")
    mark = f"{queue.namespace}:rewritten"
    for _ in range(2):
        with pytest.raises(redis.ResponseError):
            begin_rewrite(refused, mark, 60)
    refused.close()
    queue.client.execute_command("ACL", "DELUSER", "norewrite")
