"""What a gateway's file says, counted."""

from collections.abc import Sequence

import pytest

from deploy.lab.chaos.deliveries import DeliveryCounts, count_deliveries
from deploy.lab.chaos.gateway import RecordedCall
from deploy.lab.chaos.gateway_process import AnswerMode
from deploy.lab.chaos.talk import ChaosTurn, index_by_words, make_conversations
from tests.tables import each_row

FIRST, SECOND, THIRD = make_conversations(400, seed=0)[0][:3]
WORDS = index_by_words(make_conversations(400, seed=0))
POSITIONS = {FIRST: 10, SECOND: 20, THIRD: 30}
EVERYONE = [turn.id for turn in POSITIONS]


def add(turn: ChaosTurn, mode: AnswerMode = AnswerMode.OK) -> RecordedCall:
    messages = [{"role": "user", "content": turn.asked}, {"role": "assistant", "content": turn.answered}]
    return RecordedCall("add", mode, {"session_id": f"chat:{turn.bank}/{turn.session}", "messages": messages})


def flush(turn: ChaosTurn) -> RecordedCall:
    return RecordedCall("flush", AnswerMode.OK, {"session_id": f"chat:{turn.bank}/{turn.session}"})


GOOD = [add(FIRST), flush(FIRST), add(SECOND), flush(SECOND), add(THIRD), flush(THIRD)]


def counted(calls: Sequence[RecordedCall]) -> DeliveryCounts:
    return count_deliveries(calls, WORDS, POSITIONS, EVERYONE)


def test_each_turn_once_and_in_order_is_nothing_to_tell() -> None:
    assert counted(GOOD) == DeliveryCounts(0, 0, 0, 0, 0)


@each_row("mode", [AnswerMode.OK, AnswerMode.SLOW, AnswerMode.HANG, AnswerMode.GARBAGE, AnswerMode.BROKEN])
def test_a_turn_that_was_sent_again_is_counted_however_it_was_answered_first(mode: AnswerMode) -> None:
    assert counted([add(FIRST, mode), *GOOD]) == DeliveryCounts(1, 0, 0, 0, 0)


def test_a_turn_that_was_told_to_come_again_may_come_again() -> None:
    assert counted([add(FIRST, AnswerMode.LIMITED), *GOOD]) == DeliveryCounts(0, 0, 0, 0, 0)


def test_an_add_behind_that_of_a_later_turn_is_late() -> None:
    assert counted([add(SECOND), add(FIRST), add(THIRD), *map(flush, POSITIONS)]) == DeliveryCounts(0, 0, 1, 0, 0)


def test_a_flush_more_than_adds_is_one_too_many() -> None:
    assert counted([*GOOD, flush(FIRST)]) == DeliveryCounts(0, 1, 0, 0, 0)


@each_row("mode", sorted(set(AnswerMode) - {AnswerMode.OK, AnswerMode.REFUSE}))
def test_a_turn_that_was_not_added_well_leaves_no_flush_to_others(mode: AnswerMode) -> None:
    calls = [add(FIRST, mode), *GOOD[2:4], flush(SECOND), *GOOD[4:]]
    assert count_deliveries(calls, WORDS, POSITIONS, EVERYONE[1:]) == DeliveryCounts(0, 1, 0, 0, 0)


@pytest.mark.parametrize(
    "body",
    [{"messages": []}, {"messages": [{"content": "who"}, {"content": "what"}]}, "no object"],
)
def test_an_add_nobody_asked_for_is_foreign(body: object) -> None:
    assert counted([*GOOD, RecordedCall("add", AnswerMode.OK, body)]) == DeliveryCounts(0, 0, 0, 1, 0)


def test_a_turn_under_another_session_is_foreign() -> None:
    astray = add(THIRD)
    astray.body["session_id"] = "chat:elsewhere"
    assert counted([*GOOD[:4], astray]) == DeliveryCounts(0, 0, 0, 1, 1)


def test_a_delivery_the_file_does_not_show_as_answered_well_is_untrue() -> None:
    assert counted([add(FIRST, AnswerMode.HANG), *GOOD[2:]]) == DeliveryCounts(0, 0, 0, 0, 1)
