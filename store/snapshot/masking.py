"""Replaces private values in events: secrets, addresses, handles, numbers, names, and every word that is not common.

The same value has the same mark within one export, `[NAME:1a2b3c4d5e]`: an HMAC under a key that is deleted with the
export's end. What stays are the thousand most usual English words, punctuation, ids, times and the shape of the data.
A word is marked unless it is known to be harmless, so a name that nothing recognises is marked, too.
"""

import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from functools import cache
from types import MappingProxyType
from typing import Any

import orjson

from store.text.normal_forms import normalise_text
from store.text.redaction import Redaction, find_secrets
from store.text.rules.gazetteer import word_list

#: Bytes of a mark's digest, of which two hexadecimal digits each are shown.
MARK_BYTES = 5
#: Characters of a name that a table holds; a longer one becomes one mark.
NAME_LENGTH = 256
#: Roles of messages, which say nothing of a person.
ROLES = frozenset({"user", "assistant", "system", "tool", "developer", "function"})


class Treatment(Enum):
    """The treatment of a field of an event's data."""

    #: Ids, times, kinds and sizes stay.
    KEEP = auto()
    #: A text: its words are marked unless they are common.
    TEXT = auto()
    #: A name: all its words are marked.
    NAME = auto()
    ROLE = auto()
    #: JSON of a caller: its texts, names and numbers are marked.
    JSON = auto()
    #: The JSON text of a message's parts.
    PARTS = auto()
    #: Messages of a history.
    MESSAGES = auto()
    #: A digest of content, by which a guess could be tried.
    DROP = auto()


K, T = Treatment.KEEP, Treatment
#: The treatment of each field of the events' data (store/log/event_data.py).
FIELDS: Mapping[str, Treatment] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("hostId", "bankId", "docId", "unitId", "entityId", "fromUnitId", "toUnitId", "directiveId"),
                *("reflectionId", "sessionId", "turnId", "agentDefId", "userId", "sourceMemoryIds"),
                *(
                    "aggregateVersion",
                    "newAggregateVersion",
                    "keptFrom",
                    "erased",
                    "linkType",
                    "factType",
                    "origin",
                    "kind",
                ),
                *("expiresAt", "occurredAt", "eventDate", "occurredStart", "occurredEnd", "mentionedAt", "timestamp"),
                *("proofCount", "bytes", "ordinal", "sequence", "priority", "weight", "mentions", "place", "spans"),
                *("embeddingModel", "extractor"),
            ),
            K,
        ),
        **dict.fromkeys(("content", "context", "originalText", "background", "title"), T.TEXT),
        **dict.fromkeys(
            ("bankName", "sessionName", "turnName", "userName", "name", "canonicalName", "laidDownBy"), T.NAME
        ),
        **dict.fromkeys(("metadata", "disposition"), T.JSON),
        "role": T.ROLE,
        "parts": T.PARTS,
        "messages": T.MESSAGES,
        "bodyDigest": T.DROP,
        "contentHash": T.DROP,
    }
)
#: Metadata of facts that stages read; they are kinds, numbers and versions of ours.
KEPT_OF_FACTS = frozenset({"fact_id", "slug", "tier", "confidence", "span", "extractor", "denied", "kind"})
#: Dispositions are numbers of a scale.
KEPT_TRAITS = frozenset({"skepticism", "literalism", "empathy"})

_MARK = r"\[(?:NAME|NUMBER|EMAIL|HANDLE|SECRET):[0-9a-f]{10}\]"
_VALUES = re.compile(
    rf"(?P<mark>{_MARK})"
    # Possessive and bounded, so that a long run without an @ is read once.
    r"|(?P<EMAIL>[^\s@<>()\[\]\",;:]{1,64}+@[^\s@<>()\[\]\",;:]{1,255})"
    r"|(?P<HANDLE>(?<![\w@])@\w[\w.-]*\w|(?<![\w@])@\w)"
    r"|(?P<NUMBER>\+?\d[\d.,:/ \u00a0()-]*\d|\d)"
    r"|(?P<word>[^\W\d_]+(?:['\u2019][^\W\d_]+)*)"
)


@cache
def _common_words() -> frozenset[str]:
    return word_list("common_words")


