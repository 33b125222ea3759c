"""Finds the conversations in an exported JSON document, and says whether people or an assistant speak in them. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from afterturn_client.message_times import EPOCH, find_moment

from producers.turns.message_forms import ROLES

#: Fields that hold the messages of a conversation, by which a document is known.
MESSAGE_FIELDS = (
    "messages",
    "mapping",
    "chat_messages",
    "conversations",
    "contents",
    "chunkedPrompt",
    "chats",
    "values",
)
#: Types of Discord's messages that a person wrote; the others tell of calls, pins and members.
_SAID_IN_DISCORD = frozenset({"Default", "Reply", "ThreadStarterMessage", "ContextMenuCommand", "ChatInputCommand"})
#: Fields of ChatGPT's content that hold text or parts; one without holds thoughts or settings.
_CONTENT_FIELDS = frozenset({"parts", "text", "result"})


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in their order, each with its line; `name`: the id of the conversation, where it has one.

    `of_people`: people speak to each other, so that each message is a turn; else a user's message and what follows it.
    """

    messages: Sequence[tuple[int, Any]] = field(repr=False)
    name: str | None = None
    of_people: bool = False


def find_conversations(value: Any, line: int = 1) -> list[Conversation]:
    """Return the conversations of one JSON object, all said to begin on `line`; none where it holds none."""
    if not isinstance(value, dict):
        return []
    if isinstance(chats := value.get("chats"), dict) and isinstance(chats.get("list"), list):  # all of Telegram
        return [found for chat in chats["list"] for found in find_conversations(chat, line)]
    for find in _FINDERS:
        if (messages := find(value)) is not None:
            said = keep_said([(line, message) for message in messages])
            return [Conversation(said, _find_name(value), is_of_people(said))]
    return []


def is_of_people(messages: Sequence[tuple[int, Any]]) -> bool:
    """Return whether the first message names its author and no role."""
    first = next((one for _, one in messages if isinstance(one, Mapping)), {})
    author = first.get("author")
    if isinstance(author, Mapping):
        return "role" not in author
    if isinstance(first.get("from"), str):
        return "text" in first
    return "sender_name" in first or ("ts" in first and "role" not in first)


def keep_said(messages: Sequence[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Return the messages without those that a program wrote of a call, a pin or a member that joined.

    A pair of role and text, as LangGraph takes it, becomes an object.
    """
    return [(line, _read_pair(message)) for line, message in messages if _is_said(message)]


def _is_said(message: Any) -> bool:
    if not isinstance(message, dict):
        return True
    kind, subtype, author = message.get("type"), message.get("subtype"), message.get("author")
    if isinstance(subtype, str) and subtype.startswith(("channel_", "group_")):
        return False
    if isinstance(author, Mapping) and "role" not in author and isinstance(kind, str):
        return kind in _SAID_IN_DISCORD
    return not (kind == "service" and "actor" in message)


def _read_pair(message: Any) -> Any:
    match message:
        case [str(role), str(text)] if role.lower() in ROLES:
            return {"role": role, "content": text}
    return message


def _find_name(value: Mapping[str, Any]) -> str | None:
    channel = value.get("channel")
    named = channel.get("id") if isinstance(channel, Mapping) else None
    for given in (named, *(value.get(name) for name in ("conversation_id", "uuid", "thread_id", "thread_path", "id"))):
        if isinstance(given, str | int) and not isinstance(given, bool) and str(given):
            return str(given)
    return None


def _find_chatgpt(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the messages on the way to the newest answer: an edited prompt begins a branch, and ends the old one."""
    nodes = value.get("mapping")
    if not isinstance(nodes, dict):
        return None
    messages = [
        message
        for node in _walk_branch(nodes, value.get("current_node"))
        if isinstance(message := node.get("message"), dict) and _is_shown(message)
    ]
    return messages if value.get("current_node") in nodes else sorted(messages, key=_sort_by_time)


def _walk_branch(nodes: Mapping[str, Any], current: Any) -> list[Mapping[str, Any]]:
    """Return the nodes from the root to the current one; all where that is not known."""
    branch: list[Mapping[str, Any]] = []
    seen = set[str]()
    while isinstance(current, str) and current not in seen and isinstance(node := nodes.get(current), dict):
        seen.add(current)
        branch.append(node)
        current = node.get("parent")
    return branch[::-1] or [node for node in nodes.values() if isinstance(node, dict)]


def _is_shown(message: Mapping[str, Any]) -> bool:
    content, beside = message.get("content"), message.get("metadata")
    hidden = isinstance(beside, dict) and beside.get("is_visually_hidden_from_conversation") is True
    return not hidden and isinstance(content, dict) and not _CONTENT_FIELDS.isdisjoint(content)


def _find_claude(value: Mapping[str, Any]) -> list[Any] | None:
    return _list_of(value.get("chat_messages"))


def _find_messenger(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the messages oldest first, with their characters put right: the export writes bytes as characters."""
    messages = _list_of(value.get("messages"))
    if messages is None or "participants" not in value or not all(isinstance(one, dict) for one in messages):
        return None
    said = [one for one in messages if isinstance(one.get("content"), str) and isinstance(one.get("sender_name"), str)]
    mended = [{**one, **{name: _mend_text(one[name]) for name in ("content", "sender_name")}} for one in said]
    return sorted(mended, key=_sort_by_time)


def _mend_text(text: str) -> str:
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def _find_share_gpt(value: Mapping[str, Any]) -> list[Any] | None:
    return _list_of(value.get("conversations"))


def _find_gemini(value: Mapping[str, Any]) -> list[Any] | None:
    if isinstance(prompt := value.get("chunkedPrompt"), dict):  # AI Studio
        chunks = _list_of(prompt.get("chunks")) or []
        return [
            {"role": one.get("role"), "content": one["text"]}
            for one in chunks
            if isinstance(one, dict) and isinstance(one.get("text"), str) and not one.get("isThought")
        ]
    return _list_of(value.get("contents"))


def _find_langgraph(value: Mapping[str, Any]) -> list[Any] | None:
    for name in ("values", "channel_values"):
        if isinstance(state := value.get(name), dict):
            return _list_of(state.get("messages"))
    return None


def _find_plain(value: Mapping[str, Any]) -> list[Any] | None:
    return _list_of(value.get("messages"))


def _sort_by_time(message: Mapping[str, Any]) -> datetime:
    return find_moment(message) or EPOCH


def _list_of(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) else None


_FINDERS: Sequence[Callable[[Mapping[str, Any]], list[Any] | None]] = (
    _find_chatgpt,
    _find_claude,
    _find_messenger,
    _find_share_gpt,
    _find_gemini,
    _find_langgraph,
    _find_plain,
)
