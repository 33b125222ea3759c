"""Addresses of the net in a text: URLs, e-mail addresses, @handles."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from store.text.rules.canonical import fold_text
from store.text.rules.model import MentionKind, TextSpan

_LONGEST_URL = 2048
# Possessive quantifiers and look-behinds: no character is tried twice, for any input.
_URL = re.compile(r"(?<![\w@.])(?:https?://|www\.)[^\s<>\"'`|\\^{}]++", re.IGNORECASE)
_EMAIL = re.compile(r"(?<![\w.+%@-])[\w+%-]{1,64}+(?:\.[\w+%-]{1,64}+){0,8}@[^\W_](?:[\w-]|\.(?=[^\W_])){1,252}")
_HANDLE = re.compile(r"(?<![\w@./+-])@[A-Za-z0-9_]{1,32}+(?:[.-][A-Za-z0-9_]{1,32}+){0,4}(?![\w@])")
_TRAILING = ".,;:!?)]}*_~\u2019\u201d\u2026"


def find_addresses(text: str) -> Iterator[tuple[MentionKind, TextSpan, str]]:
    """Yield kind, span and normalised name of each address; spans never overlap."""
    for match in _URL.finditer(text):
        if len(match.group()) <= _LONGEST_URL and (found := _parse_url(match)):
            yield MentionKind.URL, *found
    bare = mask_spans(text, [match.span() for match in _URL.finditer(text)])
    for match in _EMAIL.finditer(bare):
        if "." in match.group().rpartition("@")[2]:
            yield MentionKind.EMAIL, TextSpan(*match.span()), match.group().casefold()
    for match in _HANDLE.finditer(bare):
        yield MentionKind.HANDLE, TextSpan(*match.span()), match.group().casefold()


def mask_spans(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the text with the spans blanked out by NUL, so that nothing is found in or across them."""
    parts: list[str] = []
    position = 0
    for start, end in sorted(spans):
        parts += [text[position:start], "\0" * (end - max(start, position))]
        position = max(end, position)
    return "".join((*parts, text[position:]))


def _parse_url(match: re.Match[str]) -> tuple[TextSpan, str] | None:
    surface = match.group()
    trimmed = surface.rstrip(_TRAILING)
    if surface[len(trimmed) : len(trimmed) + 1] == ")" and trimmed.count("(") > trimmed.count(")"):
        trimmed += ")"
    name = _url_name(trimmed)
    return (TextSpan(match.start(), match.start() + len(trimmed)), name) if name else None


def _url_name(url: str) -> str | None:
    """Return the normalised URL: the host without case and `www.`, then path and query; None for no URL."""
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
    except ValueError:
        return None
    host = fold_text(parts.hostname or "").removeprefix("www.")
    if not all(host.split(".")) or ("." not in host and host != "localhost"):
        return None
    query = f"?{parts.query}" if parts.query else ""
    return f"{host}{parts.path.rstrip('/')}{query}"
