"""Conversations with long tool output among them: what is in them, and that they are the same each time."""

from deploy.lab.bench.quality.agents import TUNING, read_agents
from deploy.lab.bench.quality.tool_output import CATEGORY, FILE, OUTPUT_WORDS, read_tool_outputs


def test_an_output_stands_behind_every_question_and_the_talk_is_as_it_was() -> None:
    plain, found = next(read_agents(TUNING)), next(read_tool_outputs(FILE))
    ids = {one.id for one in plain.said}
    assert [one for one in found.said if one.id in ids] == plain.said
    outputs = [one for one in found.said if one.id not in ids]
    asked = [one.text for one in plain.said if one.role == "user" and one.text.endswith("?")]
    assert len(outputs) == len(asked) == 20
    assert all(one.role == "tool" and len(one.text.split()) >= OUTPUT_WORDS for one in outputs)
    assert sum(question in one.text for question, one in zip(asked, outputs, strict=True)) == len(asked) - 1


def test_one_output_of_each_conversation_answers_a_question_of_its_own() -> None:
    talks = list(read_tool_outputs(FILE))
    assert len(talks) == 30
    for talk in talks:
        [asked] = [one for one in talk.asked if one.category == CATEGORY]
        [output] = [one for one in talk.said if one.id in asked.evidence]
        assert output.role == "tool"
        assert asked.text in output.text


def test_two_runs_are_alike() -> None:
    assert list(read_tool_outputs(FILE)) == list(read_tool_outputs(FILE))
