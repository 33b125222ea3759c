"""Recognises messages of other frameworks and programs, and returns them as chat messages of OpenAI. Pure.

Who spoke must be stated by the message itself: one that does not say it in a known form is refused, because a person's
words would otherwise be stored as the assistant's.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from afterturn_client.message_times import find_time

from producers.turns.built_messages import (
    OTHER_TEXTS,
    ROLES,
    TEXT_PARTS,
    Known,
    Raw,
    UnknownForm,
    build_message,
    join_text,
    read_content,
    read_role,
    read_type,
)
from producers.turns.exported_messages import LOOKED_FOR as EXPORTS
from producers.turns.exported_messages import read_exported_message

#: Words in the names of AutoGen's speakers, and the role that each means, a person's first.
_SOURCES: Mapping[str, str] = {"user": "user", "human": "user", "agent": "assistant", "assistant": "assistant"}
#: Roles that OpenAI's APIs and this service write themselves.
_OWN_ROLES = frozenset({"user", "assistant", "tool", "system", "developer", "function"})
#: Fields in which a message carries what was said. An item of an unknown type that has one must say who spoke.
_SPOKEN = frozenset({
    "content", "text", "message", "body", "value", "parts", "kwargs", "payload", "chat", "blocks", "prompt", "query",
    "input", "msg", "mes", "utterance", "transcript", "question", "say", "speech", "contentParts", "content_parts",
    "fragments",
})  # fmt: skip
#: Fields and types of a part that brings what a tool answered.
_RESULT_FIELDS = ("functionResponse", "function_response", "toolResult", "toolResponse")
_RESULT_TYPES = frozenset({"tool_result", "tool-result", *_RESULT_FIELDS})
#: Fields by which a message without content says something all the same.
_IN_PLACE_OF_CONTENT = frozenset({"tool_calls", "function_call", "refusal", "audio"})
#: Types of the Responses API that carry one of these fields without a role: what the model or a tool wrote.
_OF_MODEL = frozenset({"reasoning", "compaction", "compaction_summary"})
LOOKED_FOR = (
    "looked for: role with content (OpenAI, Anthropic, Mistral), role with parts (Gemini, Vercel AI SDK), type human, "
    "ai, system or tool (LangChain, LangGraph), author.role (ChatGPT), from with value (ShareGPT), messages of "
    f"{EXPORTS}, and items of the Responses API"
)


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
    if "lc" in value and kind == "not_implemented":
        raise UnknownForm("is what LangChain could not write (not_implemented)")
    if "lc" in value and isinstance(kwargs := value.get("kwargs"), Mapping):
        names = value.get("id")
        kind, said = (names[-1] if isinstance(names, list) and names else None), kwargs
    elif isinstance(data := value.get("data"), Mapping):
        said = data
    elif "role" in value and kind != "chat":
        return None
    if not isinstance(kind, str) or "content" not in said:
        return None
    name = kind.lower().removesuffix("chunk").removesuffix("message").rstrip("._-")
    role = said.get("role") if name == "chat" else name
    if not isinstance(role, str) or role.lower() not in ROLES:
        return None
    return build_message(ROLES[role.lower()], said, value)


def _read_nested(value: Raw) -> Known | None:
    """Read a line of a coding agent: the message or item that it wraps, with the line's time."""
    kind = value.get("type")
    inner = value.get("payload") if kind == "response_item" else value.get("message")
    if not isinstance(inner, Mapping) or kind not in ("response_item", "user", "assistant", "message"):
        return None
    known = _read_bare(inner)
    at = find_time(value)
    return known if at is None or "timestamp" in known else {**known, "timestamp": at}


def _read_share_gpt(value: Raw) -> Known | None:
    if not isinstance(speaker := value.get("from"), str) or "value" not in value:
        return None
    return build_message(read_role(speaker), {"content": value["value"]}, value)


def _read_zep(value: Raw) -> Known | None:
    """Read a message of Zep, whose `role` may be a name."""
    kind, role = value.get("role_type"), value.get("role")
    if not isinstance(kind, str) or kind.lower() not in ROLES or "content" not in value:
        return None
    is_name = isinstance(role, str) and role.lower() not in ROLES
    return build_message(ROLES[kind.lower()], value, value, name=role if is_name else value.get("name"))


def _read_autogen(value: Raw) -> Known | None:
    source = value.get("source")
    if not isinstance(source, str) or "content" not in value or "role" in value or "type" not in value:
        return None
    role = next((role for word, role in _SOURCES.items() if word in source.lower()), None)
    if role is None and not isinstance(value.get("models_usage"), Mapping):
        raise UnknownForm("source: does not say whether a person or a model spoke; models_usage shows a model")
    return build_message(role or "assistant", value, value, name=source)


def _read_parts(value: Raw) -> Known | None:
    """Read a content of Gemini, or a message of the Vercel AI SDK, LlamaIndex or Semantic Kernel."""
    parts = next((value[name] for name in ("parts", "blocks", "items") if isinstance(value.get(name), list)), None)
    if "role" not in value or parts is None:
        return None
    role, content = read_role(value["role"]), parts or value.get("content")
    if role == "user" and (results := _list_tool_results(content)):
        return _build_tool_result(results, value)
    return build_message(role, {"content": content}, value, name=value.get("name"))


