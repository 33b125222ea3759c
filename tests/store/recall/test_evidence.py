"""An answer says whether it is likely to hold what was asked for, and leaves nothing out for it."""

from dataclasses import replace

import numpy as np
import pytest

from store.memory.turns import NewMessage
from store.recall.evidence import weigh_evidence
from store.recall.query import Evidence
from store.recall.settings import EvidenceSettings
from tests.store.recall.conftest import Memory
from tests.store.recall.test_fusion import candidate, pool_of

SETTINGS = EvidenceSettings(floor=0.6, agent_floor=0.3, margin=0.1)


@pytest.mark.parametrize(
    "scores, named, expected",
    [
        ([0.9, 0.5, 0.2], ["Ana"], Evidence(0.9, on_topic=True, about="named")),
        ([0.5, 0.9, 0.2], ["Ana"], Evidence(0.9, on_topic=True, about="other_speaker")),
        ([0.9, 0.85, 0.2], ["Ana"], Evidence(0.9, on_topic=True, about="other_speaker")),
        ([0.5, 0.4, 0.3], [], Evidence(0.5, on_topic=False, about=None)),
        ([0.9, 0.5, 0.2], ["Ana", "Ben"], Evidence(0.9, on_topic=True, about=None)),
    ],
)
def test_the_best_score_and_the_speakers_margin_decide(
    scores: list[float], named: list[str], expected: Evidence
) -> None:
    named_units = enumerate(("Ana", "Ben", "Ben"))
    units = [replace(candidate(n, "text", "s"), name=name, role="user") for n, name in named_units]
    assert weigh_evidence(np.array(scores), pool_of(units), named, SETTINGS) == expected


@pytest.mark.parametrize(
    "speakers, kept",
    [
        ([("Ana", "user"), ("Ben", "user")], False),
        ([(None, "user"), (None, "user")], True),
        ([("Ana", "user"), (None, "assistant")], True),
    ],
)
def test_an_agents_memory_has_a_floor_of_its_own(speakers: list[tuple[str | None, str]], *, kept: bool) -> None:
    pool = pool_of(
        [replace(candidate(n, "text", "s"), name=name, role=role) for n, (name, role) in enumerate(speakers)]
    )
    assert weigh_evidence(np.array([0.5, 0.4]), pool, [], SETTINGS).on_topic is kept
    assert not weigh_evidence(np.array([0.2, 0.1]), pool, [], SETTINGS).on_topic


def test_nothing_found_is_no_evidence() -> None:
    assert weigh_evidence(np.zeros(0), pool_of([]), ["Ana"], SETTINGS) == Evidence()


async def test_a_question_about_the_wrong_person_is_flagged_and_answered(memory: Memory) -> None:
    await memory.say(
        NewMessage("user", "I adopted a kitten from the shelter last week.", name="Marta"),
        NewMessage("user", "That is nice. The train was late again.", name="Igor"),
        NewMessage("user", "I play chess on Sundays.", name="Igor"),
    )
    await memory.embed_all()
    right = await memory.ask("Which kitten did Marta adopt from the shelter?")
    wrong = await memory.ask("Which kitten did Igor adopt from the shelter?")
    assert (right.evidence.about, wrong.evidence.about) == ("named", "other_speaker")
    assert right.evidence.on_topic
    assert right.evidence.top == max(one.score for one in right.items)
    assert len(wrong.items) == len(right.items) == 3


async def test_what_the_bank_never_heard_of_is_off_topic_and_an_unknown_bank_is_told(memory: Memory) -> None:
    await memory.say("The ferry leaves at seven.", "I play chess on Sundays.")
    await memory.embed_all()
    off = await memory.ask("Which compiler flags enable vectorization?")
    assert not off.evidence.on_topic
    assert off.bank_known
    unknown = await memory.ask("Which ferry?", bank="nowhere")
    assert (unknown.bank_known, unknown.items, unknown.evidence) == (False, (), Evidence())


async def test_what_scores_less_than_asked_for_is_left_out(memory: Memory) -> None:
    await memory.say("The ferry leaves at seven.", "I play chess on Sundays.")
    scores = [one.score for one in (await memory.ask("When does the ferry leave?")).items]
    assert len(scores) == 2
    kept = (await memory.ask("When does the ferry leave?", min_score=scores[0])).items
    assert [one.score for one in kept] == scores[:1]
