"""Screens entries for prompt injection: they are part of every later system prompt.

Two screens, both pure. Invisible characters are refused, since they hide text from the person who reads the file. Then
the text, in one plain form (NFKC, lower case, single spaces), is compared with patterns of prompt injection and of
exfiltration. It does not catch everything; an entry that passes is still in a file that its owner can read.
"""

import re
import unicodedata
from collections.abc import Iterator

from afterturn_client.curated.entries import is_separator, tidy_entry
from afterturn_client.curated.errors import (
    CuratedError,
    EntryBlank,
    EntryInvisible,
    EntrySeparator,
    EntrySuspicious,
)

#: Controls, format signs, surrogates, private use, unassigned, line and paragraph separators.
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: Letters and marks that leave no ink: fillers, the blank Braille cell, joiners, Mongolian selectors.
_UNSEEN = frozenset(map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810))))
#: Joiners that Persian, the Indic scripts and emoji need; between other signs they only hide.
_JOINERS = frozenset("\u200c\u200d")
#: Text and emoji style; the other selectors can carry hidden bytes.
_STYLES = frozenset("\ufe0e\ufe0f")
_SELECTORS = frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
_KEYCAPS = frozenset("0123456789#*")

#: Each rule reads one plain line. `_NEAR` spans a few words within a sentence, `_LINE` the rest of a command.
_NEAR = r"\b[^.!?\n]{0,30}?\b"
_LINE = r"\b[^\n]{0,200}?"
_SECRETS = r"(?:api[ _-]?keys?|passwords?|tokens?|secrets?|credentials?|private keys?|chat history|conversations?)"
_RULES = {
    "override": rf"\b(?:ignore|disregard|forget|override|bypass){_NEAR}(?:"
    rf"(?:previous|prior|above|earlier|preceding|your|system){_NEAR}(?:instruction|prompt|rule|directive|guideline|polic)"
    rf"|(?:all|any|the|safety){_NEAR}(?:instructions?|prompts?|directives?|safeguards?|restrictions?)\b"
    r"|(?:everything|all|the|of|that|what is| )+above\b)",
    "role": r"\byou (?:are|will be) (?:now|no longer) (?:an? |the |in |bound |restricted )*(?:unrestricted|jailbroken"
    r"|uncensored|dan\b|root\b|developer mode|god mode|by\b|free (?:of|from)|different (?:ai|assistant|model))",
    "pretend": rf"\b(?:act|behave|respond|pretend){_NEAR}(?:as if|as though|like|that){_NEAR}(?:no|without|free of)"
    rf"{_NEAR}(?:restriction|rule|limit|filter|polic|guideline)",
    "secrecy": rf"\b(?:do not|don't|never){_NEAR}(?:tell|inform|mention|reveal|warn){_NEAR}user{_NEAR}"
    r"(?:about|that|this)\b",
    "prompt": rf"\b(?:new|updated|real|actual|hidden|secret){_NEAR}(?:system prompt|system message|instructions?) ?:"
    rf"|\bsystem prompt override\b|\b(?:reveal|print|repeat|output|leak){_NEAR}system prompt\b",
    "markup": r"<\|[^|\n]{1,24}\|>|\[/?inst\]|<<sys>>|#{2,} ?(?:system|instructions?|developer)(?: prompt| message)? ?:"
    r"|</?(?:system|developer|assistant|memory_reference|instructions?)\b[^>\n]*>",
    "credential transfer": rf"\b(?:curl|wget|nc|ncat|netcat|invoke-webrequest|https?ie){_LINE}"
    r"(?:\$\{?\w*(?:key|token|secret|passw|credential)|\$\(|/etc/(?:passwd|shadow)|\.ssh/|\.env\b|[= ]@[/~.\w])",
    "piped shell": rf"\b(?:curl|wget|base64){_LINE}\| ?(?:sudo )?(?:ba|z|da|k)?sh\b",
    "secret file": rf"\b(?:cat|scp|send|upload|post|exfiltrate|leak){_NEAR[:-2]}(?:\.env\b|\.netrc|\.pgpass|\.npmrc"
    r"|\.aws/credentials|\.ssh/|id_rsa|id_ed25519|/etc/shadow)",
    "back door": r"\bauthorized_keys\b|/etc/sudoers|/dev/tcp/|\bcrontab -|\bhistory -c\b",
    "send secrets": rf"\b(?:send|post|upload|forward|e-?mail|transmit|exfiltrate|leak){_NEAR}{_SECRETS}\b[^\n]{{0,60}}?"
    r"(?:https?://|\bto \S+@\S+|\bwebhook)",
    "image beacon": r"!\[[^\]\n]*\]\( ?https?://[^)\n]*[?{$][^)\n]*\)",
}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _RULES.items()}
_BLANKS = re.compile(r"[^\S\n]+")


def screen_entry(content: str) -> str:
    """Return the content as it may be stored, tidied. Raises EntryRefused's subclasses."""
    entry = tidy_entry(content)
    error = find_objection(entry)
    if error is not None:
        raise error
    return entry


def find_objection(entry: str) -> CuratedError | None:
    """Return the reason to refuse a tidied entry, or None."""
    if not entry:
        return EntryBlank("there is nothing to remember in the content")
    unseen = next(_invisible_characters(entry), None)
    if unseen is not None:
        return EntryInvisible(ord(unseen))
    if any(map(is_separator, entry.split("\n"))):
        return EntrySeparator("a line that holds only the section sign separates entries; leave it out")
    plain = _BLANKS.sub(" ", unicodedata.normalize("NFKC", entry).casefold())
    rule = next((name for name, pattern in _PATTERNS.items() if _matches_lines(pattern, plain)), None)
    return None if rule is None else EntrySuspicious(rule)


def _matches_lines(pattern: re.Pattern[str], plain: str) -> bool:
    """Return whether a pattern matches a line, or the text across line ends, which a model ignores."""
    return pattern.search(plain) is not None or pattern.search(plain.replace("\n", " ")) is not None


def _invisible_characters(entry: str) -> Iterator[str]:
    for at, sign in enumerate(entry):
        if sign in "\n\t" or not _is_unseen(sign):
            continue
        before, after = entry[at - 1 : at], entry[at + 1 : at + 2]
        joins = sign in _JOINERS and _is_foreign(before) and _is_foreign(after)
        styles = sign in _STYLES and (before in _KEYCAPS or _is_foreign(before))
        if not (joins or styles):
            yield sign


def _is_unseen(sign: str) -> bool:
    return sign in _UNSEEN or sign in _SELECTORS or unicodedata.category(sign) in _UNSEEN_CATEGORIES


def _is_foreign(sign: str) -> bool:
    """Return whether a character may be joined or styled: visible, and beyond ASCII and Latin."""
    return bool(sign) and ord(sign) >= _BEYOND_LATIN and (sign in _STYLES or not _is_unseen(sign))


#: Where Latin, Greek's neighbours and their modifiers have ended.
_BEYOND_LATIN = 0x0590
