"""Reads dialogues with questions in three published formats and in our own; questions without evidence are dropped."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deploy.lab.bench.quality.agents import read_agents
from deploy.lab.bench.quality.changes import read_changes
from deploy.lab.bench.quality.lists import read_lists
from deploy.lab.bench.quality.material import ADVERSARIAL, Dialogue, DialogueMessage, DialogueQuestion, UnreadableData
from deploy.lab.bench.quality.tool_output import read_tool_outputs

#: Assumed time between messages without times.
STEP = timedelta(seconds=20)
LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: ADVERSARIAL}
#: BEAM's categories without usable evidence: no sources, or a whole story or a standing order as source.
BEAM_LEFT_OUT = {"abstention", "summarization", "instruction_following"}
BEAM_BEGINS = datetime(2024, 1, 1, tzinfo=UTC)

#: Characters of a message of BEAM that are stored, the first: one has 348 kB, more than the service takes.
BEAM_CHARACTERS = 200_000

#: Text that replaces a blank message, which memory would refuse; so later messages keep their numbers.
BLANK = "(no text)"

_MARKS = re.compile(r"\s*->->[\s\d,]*$")
_WEEKDAY = re.compile(r"\s*\(\w+\)")
_DIALOG_ID = re.compile(r"D:?(\d+):0*(\d+)")


def read_dialogues(path: Path, kind: str) -> Sequence[Dialogue]:
    """Return the dialogues of a file (for BEAM: of a folder). Raises UnreadableData."""
    try:
        return list(FORMATS[kind](path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableData(f"{path} cannot be read as {kind}: {type(error).__name__}") from None


def _read_locomo(path: Path) -> Iterator[Dialogue]:
    for one in json.loads(path.read_text(encoding="utf-8")):
        said = list(_read_locomo_messages(one["conversation"]))
        asked = (
            DialogueQuestion(q["question"], LOCOMO_CATEGORIES[q["category"]], _parse_locomo_evidence(q))
            for q in one["qa"]
        )
        yield _make_dialogue(one["sample_id"], said, asked)


def _read_locomo_messages(sessions: Mapping[str, Any]) -> Iterator[DialogueMessage]:
    number = 1
    while f"session_{number}_date_time" in sessions:
        day = sessions[f"session_{number}_date_time"].strip().upper()
        began = datetime.strptime(day, "%I:%M %p ON %d %B, %Y").replace(tzinfo=UTC)
        for nth, turn in enumerate(sessions.get(f"session_{number}", [])):
            shown = f" [shares a photo: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            text = (turn["text"].strip() + shown) or BLANK
            yield DialogueMessage(turn["dia_id"], f"S{number}", "user", turn["speaker"], text, began + nth * STEP)
        number += 1


def _parse_locomo_evidence(question: Mapping[str, Any]) -> frozenset[str]:
    """Return the evidence ids; some entries of the published file hold two ids, or a stray character."""
    pieces = (piece for told in question.get("evidence") or [] for piece in re.split(r"[;,\s]+", told))
    return frozenset(f"D{m[1]}:{m[2]}" for piece in pieces if (m := _DIALOG_ID.fullmatch(piece)))


def _read_longmemeval(path: Path) -> Iterator[Dialogue]:
    for one in json.loads(path.read_text(encoding="utf-8")):
        if one["question_id"].endswith("_abs"):
            continue
        said, evidence = [], set()
        names = _make_names_unique(one["haystack_session_ids"])
        for session, day, turns in zip(names, one["haystack_dates"], one["haystack_sessions"], strict=True):
            began = datetime.strptime(_WEEKDAY.sub("", day), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
            for nth, turn in enumerate(turns):
                text = turn["content"].strip() or BLANK
                said.append(
                    DialogueMessage(
                        f"{session}#{nth}", session, _map_role(turn["role"]), None, text, began + nth * STEP
                    )
                )
                if turn.get("has_answer"):
                    evidence.add(f"{session}#{nth}")
        yield _make_dialogue(
            one["question_id"], said, [DialogueQuestion(one["question"], one["question_type"], frozenset(evidence))]
        )


def _make_names_unique(names: Iterable[str]) -> Iterator[str]:
    """Yield unique names; a repeated one, of a session that occurs twice in a history, gets a number."""
    seen = Counter[str]()
    for name in names:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name}~{seen[name]}"


def _read_beam(path: Path) -> Iterator[Dialogue]:
    chats = sorted(path.glob("*.chat.json"), key=lambda file: int(file.name.split(".")[0]))
    if not chats:
        raise UnreadableData(f"{path} holds no N.chat.json")
    for file in chats:
        number = file.name.split(".")[0]
        said = list(_read_beam_messages(json.loads(file.read_text(encoding="utf-8"))))
        questions = json.loads((path / f"{number}.probing_questions.json").read_text(encoding="utf-8"))
        asked = (
            DialogueQuestion(
                one["question"], category, frozenset(f"M{n}" for n in _find_numbers(one.get("source_chat_ids")))
            )
            for category, several in questions.items()
            if category not in BEAM_LEFT_OUT
            for one in several
        )
        yield _make_dialogue(f"beam-{number}", said, asked)


def _read_beam_messages(batches: Sequence[Mapping[str, Any]]) -> Iterator[DialogueMessage]:
    day = BEAM_BEGINS
    for batch in batches:
        messages = (message for turn in batch["turns"] for message in turn)
        for nth, message in enumerate(messages):
            if message.get("time_anchor"):
                day = _parse_anchor(message["time_anchor"]) or day
            text = _MARKS.sub("", message["content"]).strip()[:BEAM_CHARACTERS] or BLANK
            session = f"B{batch.get('batch_number')}"
            yield DialogueMessage(
                f"M{message['id']}", session, _map_role(message["role"]), None, text, day + nth * STEP
            )


def _parse_anchor(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%B-%d-%Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def _find_numbers(value: Any) -> Iterator[int]:
    """Yield all numbers in a value: a number, a text with numbers, or a list or mapping of such values."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, str):
        yield from map(int, re.findall(r"\d+", value))
    elif value:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _find_numbers(part)


def _map_role(role: str) -> str:
    return "assistant" if role == "assistant" else "user"


def _make_dialogue(
    name: str, said: Sequence[DialogueMessage], asked: Sequence[DialogueQuestion] | Iterator[DialogueQuestion]
) -> Dialogue:
    known = {one.id for one in said}
    usable = [DialogueQuestion(one.text, one.category, one.evidence & known) for one in asked]
    return Dialogue(name, said, [one for one in usable if one.evidence])


FORMATS: Mapping[str, Callable[[Path], Iterator[Dialogue]]] = {
    "locomo": _read_locomo,
    "longmemeval": _read_longmemeval,
    "beam": _read_beam,
    "agents": read_agents,
    "tool-output": read_tool_outputs,
    "lists": read_lists,
    "changes": read_changes,
}
