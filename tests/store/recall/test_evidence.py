"""An answer says whether it is likely to hold what was asked for, and leaves nothing out for it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from afterturn_client.contract.recall import NO_EVIDENCE, Evidence

from embeddings.protocol import Embedder
from store.memory.turns import NewMessage
from store.recall.evidence import weigh_evidence
from store.recall.fusion import Ranking
from store.recall.pool import CandidatePool
from store.recall.question import parse_question
from store.recall.recaller import Recaller
from store.recall.settings import EvidenceSettings
from tests.store.conftest import NOON
from tests.store.recall.conftest import Memory
from tests.store.recall.test_fusion import candidate, pool_of
from tests.tables import each_row

SETTINGS = EvidenceSettings(floor=0.6, agent_floor=0.3, margin=0.1)


def _weigh(scores: Sequence[float], pool: CandidatePool, named: Sequence[str] = (), words: float = 8.0) -> Evidence:
    same = np.array(scores)
    ranking = Ranking(range(len(scores)), same, same, {}, {})
    return weigh_evidence(ranking, pool, parse_question("When did she move?"), named, SETTINGS, mean_length=words)


@each_row(
    "scores, named, expected",
    [
        ([0.9, 0.5, 0.2], ["Ana"], Evidence(top=0.9, on_topic=True, about="named")),
        ([0.5, 0.9, 0.2], ["Ana"], Evidence(top=0.9, on_topic=True, about="other_speaker")),
        ([0.9, 0.85, 0.2], ["Ana"], Evidence(top=0.9, on_topic=True, about="other_speaker")),
        ([0.5, 0.4, 0.3], [], Evidence(top=0.5, on_topic=False, about=None)),
        ([0.9, 0.5, 0.2], ["Ana", "Ben"], Evidence(top=0.9, on_topic=True, about=None)),
    ],
)
def test_the_best_score_and_the_speakers_margin_decide(
    scores: list[float], named: list[str], expected: Evidence
) -> None:
    named_units = enumerate(("Ana", "Ben", "Ben"))
    units = [replace(candidate(n, "text", "s"), name=name, role="user") for n, name in named_units]
    assert _weigh(scores, pool_of(units), named) == expected


@each_row("found, on_topic", [([0.0, 0.2], True), ([0.2, 0.0], False), ([0.0, 0.0], False)])
def test_in_a_language_that_the_model_does_not_understand_meaning_alone_is_no_evidence(
    found: list[float], *, on_topic: bool
) -> None:
    units = [candidate(n, "Die Heizung wurde repariert.", "s") for n in range(2)]
    scores = np.array([0.1, 0.9])
    arms = {"dense": scores, "lexical": np.array(found)}
    ranking = Ranking(range(2), scores, scores, arms, {})
    question = parse_question("Wie hoch ist der Mount Everest?")
    for is_understood in (True, False):
        told = weigh_evidence(
            ranking, pool_of(units), question, (), SETTINGS, mean_length=8.0, is_understood=is_understood
        )
        assert told.on_topic is (is_understood or on_topic)


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
    assert _weigh([0.5, 0.4], pool).on_topic is kept
    assert not _weigh([0.2, 0.1], pool).on_topic


def test_the_floor_is_higher_among_long_texts() -> None:
    pool = pool_of([replace(candidate(1, "text", "s"), name=None, role="user")])
    flags = [_weigh([0.4], pool, words=words).on_topic for words in (1.0, 12.0, 40.0, 250.0)]
    assert flags == [True, True, True, False]


def test_nothing_found_is_no_evidence() -> None:
    assert _weigh([], pool_of([]), ["Ana"]) == NO_EVIDENCE


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
    assert (unknown.bank_known, unknown.items, unknown.evidence) == (False, (), NO_EVIDENCE)


async def test_what_scores_less_than_asked_for_is_left_out(memory: Memory) -> None:
    await memory.say("The ferry leaves at seven.", "I play chess on Sundays.")
    scores = [one.score for one in (await memory.ask("When does the ferry leave?")).items]
    assert len(scores) == 2
    kept = (await memory.ask("When does the ferry leave?", min_score=scores[0])).items
    assert [one.score for one in kept] == scores[:1]


NONSENSE = ("how do volcanoes erupt?", "who won the cup in 1998?", "*", "the", "x", "\U0001f642")


@pytest.mark.parametrize("age", [timedelta(0), timedelta(seconds=10), timedelta(days=9)])
async def test_whether_an_answer_is_on_topic_does_not_depend_on_when_it_was_said(
    memory: Memory, age: timedelta
) -> None:
    memory.recaller = Recaller(memory.database, memory.embedder, memory.settings, clock=lambda: NOON)
    await memory.say("I bought a new chair for the desk.", "The kettle is red.", occurred_at=NOON - age)
    flags = {asked: (await memory.ask(asked)).evidence.on_topic for asked in (*NONSENSE, "what colour is the kettle?")}
    assert flags == {**dict.fromkeys(NONSENSE, False), "what colour is the kettle?": True}


async def test_a_good_session_does_not_make_its_messages_evidence(memory: Memory) -> None:
    for session in ("one", "five"):
        await memory.say(*["I bought a new chair for the desk."], session=session)
    await memory.say(*(f"I bought a new chair for desk {n}." for n in range(4)), session="five")
    found = (await memory.ask("Which chair stands in the hall of the museum?", explain=True)).items
    assert any(one.explain and one.explain.moved.get("session") for one in found)
    assert (await memory.ask("How do volcanoes erupt?")).evidence.on_topic is False


@pytest.mark.parametrize(
    "said, asked, other",
    [
        (
            "\u042f \u043a\u0443\u043f\u0438\u043b \u043d\u043e\u0432\u044b\u0439 \u0441\u0442\u0443\u043b",
            "\u043a\u0442\u043e \u043a\u0443\u043f\u0438\u043b \u0441\u0442\u0443\u043b?",
            (
                "\u043a\u0430\u043a \u0438\u0437\u0432\u0435\u0440\u0433\u0430\u044e\u0442\u0441\u044f "
                "\u0432\u0443\u043b\u043a\u0430\u043d\u044b?"
            ),
        ),
        ("\u6211\u4e70\u4e86\u65b0\u6905\u5b50", "\u65b0\u6905\u5b50?", "\u706b\u5c71\u5982\u4f55\u7206\u53d1?"),
        (
            "\u0e01\u0e32\u0e15\u0e49\u0e21\u0e19\u0e49\u0e33\u0e2a\u0e35\u0e41\u0e14\u0e07",
            "\u0e01\u0e32\u0e15\u0e49\u0e21\u0e19\u0e49\u0e33",
            "\u0e20\u0e39\u0e40\u0e02\u0e32\u0e44\u0e1f",
        ),
    ],
)
async def test_texts_that_the_model_cannot_read_count_by_their_words(
    memory: Memory, said: str, asked: str, other: str
) -> None:
    await memory.say(said)
    await memory.embed_all()
    right, wrong = await memory.ask(asked, explain=True), await memory.ask(other, explain=True)
    assert (right.evidence.on_topic, wrong.evidence.on_topic) == (True, False)
    assert right.degraded == wrong.degraded == ()
    assert [one.arms for one in right.items] == [("lexical",)]
    assert all(one.explain and one.explain.arms["dense"].score == 0 for one in (*right.items, *wrong.items))


async def test_an_answer_says_that_the_bundled_model_understands_english_alone(memory: Memory, model: Embedder) -> None:
    await memory.say("Der Zug hat Verspätung.")
    memory.recaller = Recaller(memory.database, model, memory.settings)
    assert (await memory.ask("Was ist mit dem Zug?")).evidence.understands == "english"
    assert (await memory.ask("Wann fährt der Zug?")).evidence.on_topic
    assert not (await memory.ask("Wie hoch ist der Mount Everest?")).evidence.on_topic
    memory.recaller = None  # an embedder that does not say what its model understands
    assert (await memory.ask("Was ist mit dem Zug?")).evidence.understands is None
