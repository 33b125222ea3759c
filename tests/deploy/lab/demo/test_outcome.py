import io
from dataclasses import replace

import pytest
from rich.console import Console

from deploy.lab.bench.timing import pick_percentile
from deploy.lab.demo.data import DemoQuestion, FreshWrite, QuestionKind, TurnName, Wording
from deploy.lab.demo.outcome import (
    DemoOutcome,
    DemoStageCounts,
    EntityRow,
    FreshAnswer,
    RankedAnswer,
    RecalledTurn,
)
from deploy.lab.demo.report import render_report
from tests.tables import each_row

EVIDENCE, ELSEWHERE = (TurnName(session_id="s", turn_id=turn) for turn in ("t01", "t02"))
QUESTION = DemoQuestion(question="Who is [bold]Maud[/bold]?", kind=QuestionKind.WHO, evidence=(EVIDENCE,))
WORD = FreshWrite(text="an astrolabe", ask="astrolabe?", how=Wording.WORD)
OTHER_WORDS = FreshWrite(text="a puppy", ask="young dog", how=Wording.PARAPHRASE)


def _answer(place: int | None) -> RankedAnswer:
    results = [RecalledTurn("something [red]else[/red]", ELSEWHERE)] * 10
    if place is not None:
        results[place - 1] = RecalledTurn("Maud is my sister", EVIDENCE)
    return RankedAnswer(QUESTION, tuple(results), 12.4)


@pytest.fixture
def good() -> DemoOutcome:
    return DemoOutcome(
        turns=153,
        stages=(DemoStageCounts("gateway", done=150, skipped=3), DemoStageCounts("embedding", done=153)),
        answers=(*[_answer(5)] * 9, _answer(6)),
        fresh=(FreshAnswer(WORD, 1, 8.0), FreshAnswer(OTHER_WORDS, 10, 30.0)),
        entities=(EntityRow("Ines", "person", 20, (("Rowan", 12), ("Ghent", 3))),),
        seconds=41.6,
    )


def _printed(outcome: DemoOutcome) -> str:
    console = Console(file=io.StringIO(), width=160, color_system=None)
    console.print(render_report(outcome))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_run_that_showed_everything_has_no_failures(good: DemoOutcome) -> None:
    assert good.failures == ()
    assert "All of it held, in 42 s" in _printed(good)


@pytest.mark.parametrize(
    "change,failure",
    [
        (
            {"stages": (DemoStageCounts("extraction", done=152, pending=1),)},
            "extraction: 152 of 153 turns went through (1 pending)",
        ),
        ({"answers": (*[_answer(1)] * 8, _answer(6), _answer(None))}, "recall: 8 of 10 questions"),
        ({"answers": ()}, "recall: 0 of 0"),
        ({"fresh": (FreshAnswer(WORD, 11, 8.0), FreshAnswer(OTHER_WORDS, 1, 8.0))}, "read your writes: 1 of 2"),
        ({"fresh": (FreshAnswer(WORD, None, 8.0),)}, "read your writes: 0 of 1"),
        ({"fresh": ()}, "read your writes: 0 of 0"),
        ({"entities": ()}, "entities: none"),
    ],
)
def test_each_thing_that_did_not_hold_is_said(good: DemoOutcome, change: dict[str, object], failure: str) -> None:
    outcome = replace(good, **change)  # type: ignore[arg-type]  # each case names one field and its own type
    assert len(outcome.failures) == 1
    assert outcome.failures[0].startswith(failure)
    assert failure in _printed(outcome)


def test_what_was_said_is_printed_as_it_was_said(good: DemoOutcome) -> None:
    printed = _printed(good)
    assert "[bold]Maud[/bold]" in printed
    assert "[red]else[/red]" in printed
    assert "Rowan (12), Ghent (3)" in printed
    assert "s/t01" in printed


def test_stage_counts_are_taken_as_status_gives_them() -> None:
    counts = {"pending": 0, "running": 1, "done": 2, "skipped": 3, "unknown": 4, "dead": 5}
    assert DemoStageCounts.of("gateway", counts).through == 5


@each_row("share,value", [(0.0, 1.0), (0.5, 2.0), (0.51, 3.0), (0.95, 4.0), (1.0, 4.0)])
def test_a_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert pick_percentile([4.0, 1.0, 3.0, 2.0], share) == value


def test_no_values_have_the_percentile_zero() -> None:
    assert pick_percentile([], 0.5) == 0.0
