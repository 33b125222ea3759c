"""Recognises messages of other frameworks and programs, and returns them as chat messages of OpenAI. Pure.

Who spoke must be stated by the message itself: one that does not say it in a known form is refused, because a person's
words would otherwise be stored as the assistant's.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from afterturn_client.message_times import find_time, find_unreadable_time

Raw = Mapping[str, Any]
#: A message in the form of this service, or of OpenAI's chat completions or Responses.
Known = dict[str, Any]

#: Names of roles, in lower case, and the role that each means.
ROLES: Mapping[str, str] = {
    **dict.fromkeys(("user", "human", "humanmessage"), "user"),
    **dict.fromkeys(("assistant", "ai", "aimessage", "model", "chatbot", "bot", "gpt", "chatgpt", "bard"), "assistant"),
    **dict.fromkeys(("system", "systemmessage", "developer"), "system"),
    **dict.fromkeys(("tool", "toolmessage", "function", "functionmessage", "observation", "function_response"), "tool"),
}
#: Roles that OpenAI's APIs and this service write themselves.
_OWN_ROLES = frozenset({"user", "assistant", "tool", "system", "developer", "function"})
#: Fields in which a message carries what was said. An item of an unknown type that has one must say who spoke.
_SPOKEN = frozenset({"content", "text", "message", "body", "value", "parts", "kwargs", "payload", "chat", "blocks"})
#: Types of the Responses API that carry one of these fields without a role: what the model or a tool wrote.
_OF_MODEL = frozenset({"reasoning", "compaction", "compaction_summary"})
LOOKED_FOR = (
    "looked for: role with content (OpenAI, Anthropic, Mistral), role with parts (Gemini, Vercel AI SDK), type human, "
    "ai, system or tool (LangChain, LangGraph), author.role (ChatGPT), from with value (ShareGPT), messages of "
    "Discord, Telegram, Slack and Messenger, and items of the Responses API"
)
ROLE_PROBLEM = (
    "role: must be user, assistant, tool, system or developer (human is read as user, ai and model as assistant)"
)
TIME_PROBLEM = (
    "is no time that can be read: RFC 3339, or an epoch number of seconds or milliseconds; leave it out where none is "
    "known"
)


class UnknownForm(ValueError):
    """The message is in no known form, or does not say who spoke; the text says what was looked for."""


def recognise_message(value: Raw) -> Known:
    """Return the message in a form of ours or of OpenAI's: unchanged where it is one already.

    Other forms become `role`, `content`, and where the message has them `name`, `timestamp`, `tool_calls` and
    `tool_call_id`. Raises UnknownForm.
    """
    wrapped = _read_nested(value)
    return _read_bare(value) if wrapped is None else wrapped


def _read_bare(value: Raw) -> Known:
    """Return a message that nothing is wrapped around."""
    for read in _FORMS:
        if (found := read(value)) is not None:
            return found
    raise UnknownForm(f"is no message of a known form; {LOOKED_FOR}")


def check_time(value: Raw) -> None:
    """Raise UnknownForm where the message tells its time in no known form: the time of arrival would be another."""
    if (name := find_unreadable_time(value)) is not None:
        raise UnknownForm(f"{name}: {TIME_PROBLEM}")


def identify_message(value: Raw) -> str | None:
    """Return the id that the message has in the program that wrote it; None where it has none."""
    for place in (value, value.get("data"), value.get("kwargs"), value.get("message")):
        if isinstance(place, Mapping):
            for name in ("id", "uuid", "client_msg_id", "message_id"):
                if isinstance(given := place.get(name), str | int) and not isinstance(given, bool) and str(given):
                    return str(given)
    return None


def _read_langchain(value: Raw) -> Known | None:
    """Read a message as LangChain's `dumpd` (kwargs), `messages_to_dict` (data) and `model_dump` (flat) write it."""
    kind, said = value.get("type"), value
    if "lc" in value and isinstance(kwargs := value.get("kwargs"), Mapping):
        names = value.get("id")
        kind, said = (names[-1] if isinstance(names, list) and names else None), kwargs
    elif isinstance(data := value.get("data"), Mapping):
        said = data
    elif "role" in value and kind != "chat":
        return None
    if not isinstance(kind, str) or "content" not in said:
        return None
    name = kind.lower().removesuffix("chunk").removesuffix("message")
    role = said.get("role") if name == "chat" else name
    if not isinstance(role, str) or role.lower() not in ROLES:
        return None
    return _build_message(ROLES[role.lower()], said, value)


