"""Names forms of files that `afterturn ingest` does not read, and says what to do with each. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass

_HEADER = re.compile(
    r"(?:From|To|Cc|Subject|Date|Received|Return-Path|Delivered-To|Message-ID|MIME-Version|DKIM-Signature"
    r"|X-[\w-]+|Content-Type|Reply-To|Sender|ARC-[\w-]+|Authentication-Results):\s.*",
    re.IGNORECASE,
)
_MBOX = re.compile(r"From \S+ .*\d{4}\s*")
#: Headers of a mail at least, of its first lines.
_HEADERS, _SAMPLED = 3, 12
_COLUMNS = re.compile(
    r'"?(?:author|authorid|user|username|role|sender|speaker|name|from|id|date|time|timestamp|content|contents|message'
    r'|text)"?',
    re.IGNORECASE,
)
_ROLE = r"(?:user|human|you|me|assistant|ai|chatgpt|claude|gemini|model|agent|bot)"
_MARKDOWN_ROLE = re.compile(rf"(?:#{{1,6}}\s+\**{_ROLE}\b[^\n]{{0,40}}|\*\*{_ROLE}:?\*\*:?(?:\s.*)?)", re.IGNORECASE)
_LOG_LINE = re.compile(r"\[?(?:\d{4}-\d\d-\d\d[ T])?\d{1,2}:\d\d(?::\d\d)?\]?\s+(?:<[^<>]{1,40}>|[\w|@+-]{1,40}\t).*")
_TIMED = re.compile(r"[\[(]?(?:\d{1,2}:)?\d{1,2}:\d\d[\])]?\s{1,4}(?:- )?[^\W\d_][^:<>\t]{0,60}:\s\S.*")
_DISCORD_TEXT = re.compile(r"\[\d{1,2}[/-]\d{1,2}[/-]\d{2,4} [^\]]{3,20}\] \S.*")
_OF_OPENAI = re.compile(r'"object"\s*:\s*"(?:response|chat\.completion(?:\.chunk)?)"|"url"\s*:\s*"/v1/')
#: A line of what was typed to Claude Code, Codex or Aider.
_TYPED = re.compile(
    r'\{"display":.*"pastedContents":|\{"session_id":"[\w-]+","ts":\d+,"text":|# \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*\n\+'
)
_HTML = re.compile(r"<(?:!doctype html|html|head|body)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Refused:
    """A form that is not read: whether a file begins so (bytes, text), what it is, and what to do."""

    begins: Callable[[bytes, str], bool]
    advice: str


def name_refused(head: bytes) -> str | None:
    """Return what a file is that begins with these bytes, and what to do with it; None for what is not known either."""
    text = head.decode(errors="replace").removeprefix("\ufeff").lstrip()
    return next((one.advice for one in _REFUSED if one.begins(head, text)), None)


def is_mail(text: str) -> bool:
    """Return whether a text begins as a mail, or a mailbox."""
    lines = text.split("\n", _SAMPLED)[:_SAMPLED]
    headers = sum(_HEADER.fullmatch(line.strip()) is not None for line in lines)
    return headers >= _HEADERS and (_HEADER.fullmatch(lines[0].strip()) or _MBOX.fullmatch(lines[0])) is not None


def _with(*signs: bytes) -> Callable[[bytes, str], bool]:
    return lambda head, _: head.startswith(signs)


def _is_office(head: bytes, _: str) -> bool:
    return head.startswith(b"PK\x03\x04") and any(
        sign in head for sign in (b"[Content_Types].xml", b"word/", b"mimetypeapplication/vnd.oasis")
    )


def _is_media(head: bytes, _: str) -> bool:
    return head.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"ID3", b"OggS", b"fLaC")) or (
        head[4:8] == b"ftyp"
    )


def _is_binary(head: bytes, _: str) -> bool:
    return b"\0" in head[:1024]


def _is_table(_: bytes, text: str) -> bool:
    first = text.split("\n", 1)[0].strip()
    cells = re.split(r"[,;\t]", first)
    return len(cells) > 1 and sum(_COLUMNS.fullmatch(cell.strip()) is not None for cell in cells) > 1


def _counts(pattern: re.Pattern[str]) -> Callable[[bytes, str], bool]:
    """Return a test whether two of the first lines are of a pattern."""

    def begins(_: bytes, text: str) -> bool:
        lines = text.split("\n", 200)[:200]
        return sum(pattern.fullmatch(line.rstrip()) is not None for line in lines) > 1

    return begins


_JSON_ADVICE = "export the chat as JSON"
#: In the order in which they are looked for.
_REFUSED = (
    _Refused(
        _is_office, "a document of Word, Excel or LibreOffice; save it as text, and of a meeting give the .vtt file"
    ),
    _Refused(
        _with(b"PK\x03\x04", b"PK\x05\x06"),
        "a ZIP archive; unpack it and give the file in it (conversations.json, _chat.txt, a channel's JSON)",
    ),
    _Refused(_with(b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ"), "a compressed file; decompress it first"),
    _Refused(
        _with(b"SQLite format 3"),
        "a SQLite database, as Cursor, Zed, Signal and iMessage keep; export the chat from the program, of Cursor as "
        "Markdown",
    ),
    _Refused(_with(b"%PDF"), "a PDF; save its text, which --format document stores without speakers"),
    _Refused(_is_media, "a picture, a sound or a film; give its transcript with speakers (.vtt, .srt)"),
    _Refused(_is_binary, "not a text in UTF-8 (it has NUL bytes); if it is one in UTF-16 or UTF-32, save it as UTF-8"),
    _Refused(
        lambda _, text: _HTML.match(text) is not None,
        f"HTML; {_JSON_ADVICE} (Telegram, Discord), or give the JSON file beside it (conversations.json of ChatGPT)",
    ),
    _Refused(
        lambda _, text: is_mail(text),
        "mail, whose quotations and signatures are not its sender's words; --format document stores the text without "
        "speakers",
    ),
    _Refused(
        lambda _, text: text.startswith(("BEGIN:VCALENDAR", "BEGIN:VCARD")),
        "a calendar or a card of addresses, which holds no messages",
    ),
    _Refused(
        lambda _, text: text.startswith(("{", "[")) and _OF_OPENAI.search(text[:4096]) is not None,
        "single requests or answers of OpenAI's API; give the list of messages, question and answer together",
    ),
    _Refused(
        lambda _, text: _TYPED.match(text) is not None,
        "a list of what was typed, without answers; give the session itself (~/.claude/projects, ~/.codex/sessions, "
        ".aider.chat.history.md)",
    ),
    _Refused(_is_table, 'a table (CSV); write a line of JSON for each message: {"role": "user", "content": "..."}'),
    _Refused(
        _counts(_LOG_LINE),
        "a log of a chat (IRC); write it as `Name: text` a line",
    ),
    _Refused(
        _counts(_TIMED),
        "a transcript with a time before each name; give WebVTT or SRT, or `Name: text` a line without the times",
    ),
    _Refused(_counts(_DISCORD_TEXT), f"a text export of Discord; {_JSON_ADVICE}"),
    _Refused(
        _counts(_MARKDOWN_ROLE),
        "a chat in Markdown with a heading or a bold word for each role, which an answer may hold as well; "
        f"{_JSON_ADVICE}, or write a line of JSON for each message",
    ),
)
