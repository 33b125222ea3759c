"""Rules for an agent's conversation items: stored unchanged, except for our own frames and for binary parts. Pure.

An item is a JSON object: a Responses item of any type, or a chat message. Its fields need not be known here.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from afterturn_client.reference import RULE, strip_frames, strip_parts

from embeddings.protocol import TokenCounter
from producers.errors import FieldProblem, Invalid, TooLarge
from producers.service.json_values import is_deeper
from producers.turns.built_messages import UnknownForm, check_time
from producers.turns.message_forms import recognise_message
from store.log.storable import check_json

Item = dict[str, Any]

MAX_ITEMS, MAX_LEVELS = 1024, 64
#: Number of characters from which base64 counts as binary data.
BINARY_CHARACTERS = 65_536
#: The beginning of an older form of the recalled block, in a developer's message.
OLD_FORM = "Memory recall:"
#: Stands for a picture or a file where tokens are counted: about what models take for one.
BINARY_PLACE = "1" * 1_000
#: Types of items that are opaque to all but the model's provider, and not searched.
OPAQUE = frozenset({"encrypted_content"})
#: Type of the content part that contains an unchanged item.
KEPT = "response_item"
#: Fields by which an item of OpenAI's APIs differs from a message of this service.
_MARKS = frozenset({"type", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "annotations"})
#: Types of items without a role that a model writes, beside its calls (`*_call`).
_OF_ASSISTANT = frozenset(
    {"message", "reasoning", "compaction", "compaction_summary", "mcp_list_tools", "mcp_approval_request"}
)
#: Fields of a content part that hold spoken words, and types of parts that hold thoughts alone.
_SAID, _THOUGHTS = ("text", "transcript", "refusal"), frozenset({"reasoning", "thinking", "redacted_thinking"})
#: Fields whose strings are text.
TEXTS = frozenset({"text", "arguments"})

_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*,", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/_=\r\n-]+", re.ASCII)
_KNOWN = frozenset({"type", "role", "content", "call_id", "output", "metadata"})
_PART = ("file_id", "filename", "image_url", "text", "type")
_PARTS_KNOWN = frozenset(_PART)


def clean_items(values: Sequence[Any], field: str, most_bytes: int) -> list[Item]:
    """Return the items without our frames and without binary parts; items that were only a frame are left out.

    Raises Invalid for an invalid item or one nested too deeply, TooLarge for too many items or too long a text.
    """
    if len(values) > MAX_ITEMS:
        raise TooLarge(field, "max_items", MAX_ITEMS, "items")
    return [cleaned for value in values if (cleaned := _clean_item(value, field, most_bytes)) is not None]


def _clean_item(value: Any, field: str, most_bytes: int) -> Item | None:
    if not isinstance(value, dict):
        raise Invalid(FieldProblem(field, "an item must be an object"))
    if any(name in value and not isinstance(value[name], str) for name in ("type", "role")):
        raise Invalid(FieldProblem(field, "type and role of an item must be texts"))
    if is_deeper(value, MAX_LEVELS):
        raise Invalid(FieldProblem(field, f"an item may be nested {MAX_LEVELS} levels deep"))
    try:
        check_json(value)
    except ValueError:
        raise Invalid(
            FieldProblem(field, "an item holds text that cannot be stored: a lone surrogate or NUL")
        ) from None
    try:
        check_time(value)
        value = recognise_message(value)
    except UnknownForm as error:
        raise Invalid(FieldProblem(field, str(error))) from None
    if _is_recall(value):
        return None
    cleaned: Item = _clean_value(value, "", field, most_bytes)
    return None if cleaned != value and is_blank(cleaned) else cleaned


def _is_recall(item: Item) -> bool:
    """Return whether an item is the developer's message that an earlier answer put before the user's items."""
    text = render_item(item).strip()
    return item.get("role") == "developer" and (text.startswith(OLD_FORM) or text == RULE)


def _clean_value(value: Any, name: str, field: str, most_bytes: int) -> Any:
    if isinstance(value, dict):
        return {
            key: one if key == "metadata" else _clean_value(one, key, field, most_bytes) for key, one in value.items()
        }
    if isinstance(value, list):
        return strip_across([_clean_value(one, name, field, most_bytes) for one in value])
    if not isinstance(value, str) or name in OPAQUE:
        return value
    if name not in TEXTS and _is_binary(value):
        digest = hashlib.sha256(value.encode()).hexdigest()
        return f"[binary content of {len(value)} characters is not kept; sha256 {digest}]"
    if len(value.encode()) > most_bytes:
        raise TooLarge(field, "max_message_bytes", most_bytes)
    return strip_frames(value)


def strip_across(parts: list[Any]) -> list[Any]:
    """Return the parts of a message without frames that begin in the text of one part and end in another's."""
    at = [n for n, part in enumerate(parts) if isinstance(part, dict) and isinstance(part.get("text"), str)]
    texts = [parts[n]["text"] for n in at]
    stripped = dict(zip(at, strip_parts(texts), strict=True))
    return [{**part, "text": stripped[n]} if n in stripped else part for n, part in enumerate(parts)]


def _is_binary(text: str) -> bool:
    if _DATA_URL.match(text):
        return True
    return len(text) > BINARY_CHARACTERS and _BASE64.fullmatch(text) is not None


def is_item(value: Mapping[str, Any]) -> bool:
    """Return whether a message is an item of OpenAI's chat completions or Responses."""
    return not _MARKS.isdisjoint(value) or value.get("role") in ("developer", "function")


def is_blank(item: Item) -> bool:
    """Return whether a message has no text and no other parts."""
    if item.get("type", "message") != "message" or item.get("tool_calls"):
        return False
    return not render_item(item).strip()