def _read_role(value: Raw) -> Known | None:
    """Read a message with a role: unchanged in our form and OpenAI's, or of a program that names roles otherwise."""
    if "role" not in value:
        return None
    role = read_role(value["role"])
    content = value.get("content")
    if "content" not in value and not isinstance(value.get("message"), str) and _must_have_content(value):
        raise UnknownForm("content: a message must have one, a text or a list of content parts")
    _check_words(role, value)
    results, is_foreign = _list_tool_results(content), _has_foreign_parts(content)
    if results and (role == "user" or (role == "tool" and is_foreign)):
        return _build_tool_result(results, value)
    if value["role"] in _OWN_ROLES and not is_foreign and "message" not in value:
        return dict(value)
    if content is None and isinstance(value.get("message"), str):
        return build_message(role, {"content": value["message"]}, value)
    if value["role"] not in _OWN_ROLES and "type" in value:
        return {**value, "role": role}
    return build_message(role, value, value)


def _check_words(role: str, value: Raw) -> None:
    """Raise UnknownForm where words stand beside an empty content, or in a person's part of an unknown form."""
    content = value.get("content")
    is_empty = content in (None, "", []) and _IN_PLACE_OF_CONTENT.isdisjoint(value)
    if is_empty and any(value.get(name) for name in _SPOKEN - {"message"}):
        raise UnknownForm("content: is empty, and there are words in a field beside it")
    parts = content if role == "user" and isinstance(content, list) else ()
    if any(isinstance(part, Mapping) and _hides_words(part) for part in parts):
        raise UnknownForm("content: a part must have its words in `text`")


def _hides_words(part: Raw) -> bool:
    """Return whether a part that is no tool's answer has words in a field of a name that is not known."""
    if "text" in part or _is_result(part):
        return False
    return any(isinstance(part.get(name), str) for name in OTHER_TEXTS)


def _must_have_content(value: Raw) -> bool:
    """Return whether a message without content has its words in a field of a name that is not known."""
    if value.get("type", "message") != "message" or not _IN_PLACE_OF_CONTENT.isdisjoint(value):
        return False
    return value["role"] in ("user", "system", "developer") or not _SPOKEN.isdisjoint(value)


def _read_item(value: Raw) -> Known | None:
    """Read an item of the Responses API: of any type that does not leave open who spoke."""
    kind = value.get("type")
    if not isinstance(kind, str) or not kind or kind == "message":
        return None
    written_by_model = kind in _OF_MODEL or kind.endswith(("_call", "_call_output", "_output"))
    inner = [one for one in value.values() if isinstance(one, Mapping)]
    held = value.get("data")
    speaks = not _SPOKEN.isdisjoint(value) or (isinstance(held, Mapping) and not _SPOKEN.isdisjoint(held))
    speaks = speaks or any("role" in one for one in inner)
    by_machine = written_by_model or "call_id" in value or not speaks
    return dict(value) if by_machine else None


_FORMS: Sequence[Callable[[Raw], Known | None]] = (
    _read_langchain,
    read_exported_message,
    _read_share_gpt,
    _read_zep,
    _read_autogen,
    _read_parts,
    _read_role,
    _read_item,
)


def _build_tool_result(results: Sequence[Raw], whole: Raw) -> Known:
    """Return what a tool answered, which Anthropic's API sends as a message of the user."""
    texts = [_read_result(one) for one in results]
    built = build_message("tool", {"content": "\n".join(text for text in texts if text)}, whole)
    call = results[0].get("tool_use_id") if len(results) == 1 else None
    return {**built, "tool_call_id": call} if isinstance(call, str) else built


def _read_result(part: Raw) -> str:
    """Return what a tool answered as text."""
    inner = next((one for name in _RESULT_FIELDS if isinstance(one := part.get(name), Mapping)), part)
    told = next((inner[name] for name in ("content", "value", "response", "output", "result") if name in inner), None)
    return json.dumps(told, ensure_ascii=False) if isinstance(told, Mapping) else join_text(read_content(told))


def _list_tool_results(content: Any) -> list[Raw]:
    """Return the parts where each is the result of a tool; none where a person's words stand among them."""
    parts = content if isinstance(content, list) else []
    results = [one for one in parts if isinstance(one, Mapping) and _is_result(one)]
    return results if len(results) == len(parts) else []


def _is_result(part: Raw) -> bool:
    return read_type(part) in _RESULT_TYPES or any(isinstance(part.get(name), Mapping) for name in _RESULT_FIELDS)


def _has_foreign_parts(content: Any) -> bool:
    """Return whether a part has a form that OpenAI's APIs do not have."""
    if isinstance(content, Mapping):
        return True
    return isinstance(content, list) and any(_is_foreign_part(part) for part in content)


def _is_foreign_part(part: Any) -> bool:
    if not isinstance(part, Mapping):
        return True
    kind = read_type(part)
    if kind in TEXT_PARTS and not isinstance(part.get("text"), str):
        return True
    return not isinstance(kind, str) or kind == "tool_result" or isinstance(part.get("text"), Mapping)