def _read_nested(value: Raw) -> Known | None:
    """Read a line of a coding agent: the message or item that it wraps, with the line's time."""
    kind = value.get("type")
    inner = value.get("payload") if kind == "response_item" else value.get("message")
    if not isinstance(inner, Mapping) or kind not in ("response_item", "user", "assistant", "message"):
        return None
    known = _read_bare(inner)
    at = find_time(value)
    return known if at is None or "timestamp" in known else {**known, "timestamp": at}


def _read_authored(value: Raw) -> Known | None:
    """Read a message of ChatGPT's export (author.role), or of Discord's (author.name)."""
    author = value.get("author")
    if not isinstance(author, Mapping) or "content" not in value:
        return None
    if isinstance(author.get("role"), str):
        return _build_message(_role_of(author["role"]), value, value, name=author.get("name"))
    name = author.get("nickname") or author.get("name") or author.get("username") or author.get("global_name")
    if not isinstance(name, str):
        return None
    is_bot = author.get("isBot") is True or author.get("bot") is True
    return _build_message("assistant" if is_bot else "user", value, value, name=name)


def _read_chat_of_people(value: Raw) -> Known | None:
    """Read a message of Telegram (from), Slack (user, ts), Messenger (sender_name) or Claude's export (sender)."""
    if isinstance(name := value.get("sender_name"), str) and "content" in value:
        return _build_message("user", value, value, name=name)
    if "text" not in value or "role" in value:
        return None
    said = {"content": value["text"]}
    if isinstance(name := value.get("from"), str):
        return _build_message("user", said, value, name=name)
    if isinstance(sender := value.get("sender"), str) and sender.lower() in ROLES:
        return _build_message(ROLES[sender.lower()], said, value)
    if value.get("type") == "message" and "ts" in value:
        return _read_slack(value, said)
    return None


def _read_slack(value: Raw, said: Raw) -> Known | None:
    profile = value.get("user_profile")
    named = profile if isinstance(profile, Mapping) else {}
    name = named.get("real_name") or named.get("display_name") or named.get("name")
    name = name or value.get("username") or value.get("user") or value.get("bot_id")
    if not isinstance(name, str):
        return None
    is_bot = "bot_id" in value or value.get("subtype") == "bot_message"
    return _build_message("assistant" if is_bot else "user", said, value, name=name)


def _read_share_gpt(value: Raw) -> Known | None:
    if not isinstance(speaker := value.get("from"), str) or "value" not in value:
        return None
    return _build_message(_role_of(speaker), {"content": value["value"]}, value)


def _read_autogen(value: Raw) -> Known | None:
    source = value.get("source")
    if not isinstance(source, str) or "content" not in value or "role" in value or "type" not in value:
        return None
    return _build_message("user" if source.lower() in ("user", "human") else "assistant", value, value, name=source)


def _read_parts(value: Raw) -> Known | None:
    """Read a content of Gemini, or a message of the Vercel AI SDK or LlamaIndex."""
    parts = value.get("parts") if isinstance(value.get("parts"), list) else value.get("blocks")
    if "role" not in value or not isinstance(parts, list):
        return None
    content = parts or value.get("content")
    return _build_message(_role_of(value["role"]), {"content": content}, value, name=value.get("name"))


def _read_role(value: Raw) -> Known | None:
    """Read a message with a role: unchanged in our form and OpenAI's, or of a program that names roles otherwise."""
    if "role" not in value:
        return None
    role = _role_of(value["role"])
    content = value.get("content")
    if value["role"] in _OWN_ROLES and not _has_foreign_parts(content) and "message" not in value:
        return dict(value)
    if isinstance(content, list) and value["role"] in ("user", "tool") and (results := _list_tool_results(content)):
        return _build_tool_result(results, value)
    if content is None and isinstance(value.get("message"), str):
        return _build_message(role, {"content": value["message"]}, value)
    if value["role"] not in _OWN_ROLES and "type" in value:
        return {**value, "role": role}
    return _build_message(role, value, value)


