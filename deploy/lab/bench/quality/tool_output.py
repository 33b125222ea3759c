"""Adds long tool output to the agents' conversations, which must not displace statements from the results.

After every question the agent runs a tool with an output of about 160 words: log lines with the searched text, words
of the user's messages, and noise. A line in one output of each conversation is asked for as well, in the words that
the tool was called with. All is computed deterministically from the files.
"""

import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from deploy.lab.bench.quality.agents import CHECKING, STEP, TUNING, read_agents
from deploy.lab.bench.quality.material import Dialogue, DialogueMessage, DialogueQuestion
from deploy.lab.bench.talk import make_sentence

FILE = Path(__file__).with_name("tool_outputs.toml")
#: Approximate words of an output, and the category of questions that only an output answers.
OUTPUT_WORDS, CATEGORY = 160, "tool output"
#: Index of the output that holds the line that is asked for.
ANSWERING = 4
#: Formats of lines: with the question, with words of the conversation, and with noise.
_LINES = (
    'INFO search query="{asked}" hits=0 took={number} ms',
    "DEBUG match terms={told} score=0.{number}",
    "TRACE chunk {number}: {noise}",
)


def read_tool_outputs(path: Path) -> Iterator[Dialogue]:
    """Yield the tuning and checking conversations, with the tool outputs that the file describes."""
    talks = {talk.name.removeprefix("agent "): talk for part in (TUNING, CHECKING) for talk in read_agents(part)}
    for agent, tool, line, question in tomllib.loads(path.read_text(encoding="utf-8"))["outputs"]:
        yield add_outputs(talks[agent], tool, line, question)


def add_outputs(talk: Dialogue, tool: str, line: str, question: str) -> Dialogue:
    """Return a conversation with an output of a tool after each question of the user.

    One output contains `line`, which answers the added `question`.
    """
    chance = random.Random(talk.name)  # noqa: S311 - a seed, not a secret
    told = sorted({word.strip(".,?!") for one in talk.said if one.role == "user" for word in one.text.split()})
    said: list[DialogueMessage] = []
    outputs: list[str] = []
    for one in talk.said:
        said.append(one)
        if one.role == "user" and one.text.endswith("?"):
            answers = len(outputs) == ANSWERING
            lines = _make_lines(question if answers else one.text, told, chance)
            if answers:
                lines.insert(len(lines) // 2, line)
            text = "\n".join((f"{tool}:", *lines))
            outputs.append(f"{one.id}-output")
            said.append(DialogueMessage(outputs[-1], one.session, "tool", None, text, one.at + STEP / 2))
    asked = DialogueQuestion(question, CATEGORY, frozenset({outputs[ANSWERING]}))
    return replace(talk, name=f"{talk.name}, long tool output", said=said, asked=[*talk.asked, asked])


def _make_lines(asked: str, told: Sequence[str], chance: random.Random) -> list[str]:
    lines: list[str] = []
    at = timedelta(hours=9)
    while sum(len(line.split()) for line in lines) < OUTPUT_WORDS:
        at += timedelta(seconds=chance.randrange(1, 40))
        line = _LINES[len(lines) % len(_LINES)].format(
            asked=asked, told=chance.sample(told, 3), noise=make_sentence(chance), number=chance.randrange(10, 99)
        )
        lines.append(f"{at} {line}")
    return lines
