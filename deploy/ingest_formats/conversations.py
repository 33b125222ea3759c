"""Finds the conversations in an exported JSON document, and says whether people or an assistant speak in them. Pure."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter
from typing import Any

from afterturn_client.message_times import EPOCH, find_moment

from producers.turns.built_messages import ROLES
from producers.turns.exported_messages import TYPED, is_of_people
from producers.turns.message_forms import identify_message

#: Fields that hold the messages of a conversation, by which a document is known.
MESSAGE_FIELDS = (
    "messages",
    "messagesTree",
    "mapping",
    "chat_messages",
    "conversations",
    "contents",
    "chunkedPrompt",
    "chats",
    "values",
    "value",
    "data",
    "chat",
)
#: Types of Discord's messages that a person wrote, in exports and in its API; the others tell of calls and members.
_SAID_IN_DISCORD = frozenset(
    {"Default", "Reply", "ThreadStarterMessage", "ContextMenuCommand", "ChatInputCommand", 0, 19, 20, 21, 23}
)
#: Subtypes of Slack's messages that a person wrote; the others tell of members, pins, calls and reminders.
_SAID_IN_SLACK = frozenset(
    {"bot_message", "me_message", "thread_broadcast", "reply_broadcast", "file_share", "file_comment"}
)
#: Types of the records of Gemini CLI, and of the events of Copilot CLI, that are messages.
_SAID_IN_GEMINI_CLI = ("user", "gemini")
_SAID_IN_COPILOT = ("user.message", "assistant.message")
#: What Cline and Roo put around the words that a person typed, and what agents write beside these.
_TYPED_IN_CLINE = re.compile(r"<(task|feedback|answer|user_message)>\s*(.*?)\s*</\1>", re.DOTALL)
_BESIDE_WORDS = re.compile(r"\s*<(environment_details|system-reminder)>.*</\1>\s*", re.DOTALL)
#: Fields that hold the id of a conversation.
_NAMES = ("conversation_id", "conversationId", "uuid", "thread_id", "thread_path", "sessionId", "id")
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
    if chats := _list_chats(value):
        return [found for chat in chats for found in find_conversations(chat, line)]
    for find in _FINDERS:
        if (messages := find(value)) is not None:
            return [build_conversation([(line, message) for message in messages], name_conversation(value))]
    return []


def build_conversation(messages: Sequence[tuple[int, Any]], name: str | None = None) -> Conversation:
    """Return the conversation of these messages, without those that a program wrote of a call, a pin or a new member.

    Messages that all tell their time stand oldest first. A pair of role and text, as LangGraph takes it, becomes an
    object.
    """
    said = [(line, _take_words(_read_pair(message))) for line, message in messages if _is_said(message)]
    if any(_is_wrapped(message) for _, message in said):  # each other line is the agent's own
        said = [(line, message) for line, message in said if not isinstance(message, dict) or "message" in message]
    said = _put_in_order(said)
    return Conversation(said, name, of_people=bool(said) and is_of_people(said[0][1]))


def join_states(found: Sequence[Conversation]) -> list[Conversation]:
    """Return the conversations, those that are states of one joined into it, as LangGraph keeps its states.

    They have one name or none, and an equal message with an id; of each id the first message is taken.
    """
    joined = list[Conversation]()
    owners = dict[tuple[str | None, str], int]()
    for one in found:
        ids = [_identify(message) for _, message in one.messages]
        equal = [
            (one.name, f"{given} {json.dumps(message, sort_keys=True)}") if given else None
            for given, (_, message) in zip(ids, one.messages, strict=True)
        ]
        owner = next((owners[key] for key in equal if key in owners), len(joined))
        owners |= {key: owner for key in equal if key}
        if owner == len(joined):
            joined.append(one)
            continue
        known = {_identify(message) for _, message in joined[owner].messages}
        rest = [said for given, said in zip(ids, one.messages, strict=True) if given is None or given not in known]
        joined[owner] = replace(joined[owner], messages=[*joined[owner].messages, *rest])
    return joined


def _identify(message: Any) -> str | None:
    return identify_message(message) if isinstance(message, dict) else None


def _put_in_order(said: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Return the messages oldest first, where they stand newest first: as the APIs of Slack, Teams and Discord do."""
    times = [find_moment(message) if isinstance(message, Mapping) else None for _, message in said]
    known = [at for at in times if at is not None]
    if len(known) < len(said) or not known or known[0] <= known[-1]:
        return said
    return [one for _, one in sorted(zip(known, said, strict=True), key=itemgetter(0))]


def _list_chats(value: Mapping[str, Any]) -> list[Any]:
    """Return the chats of an export of all of Telegram, or of one's own data in Teams or Skype."""
    held = (one for name in ("chats", "left_chats") if isinstance(one := value.get(name), dict))
    own = _list_of(value.get("conversations")) or []
    return [
        *(chat for one in held for chat in _list_of(one.get("list")) or ()),
        *(one for one in own if isinstance(one, dict) and "MessageList" in one),
    ]


def _is_said(message: Any) -> bool:
    """Return whether a record is a message, by the type that its program gives it."""
    if not isinstance(message, dict):
        return True
    kind, subtype, author = message.get("type"), message.get("subtype"), message.get("author")
    said = not (kind == "service" and "actor" in message) and not str(message.get("role")).startswith("_")  # Kimi CLI
    if isinstance(subtype, str) and "ts" in message:
        said = subtype in _SAID_IN_SLACK
    elif isinstance(author, Mapping) and "role" not in author and isinstance(kind, str | int):
        said = kind in _SAID_IN_DISCORD
    elif isinstance(kind, str) and kind.startswith("m.") and "sender" in message:
        said = kind == "m.room.message"  # Matrix
    elif "messageType" in message and "body" in message:
        said = message["messageType"] == "message"  # Teams
    elif isinstance(kind, str) and "." in kind and "data" in message:
        said = kind in _SAID_IN_COPILOT
    return bool(said)


