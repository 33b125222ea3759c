"""The times of a recall's steps."""

import pytest

from store.recall.recaller import ARMS
from store.recall.state import StepTimer
from tests.store.recall.conftest import Memory


def test_each_step_ends_where_the_next_begins() -> None:
    moments = iter([10.0, 10.001, 10.004])
    steps = StepTimer(lambda: next(moments))
    steps.done("first")
    steps.done("second")
    assert steps.milliseconds() == {"first": pytest.approx(1.0), "second": pytest.approx(3.0)}


async def test_an_answer_tells_its_steps_in_their_order(memory: Memory) -> None:
    await memory.say("The okapi is called Marzipan")
    answer = await memory.ask("okapi")
    assert [step for step in answer.took if step not in {arm.name for arm in ARMS}] == [
        "prepare",
        "embed",
        "load",
        "rank",
        "texts",
        "budget",
    ]
    assert list(answer.took)[2:4] == ["dense", "lexical"]
    assert min(answer.took.values()) >= 0
