"""Hooks of Claude Code: what was said before stands beside each prompt, and each turn is kept when it ends.

Shapes: https://code.claude.com/docs/en/hooks. A hook fails open: whatever goes wrong, the agent goes on without memory,
within `DEADLINE_S` and without a word on standard output.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afterturn_client.client import Afterturn
from afterturn_client.mcp_bridge import find_project
from afterturn_client.reference import cut
from afterturn_client.turns import Message

#: Seconds that a hook may take of its agent's time.
DEADLINE_S = 2.0
#: Characters that a hook may add to a prompt: Claude Code takes 10,000.
LONGEST_CONTEXT = 9_000
#: Bytes of a transcript that are read from its end, and of one message that are kept.
LONGEST_TAIL, LONGEST_MESSAGE = 4_194_304, 200_000
#: Results asked for, and tokens they may have: about as many characters as there is room for.
RESULTS, TOKENS = 8, 2_000


@dataclass(frozen=True, slots=True)
class Turn:
    """The last turn of a transcript: the id of its prompt, what was asked and what was answered."""

    name: str
    asked: str
    answered: str


def recall_for_prompt(memory: Afterturn, event: Mapping[str, Any]) -> str:
    """Return what the hook of a prompt writes: what memory holds on it, as context; nothing where that is nothing."""
    prompt = str(event.get("prompt") or "").strip()
    if not prompt:
        return ""
    found = memory.recall(
        prompt, k=RESULTS, max_tokens=TOKENS, session_id=str(event["session_id"]), exclude_session=True
    )
    if not found.results or found.reference is None:
        return ""
    content = str(found.reference["content"])
    if len(content) > LONGEST_CONTEXT:
        # A frame is whole or it is none: the texts alone, each on a line.
        content = cut("\n".join(json.dumps(one.text, ensure_ascii=False) for one in found.results), LONGEST_CONTEXT)
    told = {"hookEventName": "UserPromptSubmit", "additionalContext": content}
    return json.dumps({"hookSpecificOutput": told}, ensure_ascii=False)


def keep_last_turn(memory: Afterturn, event: Mapping[str, Any]) -> str:
    """Keep the turn that has just ended, once however often the hook is called. Writes nothing."""
    turn = read_last_turn(Path(str(event["transcript_path"])))
    if turn is not None:
        messages = [Message("user", turn.asked), Message("assistant", turn.answered)]
        memory.add_turn(str(event["session_id"]), messages, turn_id=turn.name)
    return ""


#: What is run, by the name that the command takes.
HOOKS: Mapping[str, Callable[[Afterturn, Mapping[str, Any]], str]] = {
    "prompt": recall_for_prompt,
    "stop": keep_last_turn,
}


def project_of(event: Mapping[str, Any]) -> str:
    """Return the project of the folder that the agent works in."""
    return find_project(Path(str(event.get("cwd") or ".")))


def read_last_turn(transcript: Path) -> Turn | None:
    """Return the last prompt of a transcript and the text that answers it; None where one of them is missing."""
    asked, name, answered = "", "", list[str]()
    for entry in _read_entries(transcript):
        if entry.get("isSidechain") or entry.get("isMeta"):
            continue
        text = _text_of(entry.get("message"))
        if entry.get("type") == "user" and text:
            asked, name, answered = text, str(entry.get("uuid") or ""), []
        elif entry.get("type") == "assistant" and text:
            answered.append(text)
    if not asked or not name or not answered:
        return None
    return Turn(name, asked[:LONGEST_MESSAGE], "\n\n".join(answered)[:LONGEST_MESSAGE])


def _read_entries(transcript: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the entries at the end of a transcript; a line that is none, or only the end of one, is passed over."""
    with transcript.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - LONGEST_TAIL))
        for line in file.read().splitlines():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict):
                yield entry


def _text_of(message: Any) -> str:
    """Return the text of a message; a tool's results say nothing."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str)).strip()
