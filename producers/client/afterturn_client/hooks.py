"""Hooks of coding agents: add memory to prompts and session starts, store each turn at its end.

Formats: https://code.claude.com/docs/en/hooks and, for Codex, https://developers.openai.com/codex/hooks; they agree in
the fields used here. A hook fails open (`hook_program`): on any failure the agent goes on without memory, and nothing
is written to standard output.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from afterturn_client.blocking_client import Afterturn
from afterturn_client.errors import InvalidRequestError
from afterturn_client.hook_program import say
from afterturn_client.kept_turns import add_piece, find_unkept, holds, keep_turn, keep_turns
from afterturn_client.projects import find_project
from afterturn_client.prompt_questions import find_question
from afterturn_client.reference import shorten_frames
from afterturn_client.transcript_lines import join_parts, make_storable, read_parts
from afterturn_client.transcripts import Transcript, TranscriptTurn, read_transcript

#: Most characters that a hook adds to a prompt; Claude Code accepts 10,000.
LONGEST_CONTEXT = 9_000
#: Token budget of a recall, which fits into LONGEST_CONTEXT.
TOKENS = 2_000
#: The most finished turns that are stored before a transcript is compacted.
CAUGHT_UP = 16
_FRAME = "<memory_reference>"

Event = Mapping[str, Any]
Hook = Callable[[Afterturn, str, Event], str]


def recall_for_prompt(memory: Afterturn, agent: str, event: Event) -> str:
    """Return the output of a prompt's hook: recalled memory as context, empty where none is found or asked for."""
    del agent
    question = find_question(join_parts(read_parts(event.get("prompt"))))
    if question is None:
        return ""
    found = memory.recall(question, max_tokens=TOKENS, session_id=_session_of(event), exclude_session=True)
    if not found.results or found.reference is None:
        return ""
    return _add_context("UserPromptSubmit", str(found.reference["content"]))


def recall_for_session(memory: Afterturn, agent: str, event: Event) -> str:
    """Return the output of a session start's hook: the project's current facts, and memories that fit its name."""
    del agent
    asked = {"type": "message", "role": "user", "content": project_of(event)}
    prepared = memory.before_turn(_session_of(event), "session-start", [asked], max_input_tok=TOKENS)
    frames = [text for item in prepared.input_items[:-1] if (text := _text_of(item)).startswith(_FRAME)]
    return _add_context("SessionStart", frames[0]) if frames else ""


def keep_last_turn(memory: Afterturn, agent: str, event: Event) -> str:
    """Store the turn that has just ended, once however often the hook is called. Has no output.

    Called again for a turn that went on, it stores what came after. Prompts before it that have no end of their own (a
    second prompt came while the agent worked, or it was interrupted) are stored as the turns that they are.
    """
    turns = _find_ended_turns(agent, event)
    if len(turns) == 1:
        keep_turn(memory, _session_of(event), turns[0])
    elif turns:
        keep_turns(memory, _session_of(event), turns)
    return ""


def keep_finished_turns(memory: Afterturn, agent: str, event: Event) -> str:
    """Store the finished turns of a transcript before it is compacted; stored turns stay as they are.

    The turn under way is left to the hook of its end, and so are turns that the file does not name: that hook knows
    their names. Has no output.
    """
    read = _read_transcript(agent, event, prompts=2).turns
    turns = [turn for turn, following in pairwise(read) if turn.answered or turn.asked != following.asked][-CAUGHT_UP:]
    if nameless := sum(not turn.named for turn in turns):
        say(f"turns that the transcript does not name: {nameless}; they are kept only when they end")
    if named := [turn for turn in turns if turn.named]:
        keep_turns(memory, _session_of(event), named)
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


def _session_of(event: Event) -> str:
    """Return the agent's own id of the session. Raises InvalidRequestError where the event names none."""
    named = event.get("session_id")
    if not isinstance(named, str | int) or not str(named):
        raise InvalidRequestError("the event names no session (session_id)")
    return make_storable(str(named))


def _read_transcript(agent: str, event: Event, *, prompts: int = 1) -> Transcript:
    path = event.get("transcript_path")
    if not path:
        say("the event names no transcript; nothing was kept")
        return Transcript()
    try:
        read = read_transcript(agent, Path(os.path.expanduser(str(path))), prompts=prompts)  # noqa: PTH111
    except (OSError, ValueError) as error:
        say(f"the transcript that the event names cannot be read ({type(error).__name__}); nothing was kept")
        return Transcript()
    if read.unreadable:
        say(f"lines of the transcript that cannot be read: {read.unreadable}; the others are kept")
    return read


def _find_ended_turns(agent: str, event: Event) -> list[TranscriptTurn]:
    """Return the turn that ended, behind those before it that no hook was told of.

    Its id and the end of its answer come from the event where it has them.
    """
    read = _read_transcript(agent, event)
    said = make_storable(str(event.get("last_assistant_message") or "")).strip()
    name = str(event.get("turn_id") or "")
    if not read.open:
        if said and not read.turns and event.get("transcript_path"):
            say("no prompt was found in the transcript; nothing was kept")
        return []
    at = _find_ended(read.turns, name, said)
    if at is None:
        say("the transcript does not hold the turn yet; nothing was kept")
        return []
    ended = read.turns[at]
    # The transcript may be written a moment later than the hook is called.
    answered = ended.answered if said in read.dismissed else add_piece(ended.answered, said)
    ended = replace(ended, name=name or ended.name, answered=answered)
    return [*find_unkept(read.turns[:at], ended), ended] if answered else []


def _find_ended(turns: Sequence[TranscriptTurn], name: str, said: str) -> int | None:
    """Return the place of the turn that ended: the last, or one before a newer prompt; None: it is not there yet."""
    last = len(turns) - 1
    if name and turns[last].named:
        return next((at for at in range(last, -1, -1) if turns[at].name == name), None)
    is_answered = not said or bool(turns[last].answered) or not last or not holds(turns[last - 1].answer, said)
    return last if is_answered else last - 1


def _add_context(event: str, content: str) -> str:
    """Return the output that adds frames to the model's context, shortened inside the frame where they are too long."""
    frame = shorten_frames(content, LONGEST_CONTEXT)
    if not frame:
        return ""
    told = {"hookEventName": event, "additionalContext": frame}
    return json.dumps({"hookSpecificOutput": told}, ensure_ascii=False)


def _text_of(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
