"""Finds what a message takes back: "I live in Rome. Just kidding.", "I like opera. Not really." Pure.

A joke or a withdrawal takes back what stands before it: in its sentence, else the sentence before. A joke with nothing
before it reaches to the end of its sentence ("Just kidding, I live in Rome"), unless what follows is said to be so
("Just kidding, actually I live in Rome"). At the beginning of a message they take back the message before
(`endings.py`). A denial ("Not really") needs something before it: at the beginning it answers a question.
"""

import re
from bisect import bisect_left

from store.text.rules.repeated import find_repeated

_AM = r"(?:i['\u2019]m|i am|im|i was|we['\u2019]re|we are|we were)"
_THAT = r"(?:it|that|this)"
_IS = r"(?:['\u2019]s| is| was)"
_JOKES = (
    rf"(?:{_AM} )?(?:(?:just|only|totally|obviously|clearly|merely) ){{0,2}}(?:kidding|joking|teasing|trolling"
    r"|messing with (?:you|ya|u)|pulling your leg|winding you up|having you on)(?: around)?(?: you)?"
    rf"|jk|j/k|i kid|sike|april fools?|i (?:just )?made (?:{_THAT}|all of {_THAT}) up|i lied"
    rf"|(?:that{_IS}|it was) (?:just |only )?(?:a |my )?(?:\w{{1,12}} )?(?:joke|prank|lie)"
    r"|(?:das )?(?:war |ist )?(?:doch )?(?:nur |blo(?:\u00df|ss) )?(?:ein )?(?:kleiner )?"
    r"(?:spa(?:\u00df|ss)|scherz|witz)"
    r"|je (?:plaisante|rigole|blague|d\u00e9conne)|c['\u2019]est une blague|(?:es|era)(?: una)? broma|estoy bromeando"
    r"|(?:sto )?scherz(?:o|avo|ando)|(?:\u00e9 |era )?brincadeira|(?:estou|t\u00f4) brincando|grapje|geintje"
)
_WITHDRAWALS = rf"(?:scratch|strike|ignore) that|i take {_THAT} back|forget (?:that|what i (?:just )?said)"
_DENIALS = (
    rf"not(?: really| true| at all)?|or not|as if|yeah,? right|{_THAT}(?:{_IS} not|(?: is|was)n['\u2019]t) true"
    rf"|{_THAT}{_IS} (?:false|untrue|nonsense)|nicht wirklich|(?:das )?stimmt (?:gar )?nicht|pas vraiment|no es cierto"
)
#: Laughter and small words in front of these phrases, and what may stand behind them.
_LEAD = (
    r"(?:(?:(?:ha){1,8}h?|(?:he){2,8}|lol|lmao|rofl|xd|ok(?:ay)?|oh|well|wait|sorry|but|and|nah|no(?=[,.!])|:-?[)dp])"
    r"[ \t,.!\u2026:-]{1,4}){0,4}"
)
_TAIL = (
    r"(?: (?:there|though|sorry|of course|obviously|lol|(?:ha){2,8}|man|guys|mate|everyone|again"
    r"|about (?:that|it|this|the last (?:part|bit|one)))){0,3}"
)
_END = r"(?=[ \t]{0,3}(?:[^\w\s]|\n|\Z))"
_SAID = rf"(?:(?P<joke>{_JOKES})|(?P<withdrawal>{_WITHDRAWALS})|(?P<denial>{_DENIALS})){_TAIL}{_END}"
_TAKEN_BACK = re.compile(
    rf"(?:\A|[.!?\n,;:(\u2013\u2014\u2026]|(?<=[ \t])-)[^\w\n]{{0,6}}(?P<said>{_LEAD}{_SAID})", re.IGNORECASE
)
#: Behind any word at the end of a sentence; and before any at the beginning of a message.
_AT_END = re.compile(
    r"(?<!not )(?<!n['\u2019]t )(?<=[ \t])(?P<said>(?P<joke>jk|j/k|(?:just|only) (?:kidding|joking)))"
    r"(?=[ \t]{0,3}(?:(?:lol|(?:ha){2,8})[ \t]{0,3})?(?:[.!\n)\u2026]|\Z))",
    re.IGNORECASE,
)
_AT_BEGINNING = re.compile(
    rf"\A\W{{0,6}}(?P<said>{_LEAD}(?P<joke>jk|j/k|(?:just|only) (?:kidding|joking)))(?=[ \t]+(?:i|my|we|our)\b)",
    re.IGNORECASE,
)
_SIGNS = re.compile(
    r"kidding|joking|messing|teasing|trolling|pulling your leg|winding you up|having you on|\bjk\b|j/k|\bi kid\b"
    r"|\bsike\b|april fool|joke|prank|\blie\b|\blied\b|made|scratch|strike|ignore|take|forget|\bnot\b|n['\u2019]t true"
    r"|as if|right|false|untrue|nonsense|spa\u00df|spass|scherz|witz|nicht|plaisante|rigole|blague|d\u00e9conne|broma"
    r"|vraiment|cierto|brinca|grapje|geintje",
    re.IGNORECASE,
)
#: What says that the words beside a joke are none.
_MEANT = re.compile(
    r"^\W*but\b|\b(?:actually|really|seriously|honestly|in fact|in reality|in truth|truth is|to be honest|for real)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<!\bSt)(?<!\bDr)(?<!\bMr)(?<!\bMrs)(?<!\bMt)[.!?\u2026]+(?=\s|\Z)|[\n\r\0]+")
_WORD = re.compile(r"\w")


def find_unstated(text: str, author: str | None) -> list[tuple[int, int]]:
    """Return the spans of what a message only repeats, or takes back."""
    return [*find_repeated(text, author), *find_taken_back(text)]


def find_taken_back(text: str) -> list[tuple[int, int]]:
    """Return the spans of what a message takes back of itself, with the words that do. Linear in the text."""
    if not _SIGNS.search(text):
        return []
    found = [one for pattern in (_TAKEN_BACK, _AT_END, _AT_BEGINNING) for one in pattern.finditer(text)]
    ends = [one.span() for one in _SENTENCE_END.finditer(text)] if found else []
    return [span for one in found if (span := _find_span(text, one, ends)) is not None]


def takes_back_message_before(text: str) -> tuple[int, int] | None:
    """Return the span of the joke or withdrawal that a message begins with, which is about the message before."""
    found = _TAKEN_BACK.match(text) or _AT_BEGINNING.match(text)
    is_one = found is not None and (found["joke"] or found.groupdict().get("withdrawal"))
    return found.span("said") if found and is_one else None


def _find_span(text: str, found: re.Match[str], ends: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Return what a phrase takes back, with the phrase; None where it takes back nothing of this text."""
    start, end = found.span("said")
    after = bisect_left(ends, (start, 0))
    for before in range(after, max(-1, after - 3), -1):
        begin = ends[before - 1][1] if before else 0
        if _WORD.search(text, begin, start):
            return begin, end
    if not found["joke"]:
        return None
    stop = ends[after][0] if after < len(ends) else len(text)
    return None if _MEANT.search(text[end:stop]) else (start, stop)