def render_item(item: Mapping[str, Any]) -> str:
    """Return an item as text: its text, its output, or a note of a call, an image or a file."""
    said = item.get("content") if item.get("content") is not None else item.get("output")
    if isinstance(said, str):
        return said
    if isinstance(said, list):
        return "\n".join(told for part in said if (told := _describe_part(part)))
    calls = item.get("tool_calls")
    if item.get("type", "message") == "message":
        return "\n".join(map(_describe_call, calls)) if isinstance(calls, list) else _describe_spoken(item)
    name = item.get("name")
    return f"[{item.get('type', 'message')}: {name}]" if isinstance(name, str) else f"[{item.get('type', 'message')}]"


def _describe_spoken(item: Mapping[str, Any]) -> str:
    """Return what a chat message without content says: why it refuses, or what its audio says."""
    audio = item.get("audio")
    said = item.get("refusal") or (audio.get("transcript") if isinstance(audio, Mapping) else None)
    return said if isinstance(said, str) else ""


def _describe_call(call: Any) -> str:
    """Return a note of the tool that a chat message calls."""
    called = call.get("function") if isinstance(call, dict) else None
    name = called.get("name") if isinstance(called, dict) else None
    return f"[function_call: {name}]" if isinstance(name, str) else "[function_call]"


def _describe_part(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part) if isinstance(part, str) else ""
    said = find_said(part)
    return f"[{part.get('type', 'part')}]" if said is None else said


def find_said(part: Mapping[str, Any]) -> str | None:
    """Return what a content part says: its text, the transcript of its audio, or a refusal; None for any other."""
    if isinstance(kind := part.get("type"), str) and kind in _THOUGHTS:
        return None
    return next((told for name in _SAID if isinstance(told := part.get(name), str)), None)


def choose_role(item: Item) -> str:
    """Return the role of an item's unit: user, assistant, tool or system.

    An item of an unknown type is a tool's.
    """
    role, kind = item.get("role"), str(item.get("type", ""))
    if role in ("user", "assistant", "tool", "system"):
        return str(role)
    if role == "developer":
        return "system"
    return "assistant" if kind in _OF_ASSISTANT or kind.endswith("_call") else "tool"


def identify_item(item: Item) -> str:
    """Return the identity of an item, by which two are the same: `metadata.item_id`, or a digest of its content.

    Case and white space of texts are ignored. Fields unknown to the contract are compared unchanged.
    """
    if named := _given_identity(item):
        return named
    content = item.get("content")
    told: dict[str, Any] = {
        "call_id": _trim_text(item.get("call_id")),
        "content": _content_identity(content),
        "output": _fold_text(item.get("output")),
        "role": _trim_text(item.get("role")),
        "type": _trim_text(item.get("type")),
    }
    if more := {name: value for name, value in item.items() if name not in _KNOWN}:
        told["more"] = more
    text = json.dumps(told, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f"item-{hashlib.sha1(text.encode(), usedforsecurity=False).digest()[:8].hex()}"


def outline_item(item: Item) -> tuple[Any, ...] | None:
    """Return what is the same in all items of one identity, and quickly read: of long texts their first word.

    None for an item with an identity of its own, whose content may be any.
    """
    if _given_identity(item):
        return None
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    first = parts[0].get("text") if parts and isinstance(parts[0], dict) else content
    named = (_trim_text(item.get(name)) for name in ("call_id", "role", "type"))
    return (*map(_outline_value, named), len(parts), _first_word(first), _first_word(item.get("output")))


def _outline_value(value: Any) -> Any:
    return type(value) if isinstance(value, dict | list) else value


def _first_word(text: Any) -> Any:
    return "".join(text.split(maxsplit=1)[:1]).lower() if isinstance(text, str) else ""


def _given_identity(item: Item) -> str:
    metadata = item.get("metadata")
    named = metadata.get("item_id") if isinstance(metadata, dict) else None
    return named.strip() if isinstance(named, str) else ""


def _content_identity(content: Any) -> Any:
    if content is None or isinstance(content, str):
        return content if content is None else _fold_text(content)
    return [_part_identity(part) for part in content] if isinstance(content, list) else content


def _part_identity(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    told = {name: _fold_text(part.get(name)) if name == "text" else _trim_text(part.get(name)) for name in _PART}
    more = {name: value for name, value in part.items() if name not in _PARTS_KNOWN}
    return told | ({"more": more} if more else {})


def _trim_text(value: Any) -> Any:
    return "" if value is None else value.strip() if isinstance(value, str) else value


def _fold_text(value: Any) -> Any:
    return "" if value is None else " ".join(value.lower().split()) if isinstance(value, str) else value


def count_tokens(items: Iterable[Item], counter: TokenCounter) -> Iterator[int]:
    """Yield the size of each item in a prompt: the tokens of its texts, and a thousand for a picture or a file."""
    return (sum(counter.count_tokens(list(_find_texts(item)))) for item in items)


def _find_texts(value: Any) -> Iterator[str]:
    """Yield the strings of a JSON value, a placeholder for binary ones."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield BINARY_PLACE if _is_binary(one) else one
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def measure_value(value: Any) -> int:
    """Return the size of a JSON value's texts, in quarters of a token: 1 for an ASCII character, 2 for any other.

    Sizes of several values add up.
    """
    size, waiting = 0, [value]
    while waiting:  # not by recursion: a value is measured before its levels are limited
        one = waiting.pop()
        if isinstance(one, str):
            size += len(one) if one.isascii() else 2 * len(one) - len(one.encode("ascii", "ignore"))
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return size
