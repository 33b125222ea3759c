"""kill -9 of every kind of process while turns come in: nothing is lost and nothing is done twice."""

import threading
from typing import Self

import pytest
import redis
from afterturn_client import Afterturn, AfterturnError, Message, NewTurn

from tests.deploy.cli.test_live import Live
from tests.faults.counting import count, wait_for
from tests.patience import PATIENCE_S, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kills")]

BANK = "killed"
KINDS = ("worker-1", "api", "valkey", "postgres", "worker-2")
UNDONE = 50
BATCH = 25

ACCEPTED_AND_UNDONE = "select count(distinct turn_id) from afterturn.ledger_t where undone"
OF_BANK = "from afterturn.{} x join afterturn.agent_memory_bank_t b using (host_id, bank_id) where bank_name like '{}'"
TURNS = f"select count(*) {OF_BANK.format('turn_t', BANK)}"
COPIES = f"select count(*) {OF_BANK.format('turn_t', 'gateway:%')}"


class Feeder:
    """Hands in batches of turns until it is told to stop; a batch that got no answer is sent again."""

    def __init__(self, stack: Live) -> None:
        self._stack = stack
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.accepted = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        with Afterturn(self._stack.stack.api, self._stack.stack.api_key(), bank=BANK) as memory:
            number = 0
            while not self._stop.is_set():
                turns = [_turn(number + n) for n in range(BATCH)]
                if not self._sent(memory, turns):
                    continue
                number += BATCH
                self.accepted = number
                self._stop.wait(0.5)

    def _sent(self, memory: Afterturn, turns: list[NewTurn]) -> bool:
        try:
            answers = memory.add_turns(turns)
        except AfterturnError:
            return False
        return all(hasattr(answer, "position") for answer in answers)


def _turn(number: int) -> NewTurn:
    messages = [
        Message("user", f"Turn {number}: Ann met Bob in Porto about plan {number}.", name="Ann"),
        Message("assistant", f"Plan {number} is noted."),
    ]
    return NewTurn(f"s{number % 9}", messages, turn_id=f"t{number}")


def goes_on(feeder: Feeder) -> None:
    """Wait until the stack takes turns again, and many of them."""
    enough = feeder.accepted + UNDONE
    wait_until(lambda: feeder.accepted >= enough, f"{enough} turns are accepted")


def some_are_undone(stack: Live) -> None:
    """Wait until many accepted turns are under way."""
    wait_for(stack.stack, ACCEPTED_AND_UNDONE, lambda undone: undone >= UNDONE, f"{UNDONE} turns are undone")


def nothing_is_undone(stack: Live) -> None:
    """Wait until every accepted turn has passed every stage."""
    wait_for(stack.stack, ACCEPTED_AND_UNDONE, lambda undone: undone == 0, "nothing is undone", 4 * PATIENCE_S)


def assert_whole(stack: Live, accepted: int) -> None:
    """Every accepted turn passed every stage, and nothing of it is there twice."""
    assert count(stack.stack, TURNS) == accepted
    messages = OF_BANK.format("agent_memory_unit_t", BANK) + " and x.origin = 'message'"
    assert count(stack.stack, f"select count(*) {messages}") == 2 * accepted
    assert count(stack.stack, f"select count(distinct (session_id, seq)) {messages}") == 2 * accepted
    assert count(stack.stack, f"select count(*) {OF_BANK.format('unit_vector_t', BANK)} and chunk = 0") == count(
        stack.stack, f"select count(*) {OF_BANK.format('agent_memory_unit_t', BANK)}"
    )
    ended = OF_BANK.format("ledger_t", BANK) + " and x.item_id = x.turn_id and x.status in ('done', 'flushed')"
    for stage in ("extraction", "embedding", "projection"):
        assert count(stack.stack, f"select count(*) {ended} and stage = '{stage}'") == accepted
    units = count(stack.stack, f"select units {OF_BANK.format('bank_statistics_t', BANK)}")
    assert units == count(stack.stack, f"select count(*) {OF_BANK.format('agent_memory_unit_t', BANK)}")
    pair = (
        "select cooccur_count from hindsight.agent_memory_entity_cooccur_t c "
        "join afterturn.agent_memory_bank_t k using (host_id, bank_id) "
        "join afterturn.agent_memory_entity_t a on a.bank_id = c.bank_id and a.entity_id = c.entity_id_1 "
        "join afterturn.agent_memory_entity_t b on b.bank_id = c.bank_id and b.entity_id = c.entity_id_2 "
        "where bank_name = 'killed' and least(a.canonical_name, b.canonical_name) = 'Bob' "
        "and greatest(a.canonical_name, b.canonical_name) = 'Porto'"
    )
    assert count(stack.stack, pair) == accepted


def gateway_outcomes(stack: Live) -> dict[str, int]:
    counts = stack.answer("status")["stages"]["gateway"]
    return {status: counts[status] for status in ("done", "unknown", "dead")}


@pytest.mark.law("L1")
@pytest.mark.law("L2")
def test_kills_of_every_process_and_an_empty_valkey_lose_nothing_of_an_ingest_and_double_nothing(stack: Live) -> None:
    with Feeder(stack) as feeder:
        for kind in KINDS:
            some_are_undone(stack)
            stack.kill(kind)
            goes_on(feeder)
        some_are_undone(stack)
        redis.Redis.from_url(stack.stack.redis_url.get_secret_value()).flushall()
        goes_on(feeder)
    accepted = feeder.accepted
    nothing_is_undone(stack)
    assert_whole(stack, accepted)
    ended = gateway_outcomes(stack)
    # What was on its way when its sender or receiver died has an unknown outcome and is not sent again; the rest is.
    assert ended["done"] + ended["unknown"] + ended["dead"] == accepted
    # The gateway is the service itself: it has the turns already and stores no copy of them.
    assert count(stack.stack, COPIES) == 0
