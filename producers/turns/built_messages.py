"""Builds chat messages of OpenAI from the parts that other programs' messages have. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from afterturn_client.message_times import find_time, find_unreadable_time

Raw = Mapping[str, Any]
#: A message in the form of this service, or of OpenAI's chat completions or Responses.
Known = dict[str, Any]

#: Names of roles, in lower case, and the role that each means.
ROLES: Mapping[str, str] = {
    **dict.fromkeys(("user", "human", "humanmessage"), "user"),
    **dict.fromkeys(
        ("assistant", "ai", "aimessage", "model", "chatbot", "bot", "gpt", "chatgpt", "bard", "gemini"), "assistant"
    ),
    **dict.fromkeys(("system", "systemmessage", "developer"), "system"),
    **dict.fromkeys(("tool", "toolmessage", "function", "functionmessage", "observation", "function_response"), "tool"),
    **dict.fromkeys(("toolresult", "tool_result", "tool-result", "tool_response", "tool-response"), "tool"),
}
ROLE_PROBLEM = (
    "role: must be user, assistant, tool, system or developer (human is read as user, ai and model as assistant)"
)
TIME_PROBLEM = (
    "is no time that can be read: RFC 3339, or an epoch number of seconds or milliseconds (IST, BST and the like name "
    "several zones: write +05:30, or import with --zone); leave it out where none is known"
)


#: Types of parts that are text, and fields in which parts of other programs have their words.
TEXT_PARTS, OTHER_TEXTS = frozenset({"text", "input_text", "output_text"}), ("content", "value", "body", "message")


class UnknownForm(ValueError):
    """The message is in no known form, or does not say who spoke; the text says what was looked for."""


def check_time(value: Raw) -> None:
    """Raise UnknownForm where the message tells its time in no known form: the time of arrival would be another."""
    if (name := find_unreadable_time(value)) is not None:
        raise UnknownForm(f"{name}: {TIME_PROBLEM}")


def read_role(given: Any) -> str:
    """Return the role of this name. Raises UnknownForm."""
    if not isinstance(given, str) or given.lower() not in ROLES:
        raise UnknownForm(ROLE_PROBLEM)
    return ROLES[given.lower()]


def build_message(role: str, said: Raw, whole: Raw, name: Any = None) -> Known:
    """Return a chat message of what was said, with the time and the calls that `said` or the `whole` message tells.

    Raises UnknownForm.
    """
    check_time(whole)
    name = name if name is not None else said.get("name")
    built: Known = {"role": role, "content": read_content(said.get("content"))}
    if isinstance(name, str) and name:
        built["name"] = name
    at = find_time(said)
    if at is not None or (at := find_time(whole)) is not None:
        built["timestamp"] = at
    if role == "assistant" and (calls := _read_tool_calls(said)):
        built["tool_calls"] = calls
    if role == "tool" and isinstance(call := said.get("tool_call_id"), str):
        built["tool_call_id"] = call
    return built


def _read_tool_calls(said: Raw) -> list[dict[str, Any]]:
    """Return the calls of a LangChain message as those of a chat completion."""
    calls = said.get("tool_calls")
    return [
        {
            "id": str(call.get("id") or ""),
            "type": "function",
            "function": {"name": str(call["name"]), "arguments": json.dumps(call.get("args") or {})},
        }
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, Mapping) and "name" in call
    ]


def read_content(content: Any) -> Any:
    """Return a text, or content parts with a type each. Raises UnknownForm."""
    if isinstance(content, Mapping):  # ChatGPT's: a list of parts, or one text
        content = next((content[name] for name in ("parts", "text", "body", "result") if name in content), content)
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise UnknownForm("content: must be a text or a list of content parts")
    parts = [built for part in content if (built := _read_part(part)) is not None]
    if all(part["type"] in TEXT_PARTS for part in parts):
        # One text: Telegram cuts a sentence into parts where it holds a link or an emphasis.
        join = "" if any(isinstance(part, str) for part in content) else "\n"
        return join.join(part["text"] for part in parts)
    return parts


def read_type(part: Raw, name: str = "type") -> str | None:
    """Return the type of a content part; None where it has none. Raises UnknownForm for one that is no text."""
    kind = part.get(name)
    if not (kind is None or isinstance(kind, str)):
        raise UnknownForm("content: the type of a part must be a text")
    return kind


def _read_part(part: Any) -> dict[str, Any] | None:
    """Return a part with a type; None for one without content."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise UnknownForm("content: a part must be a text or an object")
    kind = read_type(part) or read_type(part, "block_type") or read_type(part, "content_type")
    text = part.get("text")
    if isinstance(text, Mapping):  # OpenAI's Assistants
        text = text.get("value")
    if kind == "step-start":  # Vercel's mark between two steps
        return None
    if isinstance(text, str) and not part.get("thought") and kind not in ("reasoning", "thinking", "redacted_thinking"):
        return {"type": "text", "text": text}
    if kind in TEXT_PARTS and not isinstance(text, str):
        if any(isinstance(part.get(name), str) for name in OTHER_TEXTS):
            raise UnknownForm("content: a part must have its words in `text`")
        return None
    if kind:
        return {**part, "type": kind}
    name = next((name for name, one in part.items() if isinstance(one, Mapping)), None)
    if name is None or name == "text":
        raise UnknownForm("content: a part must have a type or a text")
    return {**part, "type": name}


def join_text(content: Any) -> str:
    """Return the text of content that `read_content` returned."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
