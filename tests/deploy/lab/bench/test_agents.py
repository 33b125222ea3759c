"""The conversations with agents: as many as promised, one answer each, and a part that nothing was tuned on."""

import hashlib

import pytest

from deploy.lab.bench.quality.agents import CHECKING, TUNING, UNTOUCHED, UNTOUCHED_SHA256, read_agents
from deploy.lab.bench.quality.formats import read_dialogues
from deploy.lab.bench.quality.material import Dialogue


@pytest.fixture(scope="module")
def talks() -> list[Dialogue]:
    return [talk for part in (TUNING, CHECKING, UNTOUCHED) for talk in read_agents(part)]


def test_the_part_that_is_scored_last_is_as_it_was_before_it_was_scored() -> None:
    assert hashlib.sha256(UNTOUCHED.read_bytes()).hexdigest() == UNTOUCHED_SHA256


def test_there_are_440_questions_in_44_talks_140_of_them_untouched(talks: list[Dialogue]) -> None:
    assert (len(talks), sum(len(talk.asked) for talk in talks)) == (44, 440)
    for part, count in ((TUNING, 15), (CHECKING, 15), (UNTOUCHED, 14)):
        alone = read_dialogues(part, "agents")
        assert len({talk.name for talk in alone}) == count
        assert [len(talk.asked) for talk in alone] == [10] * count


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
