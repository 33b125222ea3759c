"""Hooks of coding agents: add memory to prompts and session starts, store each turn at its end.

Formats: https://code.claude.com/docs/en/hooks and, for Codex, https://developers.openai.com/codex/hooks; they agree in
the fields used here. A hook fails open: on any failure the agent goes on without memory, within `DEADLINE_S` and
without output on standard output.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from afterturn_client.client import Afterturn
from afterturn_client.mcp_bridge import find_project
from afterturn_client.reference import cut_text
from afterturn_client.transcripts import LONGEST_MESSAGE, TranscriptTurn, read_turns
from afterturn_client.turns import Message, NewTurn

#: Time-out of a hook, in seconds.
DEADLINE_S = 2.0
#: Most characters that a hook adds to a prompt; Claude Code accepts 10,000.
LONGEST_CONTEXT = 9_000
#: Number of results and token budget of a recall, which fit into LONGEST_CONTEXT.
RESULTS, TOKENS = 8, 2_000
#: The most finished turns that are stored before a transcript is compacted.
CAUGHT_UP = 16
_FRAME = "<memory_reference>"

Event = Mapping[str, Any]
Hook = Callable[[Afterturn, str, Event], str]


def recall_for_prompt(memory: Afterturn, agent: str, event: Event) -> str:
    """Return the output of a prompt's hook: recalled memory as context, empty where none is found."""
    del agent
    prompt = str(event.get("prompt") or "").strip()
    if not prompt:
        return ""
    found = memory.recall(
        prompt, k=RESULTS, max_tokens=TOKENS, session_id=str(event["session_id"]), exclude_session=True
    )
    if not found.results or found.reference is None:
        return ""
    return _add_context("UserPromptSubmit", str(found.reference["content"]), [one.text for one in found.results])


def recall_for_session(memory: Afterturn, agent: str, event: Event) -> str:
    """Return the output of a session start's hook: the project's current facts, and memories that fit its name."""
    del agent
    asked = {"type": "message", "role": "user", "content": project_of(event)}
    prepared = memory.before_turn(str(event["session_id"]), "session-start", [asked], max_input_tok=TOKENS)
    frames = [text for item in prepared.input_items[:-1] if (text := _text_of(item)).startswith(_FRAME)]
    return _add_context("SessionStart", frames[0], []) if frames else ""


def keep_last_turn(memory: Afterturn, agent: str, event: Event) -> str:
    """Store the turn that has just ended, once however often the hook is called. Has no output."""
    if (turn := _last_turn(agent, event)) is not None:
        memory.add_turn(str(event["session_id"]), _messages_of(turn), turn_id=turn.name)
    return ""


def keep_finished_turns(memory: Afterturn, agent: str, event: Event) -> str:
    """Store the finished turns of a transcript before it is compacted; stored turns stay as they are.

    The turn under way is left to the hook of its end. Has no output.
    """
    turns = [turn for turn in _turns_of(agent, event)[:-1] if turn.answer][-CAUGHT_UP:]
    if turns:
        session = str(event["session_id"])
        memory.add_turns([NewTurn(session, _messages_of(turn), turn_id=turn.name) for turn in turns])
    return ""


#: Hooks by the names that the command takes.
HOOKS: Mapping[str, Hook] = {
    "prompt": recall_for_prompt,
    "stop": keep_last_turn,
    "session-start": recall_for_session,
    "pre-compact": keep_finished_turns,
}


def project_of(event: Event) -> str:
    """Return the project of the folder that the agent works in."""
    return find_project(Path(str(event.get("cwd") or ".")))


def _turns_of(agent: str, event: Event) -> list[TranscriptTurn]:
    path = event.get("transcript_path")
    return read_turns(agent, Path(str(path))) if path else []


def _last_turn(agent: str, event: Event) -> TranscriptTurn | None:
    """Return the turn that ended; its id and the end of its answer come from the event where it has them."""
    if not (turns := _turns_of(agent, event)):
        return None
    last, answered = turns[-1], [*turns[-1].answered]
    said = str(event.get("last_assistant_message") or "").strip()
    # The transcript may be written a moment later than the hook is called.
    if said and (not answered or answered[-1] != said):
        answered.append(said)
    name = str(event.get("turn_id") or last.name)
    return TranscriptTurn(name, last.asked, tuple(answered)) if answered else None


def _messages_of(turn: TranscriptTurn) -> list[Message]:
    return [Message("user", turn.asked[:LONGEST_MESSAGE]), Message("assistant", turn.answer)]


def _add_context(event: str, frame: str, texts: list[str]) -> str:
    """Return the output that adds a frame to the model's context: whole, or the texts alone, each on a line."""
    if len(frame) > LONGEST_CONTEXT:
        frame = cut_text("\n".join(json.dumps(text, ensure_ascii=False) for text in texts), LONGEST_CONTEXT)
    if not frame:
        return ""
    told = {"hookEventName": event, "additionalContext": frame}
    return json.dumps({"hookSpecificOutput": told}, ensure_ascii=False)


def _text_of(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