def _is_wrapped(message: Any) -> bool:
    return isinstance(message, dict) and message.get("type") == "message" and isinstance(message.get("message"), dict)


def _take_words(message: Any) -> Any:
    """Return a person's message without what a coding agent wrote beside the words; one of it alone is a tool's."""
    if _is_wrapped(message):
        return {**message, "message": _take_words(message["message"])}
    parts = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
    texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    beside = [text for text in texts if isinstance(text, str) and _BESIDE_WORDS.fullmatch(text)]
    if not beside or parts is None:
        return message
    rest = [part for part in parts if not (isinstance(part, dict) and part.get("text") in beside)]
    if not any("<environment_details>" in text for text in beside):
        return {**message, "content": rest}
    words = [found[2] for text in texts if isinstance(text, str) for found in _TYPED_IN_CLINE.finditer(text)]
    return {**message, "content": "\n".join(words)} if words else {**message, "role": "tool", "content": rest}


def replay_records(lines: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Return the messages of a session's records: of one that was written again the newest, none that was taken back.

    A record that is no message changes the session's own fields (Gemini CLI).
    """
    said = dict[str, tuple[int, Any]]()
    for line, record in lines:
        fields = record.get("$set") if isinstance(record, dict) else None
        if isinstance(fields, dict) and isinstance(whole := fields.get("messages"), list):
            said = {f"{line}:{nth}": (line, message) for nth, message in enumerate(whole)}
        elif isinstance(record, dict) and isinstance(undone := record.get("$rewindTo"), str):
            names = list(said)
            said = {name: said[name] for name in names[: names.index(undone) if undone in said else 0]}
        elif not isinstance(record, dict) or "role" in record or record.get("type") in _SAID_IN_GEMINI_CLI:
            name = str(record.get("id") or line) if isinstance(record, dict) else str(line)
            said[name] = (line, record)
    return list(said.values())


def _read_pair(message: Any) -> Any:
    match message:
        case [str(role), str(text)] if role.lower() in ROLES:
            return {"role": role, "content": text}
    return message


def name_conversation(value: Mapping[str, Any]) -> str | None:
    """Return the id of a conversation, where it has one."""
    channel = value.get("channel")
    named = channel.get("id") if isinstance(channel, Mapping) else None
    for given in (named, *(value.get(name) for name in _NAMES)):
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
        for node in _walk_branch(nodes, value.get("current_node"), "parent")
        if isinstance(message := node.get("message"), dict) and _is_shown(message)
    ]
    return messages if value.get("current_node") in nodes else sorted(messages, key=_sort_by_time)


def _walk_branch(nodes: Mapping[str, Any], current: Any, parent: str) -> list[Mapping[str, Any]]:
    """Return the nodes from the root to the current one; all where that is not known. `parent`: the field of it."""
    branch: list[Mapping[str, Any]] = []
    seen = set[str]()
    while isinstance(current, str) and current not in seen and isinstance(node := nodes.get(current), dict):
        seen.add(current)
        branch.append(node)
        current = node.get(parent)
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
    return [{**one, **{name: _mend_text(one[name]) for name in ("content", "sender_name")}} for one in said]


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


def _find_teams(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the messages of an answer of Microsoft Graph, or of a chat in an export of one's own data."""
    if (typed := _list_of(value.get("MessageList"))) is not None:
        return [one for one in typed if isinstance(one, dict) and str(one.get("messagetype")).lower() in TYPED]
    found = _list_of(value.get("value"))
    return found if found and isinstance(found[0], dict) and "body" in found[0] else None


def _find_openai(value: Mapping[str, Any]) -> list[Any] | None:
    return _list_of(value.get("data")) if value.get("object") == "list" else None


def _find_open_web_ui(value: Mapping[str, Any]) -> list[Any] | None:
    if not isinstance(chat := value.get("chat"), dict):
        return None
    said, history = _list_of(chat.get("messages")), chat.get("history")
    if said or not isinstance(history, dict) or not isinstance(nodes := history.get("messages"), dict):
        return said
    return [*_walk_branch(nodes, history.get("currentId"), "parentId")]


def _find_libre_chat(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the messages, which stand within those that they answer where the export was made so."""
    top = _list_of(value.get("messagesTree")) or _list_of(value.get("messages")) or []
    if not any(isinstance(one, dict) and "isCreatedByUser" in one for one in top):
        return None
    return [*_walk_children(top)]


def _walk_children(messages: Sequence[Any]) -> Iterator[Any]:
    waiting = list(reversed(messages))
    while waiting:
        yield (message := waiting.pop())
        waiting += reversed(_list_of(message.get("children")) or []) if isinstance(message, dict) else ()


def _find_gemini_cli(value: Mapping[str, Any]) -> list[Any] | None:
    """Return what a person and the model said; the others are the program's."""
    messages = _list_of(value.get("messages"))
    if messages is None or "sessionId" not in value:
        return None
    return [one for one in messages if not isinstance(one, dict) or one.get("type") in _SAID_IN_GEMINI_CLI]


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
    _find_teams,
    _find_openai,
    _find_open_web_ui,
    _find_libre_chat,
    _find_gemini_cli,
    _find_plain,
)
