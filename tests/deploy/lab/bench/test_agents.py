"""The conversations with agents: as many as promised, one answer each, and a half that nothing was tuned on."""

import hashlib

import pytest

from deploy.lab.bench.quality.agents import HELD_OUT, HELD_OUT_SHA256, TUNING, read_agents
from deploy.lab.bench.quality.formats import read_dialogues
from deploy.lab.bench.quality.material import Dialogue


@pytest.fixture(scope="module")
def talks() -> list[Dialogue]:
    return [*read_agents(TUNING), *read_agents(HELD_OUT)]


def test_the_half_that_is_scored_last_is_as_it_was_before_anything_was_tuned() -> None:
    assert hashlib.sha256(HELD_OUT.read_bytes()).hexdigest() == HELD_OUT_SHA256


def test_there_are_three_hundred_questions_in_thirty_talks_half_of_them_held_out(talks: list[Dialogue]) -> None:
    assert (len(talks), len({talk.name for talk in talks})) == (30, 30)
    assert sum(len(talk.asked) for talk in talks) == 300
    assert sum(len(talk.asked) for talk in read_dialogues(HELD_OUT, "agents")) == 150


def test_each_question_was_asked_and_echoed_before_and_is_answered_once_by_the_user(talks: list[Dialogue]) -> None:
    for talk in talks:
        said = {one.id: one for one in talk.said}
        assert len(said) == len(talk.said)
        for asked in talk.asked:
            [answer] = asked.evidence
            assert said[answer].role == "user"
            assert not said[answer].text.endswith("?")
            assert asked.text in [one.text for one in talk.said if one.role == "user"]
            assert any(asked.text in one.text for one in talk.said if one.role == "assistant")
