"""Tells a transcript of people from logs, settings and documents, whose lines look like `Name: text` as well. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

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
#: A part of a program (`Thread-1`, `worker`, `Pod 7`). A name with letters before it, such as `Coworker`, is a person.
_MACHINE = re.compile(
    r".*[^\W\d_][-_#]\d+|(?:\S*[^\w\s])?(?:thread|worker|process|executor|consumer|producer)[ #]?\d*"
    r"|\S*(?:thread|worker|process|executor|consumer|producer)[ #]?\d+|(?:task|job|node|pod|pool"
    r"|shard|replica|rank|gpu|cpu|core|container|instance|partition|queue|slot|stage|step|test|build|run|epoch|batch"
    r"|line|row|page|item|day|week|chapter|level|phase|part|round|pid|tid)[ #]?\d+",
    re.IGNORECASE,
)
#: An unnamed speaker, as transcription programs number them (`Speaker 1`, `SPEAKER_00`).
_NUMBERED = re.compile(
    r"(?:speaker|person|participant|guest|voice|interviewer|interviewee|respondent|student|player|user|customer"
    r"|caller|sprecher(?:in)?|teilnehmer(?:in)?|gast|stimme|befragter?|locuteur|hablante|persona)[ _-]?"
    r"(?:\d{1,3}|[A-Z])",
    re.IGNORECASE,
)
#: How a name begins: with a letter or a sign that is no mark of a list, a quotation or a heading.
_BEGINNING = re.compile(r"(?=.*[^\W\d_])[^>#*|~+=<\-\d\s]")
#: A small word behind another one, that is no part of a name ("van", "de"), or a sign that no name has.
_PHRASE = re.compile(
    r"^\S+ (?:.* )?(?!(?:van|von|de|der|den|del|della|di|da|dos|du|la|le|el|al|bin|ibn|ben|zu|zum|zur|und|and|y|e|af|av"
    r"|the|of|vom|ter|ten)\b)[a-z]|[+=/\\]",
)
#: Lines of people for each line with another label that a transcript may hold.
_OTHERS = 4
#: Signs of settings and lists: a key without a value, a dash, a document's mark, an indented key.
_SETTINGS = re.compile(r"\s*[\w.\"'-]+:\s*(?:[|>][+-]?)?|\s*-\s.*|---|\.\.\.|\s+[\w.\"'-]+:\s.*")
#: What stands behind a name in brackets: `(CEO)`, `(she/her)`.
_ADDITION = re.compile(r"\s+\([^()]{1,40}\)$")
#: Names of assistants of several words or with a version, in lower case.
_MODEL = re.compile(
    r"(?:(?:github|microsoft|ms) )?copilot|(?:ai|virtual|voice|google|coding) assistant|(?:chat)?gpt[- ]?[\w.]{1,12}"
    r"|(?:claude|gemini)(?: (?:code|pro|flash|opus|sonnet|haiku|ai|\d[\w.]*)){1,3}"
)
_WORD = re.compile(r"[^\W\d_][\w'\u2019.\-]*")
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
    if any(_SETTINGS.fullmatch(line.rstrip()) for line in said):
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
    bare = {label: _ADDITION.sub("", label.removeprefix("@")) or label for label in labels}
    additions = Counter(name for label, name in bare.items() if label.removeprefix("@") != name)
    return {label: label if additions[name] > 1 else name for label, name in bare.items()}


def tell_role(name: str) -> str:
    """Return the role of a speaker, by a name that says it: `Claude (AI)` and `GPT-4o` are the assistant."""
    low = _ADDITION.sub("", name.lower().removeprefix("@"))
    return "assistant" if _MODEL.fullmatch(low) else ROLE_NAMES.get(low, "user")


def select_speakers(names: Iterable[str]) -> set[str]:
    """Return the names of a transcript's speakers, out of all labels of its lines.

    A sentence with a colon in it begins like a name ("We agreed: nothing"): it stands there once.
    """
    counted = Counter(name for name in names if may_speak(name))
    return {name for name, count in counted.items() if count > 1 or not _PHRASE.search(_ADDITION.sub("", name))}


def may_speak(name: str) -> bool:
    """Return whether a transcript may have a speaker of this name: no label of a remark, a field or a machine."""
    own = name.lower()
    if own in ROLE_NAMES or own in _MAY_SPEAK or _NUMBERED.fullmatch(name):
        return True
    if _is_remark(name) or own in _FIELDS or _MACHINE.fullmatch(name) or not _BEGINNING.match(name):
        return False
    return not name.endswith(("Error", "Exception", "Warning"))


def _is_remark(name: str) -> bool:
    return name.lower().rstrip("0123456789 #") in _REMARKS


def _is_name(name: str) -> bool:
    """Return whether a person or a role may have this name: each word begins with a letter, the first not small."""
    if name.lower() in ROLE_NAMES or _NUMBERED.fullmatch(name):
        return True
    if not may_speak(name):
        return False
    name = _ADDITION.sub("", name)
    words = name.removeprefix("@").split()
    if not 0 < len(words) <= _WORDS or name.lower() in _FIELDS or words[0].lower() in _FIELDS:
        return False
    if name.startswith("@"):
        return len(words) == 1
    return not words[0][0].islower() and all(map(_is_word_of_name, words))


def _is_word_of_name(word: str) -> bool:
    word = word.strip("(),")
    if not _WORD.fullmatch(word) or word.endswith(("Error", "Exception", "Warning")):
        return False
    # An identifier: dotted, with an underscore, or with capitals within that no name has (McDonald, O'Brien).
    inner = word.rstrip(".")
    return "_" not in word and "." not in inner and not re.search(r"[a-z][A-Z].*[a-z][A-Z]", inner)
