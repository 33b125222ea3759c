"""Selects what a conversation is about: sentences that ask, decide, state, name something or leave it open. Pure.

A digest is words of the messages themselves, each with the number of its message: what is forgotten or erased is left
out by that number alone. A summary and an abstract are printed from it. Its time is in proportion to the text.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID
from zlib import crc32

from store.text.known_texts import KnownTexts, digest_text
from store.text.pattern_tables import Patterns
from store.text.stopwords import STOP_WORDS

#: Characters of a message that are read, of a tool's output, and of an entry's text.
READ, READ_OF_TOOL, LONGEST = 4_000, 600, 200
#: Sentences of fewer characters say nothing by themselves.
SHORTEST = 8
#: Most entries that one message gives.
MOST_OF_MESSAGE = 6


class DigestKind(StrEnum):
    """The purpose of an entry of a digest in its conversation."""

    DECIDED = "decided"
    ASKED = "asked"
    STATED = "stated"
    NAMED = "named"
    OPEN = "open"
    #: The words of a summary that a platform wrote.
    SAID = "said"


#: The most entries of each kind that a digest holds.
MOST: Mapping[DigestKind, int] = {
    DigestKind.DECIDED: 12,
    DigestKind.ASKED: 12,
    DigestKind.STATED: 20,
    DigestKind.NAMED: 16,
    DigestKind.OPEN: 8,
}
_ORDER = {kind: number for number, kind in enumerate(DigestKind)}


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """One message: its number in the session, the version of its unit, its turn, who spoke, and what was said."""

    seq: int
    version: int
    turn: str
    role: str
    content: str = field(repr=False)
    turn_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class DigestEntry:
    """One entry: a sentence of the message `seq` in this version."""

    kind: DigestKind
    text: str = field(repr=False)
    turn: str
    seq: int
    version: int

    def as_json(self) -> dict[str, Any]:
        """Return the entry as an event holds it."""
        return {"kind": self.kind, "text": self.text, "turn": self.turn, "seq": self.seq, "version": self.version}


def read_entry(told: Mapping[str, Any]) -> DigestEntry:
    """Return an entry from the form in which an event holds it."""
    return DigestEntry(DigestKind(told["kind"]), told["text"], told["turn"], told["seq"], told["version"])


_PATTERN = Patterns(Path(__file__).parent / "data" / "session_digest.toml")
#: Roles of those who converse.
_SPOKEN = frozenset({"user", "assistant"})
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_ENDS = r".!?\u3002\uff1f\uff01"
_QUOTED = r'"[^"\n]{1,600}"|\u201c[^\u201d\n]{1,600}\u201d|\u201e[^\u201c\n]{1,600}\u201c'
_TITLE = "|".join(
    rf"(?<=\b{title})\.(?=\s)" for title in ("Dr", "Mr", "Mrs", "Ms", "Prof", "St", "Nr", "No", "ca", "vs")
)
_MONTHS = "januar|j\u00e4nner|februar|m\u00e4rz|april|mai|juni|juli|august|september|oktober|november|dezember"
# A dot within a word, a number, a title or a German date ends no sentence, and no end within quotation marks does:
# the rest of what is quoted would stand there as the speaker's own words.
_SENTENCE = re.compile(
    rf"(?:[^{_ENDS}\n\"\u201c\u201e]+|{_QUOTED}|[\"\u201c\u201e]|[.!?](?=[^\s.!?\"')\]])|{_TITLE}"
    rf"|(?<=\d)\.(?=\s(?i:{_MONTHS})\b))+[{_ENDS}]*"
)
# Text between quotation marks, and a quoted line, are another's words, or a draft's.
_IS_QUOTED = re.compile(rf"\s*>.*|\s*(?:{_QUOTED})[\s{_ENDS}]*")
_QUESTION_ENDS = ("?", "\uff1f", "\u061f")
_WORD = re.compile(r"[^\W\d_][\w'\u2019-]{3,30}")
#: Signs at the ends of a sentence that are no part of it: those of lists, headings and quotes.
_MARKS = " -*\u2022#>"
# Each prepared turn tells of the same earlier messages: without these its median was 1.5 times as long (31 -> 21 ms).
_SENTENCES = KnownTexts[Sequence[tuple[DigestKind, int, int]]](8_192)
_NAMED = KnownTexts[int](16_384)


def digest_messages(messages: Iterable[SaidMessage]) -> list[DigestEntry]:
    """Return the entries of a conversation, at most `MOST` of each kind, by kind and number.

    A long one is read in parts, whose entries `merge_entries` joins.
    """
    return merge_entries(entry for message in messages for entry in _read_message(message))


def merge_entries(entries: Iterable[DigestEntry]) -> list[DigestEntry]:
    """Return the entries worth most of each kind, without repetitions; of two alike the first in the conversation."""
    first: dict[tuple[DigestKind, str], DigestEntry] = {}
    for entry in sorted(entries, key=lambda one: (one.seq, one.kind)):
        first.setdefault((entry.kind, " ".join(entry.text.split()).casefold()), entry)
    kinds = defaultdict[DigestKind, list[DigestEntry]](list)
    for entry in first.values():
        kinds[entry.kind].append(entry)
    chosen = [
        one
        for kind, found in kinds.items()
        for one in sorted(found, key=weigh_entry, reverse=True)[: MOST.get(kind, 0)]
    ]
    return sorted(chosen, key=lambda one: (_ORDER[one.kind], one.seq))


def weigh_entry(entry: DigestEntry) -> tuple[float, int]:
    """Return the value of an entry: entries that name something come first; equal ones spread evenly."""
    names = _NAMED.find(digest_text(entry.text), lambda: _count_names(entry.text))
    return min(names, 4) + min(len(entry.text), 80) / 80, crc32(b"%d" % entry.seq)


def _count_names(text: str) -> int:
    return len(_PATTERN.name.findall(text)) + 2 * len(_PATTERN.file.findall(text)) + len(_PATTERN.number.findall(text))


def find_topics(texts: Sequence[str], most: int) -> list[str]:
    """Return the words that most of these texts have in common, the most frequent first."""
    found, shown = Counter[str](), dict[str, str]()
    for text in texts:
        words = {word.casefold(): word for word in _WORD.findall(text)}
        for folded, word in words.items():
            if folded not in STOP_WORDS and folded not in _NO_TOPICS:
                found[folded] += 1
                shown.setdefault(folded, word)
    ranked = sorted(found, key=lambda word: (-found[word], word))
    return [shown[word] for word in ranked[:most]]


def find_people(texts: Sequence[str], is_person: Callable[[str], bool], most: int) -> list[str]:
    """Return the names of people in these texts, the most frequent first. `is_person` judges a first name."""
    names = Counter(
        name for text in texts for name in set(_PATTERN.name.findall(f", {text}")) if is_person(name.split()[0])
    )
    return sorted(names, key=lambda name: (-names[name], name))[:most]


_COMMON = (
    "that this what when where which about with from have your please could would should there their them then than "
    "also need want like going just still make will into over some more most very only other after before because "
    "decided agreed think know tell show remember been using used today tomorrow turn"
)
_NO_TOPICS = frozenset(_COMMON.split())


def _read_message(message: SaidMessage) -> Iterator[DigestEntry]:
    """Yield the entries of a message."""
    text = message.content[: READ if message.role in _SPOKEN else READ_OF_TOOL]
    if "```" in text:
        text = _FENCED.sub(" ", text)
    found = _SENTENCES.find((digest_text(text), message.role), lambda: _find_sentences(message.role, text))
    for kind, begin, end in found:
        yield DigestEntry(kind, _cut_text(_trim_sentence(text[begin:end])), message.turn, message.seq, message.version)


def _find_sentences(role: str, text: str) -> Sequence[tuple[DigestKind, int, int]]:
    """Return the first sentences of a text that say something: what each does, where it begins and ends."""
    own = (match for match in _SENTENCE.finditer(text) if _IS_QUOTED.fullmatch(match.group()) is None)
    sentences = ((match, _trim_sentence(match.group())) for match in own)
    kinds = ((match, _choose_kind(role, told)) for match, told in sentences if len(told) >= SHORTEST)
    found = ((kind, *match.span()) for match, kind in kinds if kind is not None)
    return tuple(islice(found, MOST_OF_MESSAGE))


def _trim_sentence(sentence: str) -> str:
    return " ".join(sentence.split()).strip(_MARKS)


def _choose_kind(role: str, sentence: str) -> DigestKind | None:
    if role not in _SPOKEN:
        return DigestKind.NAMED if _PATTERN.file.search(sentence) else None
    if _PATTERN.open.search(sentence):
        return DigestKind.OPEN
    if sentence.endswith(_QUESTION_ENDS):
        return DigestKind.ASKED if role == "user" else None
    if _PATTERN.decided.search(sentence):
        return DigestKind.DECIDED
    if role == "user" and (_PATTERN.request.match(sentence) or _PATTERN.stated.search(sentence)):
        return DigestKind.ASKED if _PATTERN.request.match(sentence) else DigestKind.STATED
    return DigestKind.NAMED if _names_something(sentence) else None


def _names_something(sentence: str) -> bool:
    return bool(_PATTERN.file.search(sentence) or _PATTERN.number.search(sentence) or _PATTERN.name.search(sentence))


def _cut_text(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "\u2026"
