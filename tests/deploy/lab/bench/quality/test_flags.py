"""What is counted of an answer's flags, and which questions are asked that have no answer."""

from datetime import UTC, datetime

import pytest
from afterturn_client.contract.recall import Evidence

from deploy.lab.bench.quality.flags import (
    ANSWERABLE,
    SWAPPED,
    WRONG_PERSON,
    FlaggedAnswer,
    FlagShares,
    count_flags,
    list_elsewhere,
    name_group,
    swap_names,
)
from deploy.lab.bench.quality.material import ADVERSARIAL, Dialogue, DialogueMessage, DialogueQuestion

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _talk(*asked: DialogueQuestion, names: tuple[str | None, ...] = ("Ann", "Bo")) -> Dialogue:
    said = [DialogueMessage(f"m{n}", "s", "user", name, "text", NOON) for n, name in enumerate(names)]
    return Dialogue("talk", said, asked)


def _ask(text: str, *evidence: str, category: str = "single-hop") -> DialogueQuestion:
    return DialogueQuestion(text, category, frozenset(evidence))


def test_a_name_is_swapped_where_the_named_speaker_said_all_of_the_evidence() -> None:
    asked = (
        _ask("When did Ann sell Ann's Annex?", "m0"),
        _ask("What did Ann give Bo?", "m0"),
        _ask("What does Ann own?", "m1"),
        _ask("Where are they?", "m0"),
        _ask("What does Bo own?", "m1", category=ADVERSARIAL),
        _ask("Who is Bo?", "m1"),
    )
    assert list(swap_names(_talk(*asked))) == ["When did Bo sell Bo's Annex?", "Who is Ann?"]


@pytest.mark.parametrize("names", [("Ann", None), ("Ann", "Bo", "Cy")])
def test_nothing_is_swapped_where_no_two_speak(names: tuple[str | None, ...]) -> None:
    assert list(swap_names(_talk(_ask("Who is Ann?", "m0"), names=names))) == []


def test_questions_elsewhere_are_those_of_the_next_talk_and_never_ones_own() -> None:
    talks = [_talk(_ask("A?", "m0")), _talk(_ask("B?", "m0"))]
    assert [list_elsewhere(talks, nth) for nth in range(2)] == [["B?"], ["A?"]]
    assert list_elsewhere(talks[:1], 0) == []


def test_flags_are_counted_by_group_and_a_group_without_questions_has_no_row() -> None:
    assert [name_group(_ask("?", "m0", category=one)) for one in ("single-hop", ADVERSARIAL)] == [
        ANSWERABLE,
        WRONG_PERSON,
    ]
    answers = [
        FlaggedAnswer(SWAPPED, Evidence(top=0.9, on_topic=True, about="other_speaker")),
        FlaggedAnswer(SWAPPED, Evidence(top=0.9, on_topic=True, about="named")),
        FlaggedAnswer(SWAPPED, Evidence(top=0.1, on_topic=False, about="named")),
        FlaggedAnswer(SWAPPED, Evidence(top=None, on_topic=True, about=None)),
        FlaggedAnswer(ANSWERABLE, Evidence(top=0.9, on_topic=True, about="named")),
    ]
    assert count_flags(answers) == [
        FlagShares(ANSWERABLE, 1, one_speaker=1.0, other_speaker=0.0, on_topic=1.0),
        FlagShares(SWAPPED, 4, one_speaker=0.75, other_speaker=0.25, on_topic=0.75),
    ]
