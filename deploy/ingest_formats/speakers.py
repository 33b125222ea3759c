"""Tells a transcript of people from logs, settings and documents, whose lines look like `Name: text` as well. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from store.text.pattern_tables import Patterns

_PATTERN = Patterns(Path(__file__).parent / "data" / "speakers.toml")

NAMED = re.compile(r'(?P<name>[^\s:{}\[\]"][^:{}\[\]"]{0,127}):\s+(?P<text>\S.*)')
#: Names that say which role speaks, in lower case.
ROLE_NAMES = {
    **dict.fromkeys(("assistant", "ai", "agent", "bot", "chatgpt", "claude", "gemini", "copilot"), "assistant"),
    "system": "system",
    **dict.fromkeys(("user", "human", "me", "you", "customer", "client", "caller", "interviewer", "speaker"), "user"),
}
#: Names of fields in logs, mail, settings and documents, which no person has.
_FIELDS = frozenset(
    """
    debug info information notice warn warning error err fatal critical trace severe exception traceback caused
    from to cc bcc subject date sent received reply-to message-id in-reply-to references return-path
    mime-version host accept accept-encoding accept-language user-agent content-type content-length
    content-encoding cookie server connection cache-control location authorization etag via origin referer
    date-modified last-modified name names title description summary version type kind status state id key value
    url uri path file folder author authors email phone address license maintainer package source section
    priority architecture depends requires resources parameters outputs properties metadata spec image images
    ports volumes environment services command time timestamp start end begin duration level message msg note
    notes todo fixme hint tip example examples usage default returns raises args arguments options output input
    result results step question answer q a problem solution cause reason action category tags tag topic
    transcript recording attachment attachments link links re aw wg fwd score translation sfx sound music lyrics poll
    attendees participants agenda decision decisions minutes apologies owner assignee reporter deadline objective
    requirements expected actual birthday mobile fax brand model colour born died occupation nationality
    betreff gesendet objet envoyé asunto enviado oggetto inviato onderwerp verzonden ämne emne skickat assunto temat
    teilnehmer tagesordnung zutaten zubereitung portionen dauer тема
    keywords abstract conclusion introduction ingredients directions total price amount quantity size color
    weight height width length number count page chapter figure table section language country city street zip
    commit merge signed-off-by co-authored-by change-id fixes closes see
    """.split()  # noqa: SIM905 - a list of them would have a line for each
)
#: Labels of remarks in a transcript, in lower case; they are no speakers.
_REMARKS = frozenset(
    """
    note notes nb n.b. ps p.s. pps p.p.s. update edit todo to-do fixme reminder important attention caution warning
    hint tip info fyi tl;dr tldr summary disclaimer correction addendum spoiler
    hinweis notiz anmerkung achtung wichtig nachtrag zusammenfassung warnung merke erinnerung korrektur
    nota importante remarque aviso atención attenzione opmerking
    """.split()  # noqa: SIM905 - a list of them would have a line for each
)
#: Names of fields that are speakers in a file that the caller declares to be a transcript.
_MAY_SPEAK = frozenset(
    ("host", "author", "authors", "owner", "reporter", "assignee", "server", "q", "a", "question", "answer")
)
#: Lines of people for each line with another label that a transcript may hold.
_OTHERS = 4
#: Of this many named lines on, one name must occur again, and of this many most of them.
_FEW, _MANY = 4, 6
#: The most words of a name ("Dr. Maria van den Berg").
_WORDS = 6


def is_transcript(lines: Sequence[str]) -> bool:
    """Return whether these lines, the first of a file, are what people said to each other, each with a name before it.

    At least half must be `Name: text` with names as people or roles have them, and few with others; names come again in
    a longer text, since a list of fields has each of them once.
    """
    said = [line for line in lines if line.strip()]
    if any(_PATTERN.settings.fullmatch(line.rstrip()) for line in said):
        return False
    names = [found["name"].strip() for line in said if (found := NAMED.fullmatch(line.strip()))]
    names = [name for name in names if not _is_remark(name)]
    people = select_speakers(name for name in names if _is_name(name))
    spoken = [name for name in names if name in people]
    others = len(names) - len(spoken)
    if not spoken or 2 * len(spoken) < len(said) or (others and others > len(spoken) // _OTHERS):
        return False
    most = len(spoken) if len(spoken) < _FEW else len(spoken) - 1 if len(spoken) < _MANY else len(spoken) // 2
    return len(set(spoken)) <= (min(most, len(spoken) - 1) if others else most)


def name_speakers(labels: Iterable[str]) -> dict[str, str]:
    """Return the own names of speakers by their labels: `@Kim` and `Kim (CEO)` are Kim.

    Two additions to one name are two people, who keep their labels (`Kim (CEO)`, `Kim (CTO)`).
    """
    bare = {label: _PATTERN.addition.sub("", label.removeprefix("@")) or label for label in labels}
    additions = Counter(name for label, name in bare.items() if label.removeprefix("@") != name)
    return {label: label if additions[name] > 1 else name for label, name in bare.items()}


def tell_role(name: str) -> str:
    """Return the role of a speaker, by a name that says it: `Claude (AI)` and `GPT-4o` are the assistant."""
    low = _PATTERN.addition.sub("", name.lower().removeprefix("@"))
    return "assistant" if _PATTERN.model.fullmatch(low) else ROLE_NAMES.get(low, "user")


def select_speakers(names: Iterable[str]) -> set[str]:
    """Return the names of a transcript's speakers, out of all labels of its lines.

    A sentence with a colon in it begins like a name ("We agreed: nothing"): it stands there once.
    """
    counted = Counter(name for name in names if may_speak(name))
    return {
        name
        for name, count in counted.items()
        if count > 1 or not _PATTERN.phrase.search(_PATTERN.addition.sub("", name))
    }


def may_speak(name: str) -> bool:
    """Return whether a transcript may have a speaker of this name: no label of a remark, a field or a machine."""
    own = name.lower()
    if own in ROLE_NAMES or own in _MAY_SPEAK or _PATTERN.numbered.fullmatch(name):
        return True
    if _is_remark(name) or own in _FIELDS or _PATTERN.machine.fullmatch(name) or not _PATTERN.beginning.match(name):
        return False
    return not name.endswith(("Error", "Exception", "Warning"))


def _is_remark(name: str) -> bool:
    return name.lower().rstrip("0123456789 #") in _REMARKS


def _is_name(name: str) -> bool:
    """Return whether a person or a role may have this name: each word begins with a letter, the first not small."""
    if name.lower() in ROLE_NAMES or _PATTERN.numbered.fullmatch(name):
        return True
    if not may_speak(name):
        return False
    name = _PATTERN.addition.sub("", name)
    words = name.removeprefix("@").split()
    if not 0 < len(words) <= _WORDS or name.lower() in _FIELDS or words[0].lower() in _FIELDS:
        return False
    if name.startswith("@"):
        return len(words) == 1
    return not words[0][0].islower() and all(map(_is_word_of_name, words))


def _is_word_of_name(word: str) -> bool:
    word = word.strip("(),")
    if not _PATTERN.word.fullmatch(word) or word.endswith(("Error", "Exception", "Warning")):
        return False
    # An identifier: dotted, with an underscore, or with capitals within that no name has (McDonald, O'Brien).
    inner = word.rstrip(".")
    return "_" not in word and "." not in inner and not re.search(r"[a-z][A-Z].*[a-z][A-Z]", inner)
