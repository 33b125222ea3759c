"""Lines of a session file of Codex: `~/.codex/sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`.

A line has a `type` and a `payload`. What was said stands in completed items (`UserMessage`, `AgentMessage`), in events
(`user_message`, `agent_message`), in items of the model's API (`message`), or in several of these; old files have the
last alone, some without a `payload`. Each role is read from the first of them that the file has. A `turn_context`, the
start of a task or a completed item names the turn. Turns that were rolled back stay in the file; a later
`thread_rolled_back` says how many of the newest these are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from afterturn_client.transcript_lines import Line, LineKind, describe_pictures, join_parts, read_parts, read_time

_NAMING = frozenset({"turn_context", "task_started", "turn_started"})
_COMPLETED = frozenset({"task_complete", "turn_complete"})
_ENDING = _COMPLETED | {"turn_aborted"}
_UNDOING = "thread_rolled_back"
#: Kinds of lines with a person's or a model's words, the most exact first, besides items of the model's API.
_SAID = {"UserMessage": "user", "AgentMessage": "assistant", "user_message": "user", "agent_message": "assistant"}
#: Texts that the program writes in a person's role, for the model.
_OWN = re.compile(
    r"<(?:environment_context|user_instructions|turn_aborted|permissions instructions|instructions|skills?|"
    r"user_shell_command|subagent_notification|collaboration_mode|model_switch|user_action|(?:apps|plugins)_instructions|"
    r"personality_spec|hook_prompt|network_access|realtime_conversation|app-context|recommended_plugins|goal_context|"
    r"codex_internal_context|heartbeat)\b|# AGENTS\.md instructions\b|<image name=[^<>]*>\s*\Z|</image>\s*\Z|"
    r"Another language model started to solve this problem and produced a summary\b|"
    r"Warning: (?:apply_patch was requested via|The maximum number of unified exec processes)\b",
    re.IGNORECASE,
)
#: What of this stands in events as well, which otherwise hold what a person typed.
_OWN_EVENTS = re.compile(r"<(?:environment_context|user_instructions|turn_aborted)>", re.IGNORECASE)
#: How what an editor writes before the words that were typed in it begins, and what stands between the two.
_EDITOR, _REQUEST = ("# Context from my IDE setup:", "# Files mentioned by the user:"), "## My request for Codex:"


def read_codex(entries: Iterable[Mapping[str, Any]]) -> Iterator[Line]:
    """Yield the lines that say something about turns."""
    told = [_unwrap(entry) for entry in entries]
    if any(_is_of_subagent(kind, payload) for kind, payload, _ in told):
        return
    kinds = {kind for kind, _, _ in told}
    sources = {role: kind for kind, role in reversed(_SAID.items()) if kind in kinds}
    turn, used, held = "", set[str](), list[Line]()
    for kind, payload, at in told:
        role = _SAID.get(kind) or (str(payload.get("role")) if kind == "message" else "")
        if kind in _NAMING:
            turn = str(payload.get("turn_id") or turn)
            # Some versions name a turn behind its prompt: one that has the name of a turn before takes the new one.
            held = [replace(line, name=turn) if line.name in used else line for line in held]
        elif kind in _ENDING:
            turn = ""
            if kind in _COMPLETED:
                yield from held
                used |= {one.name for one in held if one.name}
                held = []
                yield Line(LineKind.END)
        elif kind == _UNDOING:
            yield from (*held, *_count_undone(payload, len(told)))
            turn, held = "", []
        elif role and kind == sources.get(role, "message"):
            turn = str(payload.get("turn_id") or turn)
            line = _read_said(role, payload, at, turn)
            if line is not None:
                yield from held
                used |= {one.name for one in held if one.name}
                held = [line]
    yield from held


def _count_undone(payload: Mapping[str, Any], most: int) -> list[Line]:
    """Return a line for each turn that was rolled back, `most` at most."""
    count = payload.get("num_turns")
    return [Line(LineKind.UNDONE)] * min(count, most) if isinstance(count, int) else []


def _unwrap(entry: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], str | None]:
    """Return the kind of a line, its fields and its time."""
    payload = entry.get("payload")
    kind, at = str(entry.get("type")), read_time(entry)
    if not isinstance(payload, dict):
        return kind, entry, at
    item = payload.get("item")
    if payload.get("type") == "item_completed" and isinstance(item, dict):
        return str(item.get("type")), {**item, "turn_id": payload.get("turn_id")}, at
    return (str(payload.get("type")) if kind in ("event_msg", "response_item") else kind), payload, at


def _is_of_subagent(kind: str, payload: Mapping[str, Any]) -> bool:
    source = payload.get("source")
    return kind == "session_meta" and isinstance(source, dict) and "subagent" in source


def _read_said(role: str, payload: Mapping[str, Any], at: str | None, turn: str) -> Line | None:
    content = payload.get("content", payload.get("message"))
    own = _OWN if payload.get("type") == "message" else _OWN_EVENTS
    text = join_parts([one for one in read_parts(content) if role != "user" or not own.match(one.lstrip())])
    if role == "assistant":
        return Line(LineKind.ANSWER, text, at=at) if text else None
    if role != "user":
        return None
    if text.startswith(_EDITOR):
        text = text.partition(_REQUEST)[2].strip()
    pictures = describe_pictures(content) or ("[image]" if payload.get("images") or payload.get("local_images") else "")
    return Line(LineKind.PROMPT, text or pictures, turn, at) if text or pictures else None