def _read_item(value: Raw) -> Known | None:
    """Read an item of the Responses API: of any type that does not leave open who spoke."""
    kind = value.get("type")
    if not isinstance(kind, str) or not kind or kind == "message":
        return None
    written_by_model = kind in _OF_MODEL or kind.endswith(("_call", "_call_output", "_output"))
    inner = value.get("data")
    speaks = not _SPOKEN.isdisjoint(value) or (isinstance(inner, Mapping) and not _SPOKEN.isdisjoint(inner))
    by_machine = written_by_model or "call_id" in value or not speaks
    return dict(value) if by_machine else None


_FORMS: Sequence[Callable[[Raw], Known | None]] = (
    _read_langchain,
    _read_authored,
    _read_chat_of_people,
    _read_share_gpt,
    _read_autogen,
    _read_parts,
    _read_role,
    _read_item,
)


def _role_of(given: Any) -> str:
    if not isinstance(given, str) or given.lower() not in ROLES:
        raise UnknownForm(ROLE_PROBLEM)
    return ROLES[given.lower()]


def _build_message(role: str, said: Raw, whole: Raw, name: Any = None) -> Known:
    check_time(whole)
    name = name if name is not None else said.get("name")
    built: Known = {"role": role, "content": _read_content(said.get("content"))}
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


def _build_tool_result(results: Sequence[Raw], whole: Raw) -> Known:
    """Return what a tool answered, which Anthropic's API sends as a message of the user."""
    texts = [_join_text(_read_content(one.get("content"))) for one in results]
    built = _build_message("tool", {"content": "\n".join(text for text in texts if text)}, whole)
    call = results[0].get("tool_use_id") if len(results) == 1 else None
    return {**built, "tool_call_id": call} if isinstance(call, str) else built


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


def _list_tool_results(content: Sequence[Any]) -> list[Raw]:
    """Return the parts where each is the result of a tool; none where a person's words stand among them."""
    results = [one for one in content if isinstance(one, Mapping) and one.get("type") == "tool_result"]
    return results if len(results) == len(content) else []


def _has_foreign_parts(content: Any) -> bool:
    """Return whether a part has a form that OpenAI's APIs do not have."""
    if isinstance(content, Mapping):
        return True
    return isinstance(content, list) and any(_is_foreign_part(part) for part in content)


def _is_foreign_part(part: Any) -> bool:
    if isinstance(part, str):
        return True
    if not isinstance(part, Mapping):
        return False
    kind = part.get("type")
    return not isinstance(kind, str) or kind == "tool_result" or isinstance(part.get("text"), Mapping)


def _read_content(content: Any) -> Any:
    """Return a text, or content parts with a type each."""
    if isinstance(content, Mapping):  # ChatGPT's: a list of parts, or one text
        content = next((content[name] for name in ("parts", "text", "body", "result") if name in content), content)
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise UnknownForm("content: must be a text or a list of content parts")
    parts = [built for part in content if (built := _read_part(part)) is not None]
    if all(part["type"] in ("text", "input_text", "output_text") for part in parts):
        # One text: Telegram cuts a sentence into parts where it holds a link or an emphasis.
        join = "" if any(isinstance(part, str) for part in content) else "\n"
        return join.join(part["text"] for part in parts)
    return parts


def _read_part(part: Any) -> dict[str, Any] | None:
    """Return a part with a type; None for one without content."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise UnknownForm("content: a part must be a text or an object")
    kind = part.get("type") or part.get("block_type") or part.get("content_type")
    text = part.get("text")
    if isinstance(text, Mapping):  # OpenAI's Assistants
        text = text.get("value")
    if kind == "step-start":  # Vercel's mark between two steps
        return None
    if isinstance(text, str) and not part.get("thought") and kind not in ("reasoning", "thinking", "redacted_thinking"):
        return {"type": "text", "text": text}
    if isinstance(kind, str) and kind:
        return {**part, "type": kind}
    name = next((name for name, one in part.items() if isinstance(one, Mapping)), None)
    if name is None:
        raise UnknownForm("content: a part must have a type or a text")
    return {**part, "type": name}


def _join_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