class Masker:
    """Masks the events of one export; `names` are those that its banks know, of which some are common words."""

    def __init__(self, key: bytes, names: Iterable[str] = ()) -> None:
        """Keep the key of the marks, and the names made of common words alone: the others are marked anyway."""
        self._key = key
        spelt = {tuple(_split_words(name)) for name in names}
        common = {name for name in spelt if name and all(word in _common_words() for word in name)}
        self._single = {name[0] for name in common if len(name) == 1}
        self._several = {name for name in common if len(name) > 1}
        self._longest = max((len(name) for name in self._several), default=1)

        self._treatments: Mapping[Treatment, Callable[[Any], Any]] = {
            Treatment.TEXT: self.mask_text,
            Treatment.NAME: self.mask_name,
            Treatment.ROLE: self.mask_name,
            Treatment.JSON: self._mask_json,
            Treatment.PARTS: self._mask_parts,
            Treatment.MESSAGES: self._mask_messages,
        }

    def mask_data(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event's data with private values replaced. A field that FIELDS does not name is left out."""
        masked: dict[str, Any] = {}
        for name, value in data.items():
            treatment = FIELDS.get(name, Treatment.DROP)
            if name == "metadata" and data.get("origin") == "extraction":
                masked[name] = self._mask_fact(value)
            elif treatment is not Treatment.DROP:
                masked[name] = self._treat(treatment, value)
        return masked

    def mask_text(self, text: str) -> str:
        """Return a text with its secrets, addresses, handles, numbers and uncommon words replaced."""
        pieces, at = list[str](), 0
        for secret in find_secrets(text, Redaction.ALL):
            pieces += (self._mask_words(text[at : secret.start]), self._mark("SECRET", text[secret.start : secret.end]))
            at = secret.end
        return "".join(pieces) + self._mask_words(text[at:])

    def mask_name(self, name: str) -> str:
        """Return a name with all its words replaced; a long one becomes one mark."""
        masked = self._mask_words(name, common=frozenset())
        return masked if len(masked) <= NAME_LENGTH else self._mark("NAME", name)

    def _treat(self, treatment: Treatment, value: Any) -> Any:
        kept = treatment is Treatment.KEEP or (treatment is Treatment.ROLE and value in ROLES)
        return value if value is None or kept else self._treatments[treatment](value)

    def _mask_parts(self, parts: Any) -> Any:
        if isinstance(parts, str):
            return orjson.dumps(self._mask_json(orjson.loads(parts))).decode()
        return self._mask_json(parts)

    def _mask_messages(self, messages: Any) -> list[dict[str, Any]]:
        return [self._mask_message(message) for message in messages]

    def _mask_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        masked = self.mask_data({name: value for name, value in message.items() if name != "content"})
        return {**masked, **({"content": self._mask_json(message["content"])} if "content" in message else {})}

    def _mask_fact(self, metadata: Any) -> dict[str, Any]:
        kept = dict(metadata or {})
        return {str(name): value if name in KEPT_OF_FACTS else self._mask_json(value) for name, value in kept.items()}

    def _mask_json(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return self._mark("NUMBER", str(value))
        if isinstance(value, list | tuple):
            return [self._mask_json(one) for one in value]
        return {
            self.mask_text(name): self._mask_json(one) for name, one in value.items() if name not in KEPT_TRAITS
        } | {name: one for name, one in value.items() if name in KEPT_TRAITS}

    def _mask_words(self, text: str, common: frozenset[str] | None = None) -> str:
        kept = _common_words() if common is None else common
        found = list(_VALUES.finditer(text))
        marked = self._find_names(found) if kept else frozenset[int]()
        pieces, at = list[str](), 0
        for nth, match in enumerate(found):
            pieces += (text[at : match.start()], self._replace(match, kept, named=nth in marked))
            at = match.end()
        return "".join(pieces) + text[at:]

    def _replace(self, match: re.Match[str], kept: frozenset[str], *, named: bool) -> str:
        if match.lastgroup == "mark":
            return match[0]
        if match.lastgroup == "word":
            return match[0] if not named and _fold_value(match[0]) in kept else self._mark("NAME", match[0])
        return self._mark(str(match.lastgroup), match[0])

    def _find_names(self, found: list[re.Match[str]]) -> frozenset[int]:
        """Return the places of the words that make a known name of common words."""
        words = [_fold_value(match[0]) if match.lastgroup == "word" else "" for match in found]
        named = {nth for nth, word in enumerate(words) if word in self._single}
        for length in range(2, self._longest + 1):
            for nth in range(len(words) - length + 1):
                if tuple(words[nth : nth + length]) in self._several:
                    named.update(range(nth, nth + length))
        return frozenset(named)

    def _mark(self, label: str, value: str) -> str:
        digest = hmac.digest(self._key, _fold_value(value).encode(), "sha256")[:MARK_BYTES]
        return f"[{label}:{digest.hex()}]"


def _split_words(name: str) -> list[str]:
    return [_fold_value(match[0]) for match in _VALUES.finditer(name) if match.lastgroup == "word"]


def _fold_value(value: str) -> str:
    return normalise_text("NFKC", value).replace("\u2019", "'").casefold()
