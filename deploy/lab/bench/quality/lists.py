"""Reads conversations of three people with one agent over weeks, and questions for lists: each member is evidence.

In each week one member of each list is mentioned, among user messages of the agents' conversations that the three
people say in turn. All is computed deterministically from the files.
"""

import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

from deploy.lab.bench.quality.agents import BEGIN, CHECKING, DAYS, HEARD, STEP, TUNING, read_agents
from deploy.lab.bench.quality.material import Dialogue, DialogueMessage, DialogueQuestion

FILE = Path(__file__).with_name("lists.toml")
CATEGORY = "list"
#: Number of words of each statement that the agent repeats.
ECHOED_WORDS = 4
#: Files with the conversations between the lists' members, for one bank after the other.
BESIDE = (TUNING, CHECKING)
#: A message: its id, who says it, and its text.
Said = tuple[str, str, str]


def read_lists(path: Path) -> Iterator[Dialogue]:
    """Yield the dialogues of one of our files, one per bank."""
    for bank, beside in zip(tomllib.loads(path.read_text(encoding="utf-8"))["banks"], cycle(BESIDE)):
        yield _make_bank(bank, [one for talk in read_agents(beside) for one in talk.said if one.role == "user"])


def _make_bank(bank: Any, beside: Sequence[DialogueMessage]) -> Dialogue:
    chance = random.Random(bank["name"])  # noqa: S311 - a seed, not a secret
    lists = {
        f"{one['name']}-{n}": (one["name"], *told) for one in bank["people"] for n, told in enumerate(one["lists"])
    }
    weeks = max(len(members) for _, _, members in lists.values())
    people = cycle(one["name"] for one in bank["people"])
    chatter = [(f"beside-{n}", next(people), one.text) for n, one in enumerate(beside)]
    said: list[DialogueMessage] = []
    for week in range(weeks):
        told = [*_list_members(lists, week), *chatter[week::weeks]]
        chance.shuffle(told)
        said += _make_week(week, told)
    asked = [
        DialogueQuestion(question, CATEGORY, frozenset(f"{name}-{n}" for n in range(len(members))))
        for name, (_, question, members) in lists.items()
    ]
    return Dialogue(f"lists {bank['name']}", said, asked)


def _list_members(lists: Mapping[str, tuple[str, str, Sequence[str]]], week: int) -> Iterator[Said]:
    for name, (who, _, members) in lists.items():
        if week < len(members):
            yield f"{name}-{week}", who, members[week]


def _make_week(week: int, told: Sequence[Said]) -> Iterator[DialogueMessage]:
    session, begin = f"week-{week}", BEGIN + timedelta(days=DAYS * week)
    for nth, (name, who, words) in enumerate(told):
        heard = f"{HEARD[nth % len(HEARD)]} ({' '.join(words.split()[:ECHOED_WORDS])} ...)"
        yield DialogueMessage(name, session, "user", who, words, begin + 2 * nth * STEP)
        yield DialogueMessage(f"{name}-heard", session, "assistant", None, heard, begin + (2 * nth + 1) * STEP)
