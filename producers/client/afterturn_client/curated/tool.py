"""The `memory` tool, by which a model changes the curated files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afterturn_client.curated.entries import MemoryState, Target
from afterturn_client.curated.errors import CuratedError, NoMatch, SeveralMatches
from afterturn_client.curated.store import Change, MemoryStore

NAME = "memory"

_DESCRIPTION = (
    "Keep what should still be known in later sessions: target 'memory' for your own notes (facts about projects, "
    "tools, conventions, lessons), target 'user' for who your user is (name, preferences, habits). "
    "add stores content as a new entry; replace puts content in the place of the entry that holds old_text; remove "
    "deletes the entry that holds old_text. old_text is a part of exactly one entry. Both files are small: when one is "
    "full, shorten or remove entries first. What you change is stored at once and in your prompt from the next run on. "
    "Store facts, not instructions; never secrets."
)
_TEXT = {"type": "string"}
_SCHEMA: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": _DESCRIPTION,
        "parameters": {
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["add", "replace", "remove"]},
                "target": {"type": "string", "enum": [target.value for target in Target]},
                "content": _TEXT | {"description": "the entry, for add and replace"},
                "old_text": _TEXT | {"description": "a part of exactly one entry, for replace and remove"},
            },
            "required": ["action", "target"],
            "additionalProperties": False,
        },
    },
}
_NEEDS = {"add": ("content",), "replace": ("old_text", "content"), "remove": ("old_text",)}


class _Unusable(Exception):
    """The model's arguments do not fit the schema."""


@dataclass(frozen=True, slots=True)
class MemoryTool:
    """The memory tool of one store. It answers refusals and errors of the disk, and does not raise them."""

    store: MemoryStore
    name = NAME

    @property
    def schema(self) -> dict[str, Any]:
        """The tool's schema for chat completions: `{"type": "function", "function": {...}}`."""
        return json.loads(json.dumps(_SCHEMA))  # type: ignore[no-any-return]  # a copy: callers may change theirs

    def call(self, arguments: Mapping[str, Any] | str) -> str:
        """Carry out a call of the model; `arguments` is an object or its JSON text. Blocks.

        Returns JSON: `{"ok", "message", "target", "entries", "usage"}`, entries and usage as they are now; a refusal
        also has `error` (a code) and, where old_text fits none or several, `candidates`.
        """
        try:
            action, target, texts = _parse_arguments(arguments)
        except _Unusable as error:
            return _encode_json({"ok": False, "error": "invalid_arguments", "message": str(error)})
        try:
            change = self._apply(action, target, texts)
        except CuratedError as error:
            return _encode_json(self._refusal(target, error))
        except OSError as error:
            problem = f"the file could not be read or written ({type(error).__name__})"
            return _encode_json({"ok": False, "error": "unavailable", "message": problem})
        return _encode_json({"ok": True, "changed": change.changed, "message": change.note} | _state_json(change.state))

    def _apply(self, action: str, target: Target, texts: list[str]) -> Change:
        if action == "add":
            return self.store.add(target, *texts)
        if action == "replace":
            return self.store.replace(target, *texts)
        return self.store.remove(target, *texts)

    def _refusal(self, target: Target, error: CuratedError) -> dict[str, Any]:
        answer: dict[str, Any] = {"ok": False, "error": error.code, "message": str(error)}
        if isinstance(error, NoMatch | SeveralMatches):
            answer["candidates"] = list(error.candidates)
        try:
            return answer | _state_json(self.store.read(target))
        except (CuratedError, OSError):
            return answer


def _parse_arguments(arguments: Mapping[str, Any] | str) -> tuple[str, Target, list[str]]:
    given = _parse_object(arguments)
    action, target = given.get("action"), given.get("target")
    if not isinstance(action, str) or action not in _NEEDS:
        raise _Unusable("action must be add, replace or remove")
    if not isinstance(target, str) or target not in [one.value for one in Target]:
        raise _Unusable("target must be memory or user")
    texts = [given.get(name) for name in _NEEDS[action]]
    if not all(isinstance(text, str) for text in texts):
        raise _Unusable(f"{action} needs {' and '.join(_NEEDS[action])} (text)")
    return action, Target(target), [text for text in texts if isinstance(text, str)]


def _parse_object(arguments: Mapping[str, Any] | str) -> Mapping[str, Any]:
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, Mapping):
        raise _Unusable("the arguments must be a JSON object")
    return value


def _state_json(state: MemoryState) -> dict[str, Any]:
    return {"target": state.target.value, "entries": list(state.entries), "usage": state.usage}


def _encode_json(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False)
