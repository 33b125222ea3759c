"""Recognises messages as chat programs export them: of people to each other, and of people to an assistant. Pure.

Among people each message names its author; a bot's are the assistant's.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from typing import Any

from producers.turns.built_messages import ROLES, Known, Raw, build_message, read_role

LOOKED_FOR = "Discord, Telegram, Slack, Teams, Messenger, Google Chat and Matrix"

#: Tags that end a line of a text in HTML, and all other tags.
_BREAK = re.compile(r"<(?:br|/p|/div|/li|/tr|/h[1-6])\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
#: Where what Teams and Skype quote of another's message begins and ends.
_QUOTE = re.compile(r"<blockquote\b[^<>]*schema\.skype\.com/(?:Reply|Forward)[^<>]*>|<quote\b[^<>]*>", re.IGNORECASE)
_QUOTE_END = re.compile(r"</(?:block)?quote>", re.IGNORECASE)
#: What Matrix puts before an answer, for programs that do not show what it answers.
_MATRIX_FALLBACK = re.compile(r"(?:>[^\n]*\n)+\n?")
#: Types of Teams' and Skype's own messages that a person typed.
TYPED = frozenset({"text", "richtext", "richtext/html"})


def read_exported_message(value: Raw) -> Known | None:
    """Return a message in one of the known forms as a chat message; None for any other."""
    for read in _FORMS:
        if (found := read(value)) is not None:
            return found
    return None


def _read_authored(value: Raw) -> Known | None:
    """Read a message of ChatGPT's export (author.role), or of Discord's (author.name)."""
    author = value.get("author")
    if not isinstance(author, Mapping) or "content" not in value:
        return None
    if isinstance(author.get("role"), str):
        return build_message(read_role(author["role"]), value, value, name=author.get("name"))
    name = author.get("nickname") or author.get("name") or author.get("global_name") or author.get("username")
    if not isinstance(name, str):
        return None
    is_bot = author.get("isBot") is True or author.get("bot") is True
    return build_message("assistant" if is_bot else "user", value, value, name=name)


def _read_messenger(value: Raw) -> Known | None:
    if not isinstance(name := value.get("sender_name"), str) or "content" not in value:
        return None
    return build_message("user", value, value, name=name)


def _read_claude(value: Raw) -> Known | None:
    """Read a message of Claude's export (sender), whose text stands in `text`, in parts of `content`, or in both."""
    sender = value.get("sender")
    if not isinstance(sender, str) or sender.lower() not in ROLES or "text" not in value or "role" in value:
        return None
    text, parts = value["text"], value.get("content")
    if isinstance(parts, list):
        texts = [part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") == "text"]
        text = "\n".join(one for one in texts if isinstance(one, str) and one.strip()) or text
    if not text and (value.get("attachments") or value.get("files")):
        text = "[document]"
    return build_message(ROLES[sender.lower()], {"content": text}, value)


def _read_libre_chat(value: Raw) -> Known | None:
    """Read a message of LibreChat's export, whose sender is a person or the name of a model."""
    if not isinstance(is_person := value.get("isCreatedByUser"), bool) or "text" not in value:
        return None
    said = value["text"] or value.get("content") or ""
    return build_message("user" if is_person else "assistant", {"content": said}, value)


def _read_telegram(value: Raw) -> Known | None:
    """Read a message of Telegram's export; one whose author has deleted the account names its id alone.

    A forwarded one has the words of another.
    """
    if "text" not in value or "role" in value or "from" not in value:
        return None
    name = value["from"] or value.get("from_id")
    if "forwarded_from" in value:
        name = value["forwarded_from"] or value.get("forwarded_from_id") or "forwarded"
    return build_message("user", {"content": value["text"]}, value, name=name) if isinstance(name, str) else None


def _read_slack(value: Raw) -> Known | None:
    if value.get("type") != "message" or "ts" not in value or "text" not in value or "role" in value:
        return None
    profile = value.get("user_profile")
    named = profile if isinstance(profile, Mapping) else {}
    name = named.get("real_name") or named.get("display_name") or named.get("name")
    name = name or value.get("username") or value.get("user") or value.get("bot_id")
    if not isinstance(name, str):
        return None
    is_bot = "bot_id" in value or value.get("subtype") == "bot_message"
    return build_message("assistant" if is_bot else "user", {"content": value["text"]}, value, name=name)


def _read_teams(value: Raw) -> Known | None:
    """Read a message as Microsoft Graph answers it (from, body), or as an export of one's own data holds it."""
    body, sender = value.get("body"), value.get("from")
    if isinstance(body, Mapping) and isinstance(sender, Mapping) and isinstance(body.get("content"), str):
        person, program = sender.get("user"), sender.get("application")
        named = person if isinstance(person, Mapping) else program
        name = named.get("displayName") if isinstance(named, Mapping) else None
        text = read_html(body["content"]) if body.get("contentType") == "html" else body["content"]
        return build_message("user" if named is person else "assistant", {"content": text}, value, name=name)
    if not isinstance(sender, str) or not isinstance(text := value.get("content"), str):
        return None
    if str(value.get("messagetype")).lower() not in TYPED:
        return None
    name = value.get("displayName") or sender.rpartition(":")[2]
    return build_message("user", {"content": read_html(text)}, value, name=name)


def _read_google_chat(value: Raw) -> Known | None:
    creator = value.get("creator")
    if not isinstance(creator, Mapping) or "text" not in value:
        return None
    name = creator.get("name") or creator.get("email")
    role = "assistant" if str(creator.get("user_type")).lower() == "bot" else "user"
    return build_message(role, {"content": value["text"]}, value, name=name) if isinstance(name, str) else None


def _read_matrix(value: Raw) -> Known | None:
    content, sender = value.get("content"), value.get("sender")
    if value.get("type") != "m.room.message" or not isinstance(content, Mapping) or not isinstance(sender, str):
        return None
    edited, related = content.get("m.new_content"), content.get("m.relates_to")
    body = edited.get("body") if isinstance(edited, Mapping) else content.get("body")
    if isinstance(body, str) and isinstance(related, Mapping) and "m.in_reply_to" in related:
        quoted = _MATRIX_FALLBACK.match(body)
        body = body[quoted.end() :] if quoted else body
    # A notice is what programs send, who must not answer each other.
    role = "assistant" if content.get("msgtype") == "m.notice" else "user"
    return build_message(role, {"content": body}, value, name=sender)


_FORMS: Sequence[Callable[[Raw], Known | None]] = (
    _read_authored,
    _read_messenger,
    _read_claude,
    _read_libre_chat,
    _read_telegram,
    _read_slack,
    _read_teams,
    _read_google_chat,
    _read_matrix,
)


def read_html(text: str) -> str:
    """Return a text without its tags of HTML, and without what it quotes of another's message."""
    return unescape(_TAG.sub("", _BREAK.sub("\n", _drop_quotes(text)))).strip()


def _drop_quotes(text: str) -> str:
    """Return a text in HTML without what it quotes of another's message, in time that grows with its length."""
    kept, at = list[str](), 0
    ends = [found.end() for found in _QUOTE_END.finditer(text)]
    for begun in _QUOTE.finditer(text):
        if begun.start() >= at and (nth := bisect_right(ends, begun.end())) < len(ends):
            kept.append(text[at : begun.start()])
            at = ends[nth]
    return "".join([*kept, text[at:]])


def is_of_people(value: Any) -> bool:
    """Return whether a message is of people: it names its author, and no role."""
    if not isinstance(value, Mapping) or "role" in value:
        return False
    if isinstance(author := value.get("author"), Mapping):
        return "role" not in author
    readers = (_read_messenger, _read_telegram, _read_slack, _read_teams, _read_google_chat, _read_matrix)
    return any(read(value) is not None for read in readers)
