"""Changes of mind: a hundred of them, and how an answer that holds one is scored."""

import tomllib
from collections import Counter

from deploy.lab.bench.quality.agents import TUNING
from deploy.lab.bench.quality.changes import (
    FILE,
    PARALLEL,
    ChangeScore,
    ToldResult,
    count_changes,
    read_changes,
    score_change,
)
from deploy.lab.bench.quality.formats import read_dialogues
from deploy.lab.bench.quality.material import DialogueQuestion

ASKED = DialogueQuestion("Where?", "place", frozenset({"new"}), frozenset({"old"}))
STALE = frozenset({"old", "another old"})


def score(*found: tuple[str, bool], asked: DialogueQuestion = ASKED) -> ChangeScore:
    return score_change(asked, STALE, [ToldResult((turn,), former) for turn, former in found])


def test_there_are_a_hundred_changes_in_four_conversations_and_truths_beside_each_other() -> None:
    dialogues = list(read_changes(FILE))
    forms = Counter(one.category for dialogue in dialogues for one in dialogue.asked)
    assert len(dialogues) == 4
    assert forms.pop(PARALLEL) == 48
    assert sum(forms.values()) == 100
    assert forms.keys() == {"plain", "instead", "no longer", "actually", "number", "date", "place"}


def test_what_holds_now_is_said_two_weeks_after_what_held_before() -> None:
    rows = [row for talk in tomllib.loads(FILE.read_text(encoding="utf-8"))["talks"] for row in talk["changes"]]
    asked = [(dialogue, one) for dialogue in read_dialogues(FILE, "changes") for one in dialogue.asked if one.stale]
    for (dialogue, one), (_, _, before, now) in zip(asked, rows, strict=True):
        said = {message.id: message for message in dialogue.said}
        [current], [stale] = one.evidence, one.stale
        assert (said[stale].text, said[current].text) == (before, now)
        assert (said[current].at - said[stale].at).days == 14


def test_the_conversations_with_agents_say_what_is_outdated_as_well() -> None:
    for dialogue in read_dialogues(TUNING, "agents"):
        said = {message.id: message for message in dialogue.said}
        assert len(dialogue.list_stale()) == len([one for one in dialogue.said if one.id.startswith("day-0-")]) // 2 - 1
        assert all(said[one].role == "user" and said[one].session == "day-0" for one in dialogue.list_stale())


def test_the_current_statement_has_to_stand_first_and_the_outdated_one_to_be_marked() -> None:
    assert score(("new", False), ("old", True)) == ChangeScore("place", True, True, False)
    assert score(("old", False), ("new", False)) == ChangeScore("place", False, False, False)
    assert score(("old", True)) == ChangeScore("place", False, True, False)
    assert score(("new", False)) == ChangeScore("place", True, True, False)


def test_what_is_marked_without_being_outdated_counts_as_wrong() -> None:
    assert not score(("another old", True)).wrongly_former
    assert score(("new", True)).wrongly_former
    beside = DialogueQuestion("Which?", PARALLEL, frozenset({"a", "b"}))
    assert score(("a", True), asked=beside) == ChangeScore(PARALLEL, None, None, True)


def test_shares_are_of_the_questions_with_an_outdated_statement() -> None:
    scored = [
        ChangeScore("place", True, False, False),
        ChangeScore("place", False, False, True),
        ChangeScore(PARALLEL, None, None, False),
    ]
    rows = {row.category: row for row in count_changes(scored)}
    assert (rows["place"].current_first, rows["place"].stale_former, rows["place"].wrongly_former) == (0.5, 0.0, 0.5)
    assert (rows["all"].questions, rows["all"].changes, rows["all"].current_first) == (3, 2, 0.5)
    assert count_changes([ChangeScore(PARALLEL, None, None, False)]) == []
