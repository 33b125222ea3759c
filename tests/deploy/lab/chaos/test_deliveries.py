"""What a gateway's file says, counted."""

from collections.abc import Sequence

import pytest

from deploy.lab.chaos.deliveries import Deliveries, count_deliveries
from deploy.lab.chaos.gateway import RecordedCall
from deploy.lab.chaos.gateway_process import Mode
from deploy.lab.chaos.talk import Turn, index_by_words, make_conversations

FIRST, SECOND, THIRD = make_conversations(400, seed=0)[0][:3]
WORDS = index_by_words(make_conversations(400, seed=0))
POSITIONS = {FIRST: 10, SECOND: 20, THIRD: 30}
EVERYONE = [turn.id for turn in POSITIONS]


def add(turn: Turn, mode: Mode = Mode.OK) -> RecordedCall:
    messages = [{"role": "user", "content": turn.asked}, {"role": "assistant", "content": turn.answered}]
    return RecordedCall("add", mode, {"session_id": f"chat:{turn.bank}/{turn.session}", "messages": messages})


def flush(turn: Turn) -> RecordedCall:
    return RecordedCall("flush", Mode.OK, {"session_id": f"chat:{turn.bank}/{turn.session}"})


GOOD = [add(FIRST), flush(FIRST), add(SECOND), flush(SECOND), add(THIRD), flush(THIRD)]


def counted(calls: Sequence[RecordedCall]) -> Deliveries:
    return count_deliveries(calls, WORDS, POSITIONS, EVERYONE)


def test_each_turn_once_and_in_order_is_nothing_to_tell() -> None:
    assert counted(GOOD) == Deliveries(0, 0, 0, 0, 0)


@pytest.mark.parametrize("mode", [Mode.OK, Mode.SLOW, Mode.HANG, Mode.GARBAGE, Mode.BROKEN])
def test_a_turn_that_was_sent_again_is_counted_however_it_was_answered_first(mode: Mode) -> None:
    assert counted([add(FIRST, mode), *GOOD]) == Deliveries(1, 0, 0, 0, 0)


def test_a_turn_that_was_told_to_come_again_may_come_again() -> None:
    assert counted([add(FIRST, Mode.LIMITED), *GOOD]) == Deliveries(0, 0, 0, 0, 0)


def test_an_add_behind_that_of_a_later_turn_is_late() -> None:
    assert counted([add(SECOND), add(FIRST), add(THIRD), *map(flush, POSITIONS)]) == Deliveries(0, 0, 1, 0, 0)


def test_a_flush_more_than_adds_is_one_too_many() -> None:
    assert counted([*GOOD, flush(FIRST)]) == Deliveries(0, 1, 0, 0, 0)


@pytest.mark.parametrize("mode", sorted(set(Mode) - {Mode.OK, Mode.REFUSE}))
def test_a_turn_that_was_not_added_well_leaves_no_flush_to_others(mode: Mode) -> None:
    calls = [add(FIRST, mode), *GOOD[2:4], flush(SECOND), *GOOD[4:]]
    assert count_deliveries(calls, WORDS, POSITIONS, EVERYONE[1:]) == Deliveries(0, 1, 0, 0, 0)


@pytest.mark.parametrize(
    "body",
    [{"messages": []}, {"messages": [{"content": "who"}, {"content": "what"}]}, "no object"],
)
def test_an_add_nobody_asked_for_is_foreign(body: object) -> None:
    assert counted([*GOOD, RecordedCall("add", Mode.OK, body)]) == Deliveries(0, 0, 0, 1, 0)


def test_a_turn_under_another_session_is_foreign() -> None:
    astray = add(THIRD)
    astray.body["session_id"] = "chat:elsewhere"
    assert counted([*GOOD[:4], astray]) == Deliveries(0, 0, 0, 1, 1)


def test_a_delivery_the_file_does_not_show_as_answered_well_is_untrue() -> None:
    assert counted([add(FIRST, Mode.HANG), *GOOD[2:]]) == Deliveries(0, 0, 0, 0, 1)
