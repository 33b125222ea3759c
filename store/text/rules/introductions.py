"""Finds names by which speakers introduce themselves: "I'm Kate.", "Ich heisse Petra.", "Call me Tess."."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from store.text.rules.addresses import mask_spans
from store.text.rules.gazetteer import word_list
from store.text.rules.retractions import find_unstated
from store.text.rules.statements import is_stated
from store.text.rules.vocabulary import (
    everyday_words,
    is_family_name,
    is_given_name,
    is_word,
    known_places,
    known_things,
)

#: Characters behind an opening in which a name stands.
_LONGEST = 64
_SPACE = r"[ \t\u00a0]{1,3}"
_GAP = r"(?:-|[ \t\u00a0]{1,3})"


def _compile_phrases(section: str) -> re.Pattern[str]:
    rests = defaultdict[str, list[str]](list)
    for one in sorted(word_list("called", section), key=len, reverse=True):
        rests[one[0]].append(re.escape(one[1:]))
    # Grouped by their first letters, of which a word has one: 32 -> 15 us for a message.
    phrases = "|".join(f"{first}(?:{'|'.join(found)})" for first, found in rests.items())
    for written, read in ((r"\-", _GAP), ("'", "['\u2019]"), ("ss", "(?:ss|\u00df)")):
        phrases = phrases.replace(written, read)
    adverbs = "actually|really|now|also|just|einfach|eigentlich|jetzt|nun|simplement|maintenant|ahora|adesso"
    between = rf"(?:(?:{adverbs}){_SPACE})?"
    return re.compile(rf"(?<![\w'\u2019])(?:{phrases}){_SPACE}{between}(?=[^\W\d_])", re.IGNORECASE)


_NAMED, _INTRODUCED = _compile_phrases("named"), _compile_phrases("introduced")
_PARTICLE = r"(?:van|von|de|da|di|del|della|der|den|ten|ter|la|le|el|al|bin|ibn|dos|das|zu|y)"
_NAME = re.compile(
    rf"(?:(?:Dr|Prof|Professor|Doctor|Mr|Mrs|Ms)\.?{_SPACE})?"
    r"[^\W\d_](?:[^\W\d_]|['\u2019-](?=[^\W\d_])){0,31}"
    rf"(?:{_SPACE}(?:{_PARTICLE}{_SPACE}){{0,2}}[^\W\d_a-z](?:[^\W\d_]|['\u2019-](?=[^\W\d_])){{0,31}}"
    rf"|{_SPACE}[A-Z]\.(?={_SPACE}[A-Z])){{0,3}}"
)
_CALLS = re.compile(r"call|nenn|appel|chiam|llam|dicen|noem", re.IGNORECASE)
_ENDS = re.compile(r"\s*(?:$|[.!,;:)\u2013\u2014\u2026\n\r\0-]|[^\w\s'\u2019?])")
_GREETED = re.compile(
    r"(?:^|[.!?,\n]\s*|\b)(?:hi|hello|hey|hallo|hoi|servus|moin|good \w{2,9}|greetings|bonjour|salut|hola|ciao"
    r"|ol\u00e1|oi|guten \w{2,9}"
    r"|gr\u00fc\u00df \w{2,6}|buenos \w{2,5}|buenas \w{2,6}|buongiorno|dag)(?: (?:there|all|everyone|everybody|alle"
    r"|zusammen|a todos|\u00e0 tous|tutti))?\s*[,.!:\u2013\u2014-]*\s*$",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"(?:\bnot|n['\u2019]t|\bnever|\bnicht|\bne|\bno|\bnon|\bniet|\bn\u00e3o|\bstop)\s*$", re.IGNORECASE
)
_HERE = (
    r" (?i:here|speaking|hier|am apparat|\u00e0 l['\u2019]appareil)(?=\s*[.,!;:]|\s*$| (?i:from|again|with|at|and)\b)"
)
_ALONE = re.compile(
    r"(?i:this is|it['\u2019]s|it is|hier ist|hier spricht|ici)?\s{0,3}(?P<name>[^\W\d_a-z][^\W\d_]{1,31})" + _HERE
)
# "Du kannst mich Steffi nennen.", "Hallo, hier ist Steffi."
_NAMED_LAST = re.compile(
    r"(?:(?P<called>(?i:\b(?:du (?:kannst|darfst)|ihr (?:k\u00f6nnt|d\u00fcrft)|sie (?:k\u00f6nnen|d\u00fcrfen)) mich"
    r" (?:gerne? |einfach )?))"
    r"|\A\W{0,3}(?i:(?:hallo|hi|hey|moin|servus|guten \w{2,6})(?: \w{2,8})?[\s,.!-]{1,3}hier (?:ist|spricht)) )"
    r"(?P<name>[^\W\d_a-z][^\W\d_]{1,31})(?(called)(?= nennen\b)|(?=\s*[.,!:\n]|\s*$))"
)
#: Few messages have the words behind the name: 33 -> 2 us for one without.
_SAYS_HERE = re.compile(_HERE)
# At the beginning, perhaps behind a greeting: "Name's Imogen.", "hi, this is Lewis", "It's Olivia again".
_FIRST_WORDS = re.compile(
    r"\A\W{0,3}(?i:(?:hi|hiya|hello|hey|heya|yo|good (?:morning|afternoon|evening))(?: (?:there|all|everyone|team"
    r"|again))?[\s,.!\u2013-]{1,4}"
    r"(?:this is|it['\u2019]?s|name['\u2019]?s|name is)|names|name['\u2019]s|name is) (?=[^\W\d_])"
    r"|\A\W{0,3}(?i:this is|it['\u2019]s) (?=[^\W\d_a-z][^\W\d_]{1,31}(?: again\b|, (?i:i|we) ))"
)
# "Everyone calls me Kit", "you can call me Pedro": the clause begins before the opening.
_CALLERS = re.compile(
    r"(?:\b(?:everyone|everybody|people|they|you|we|friends?|family|colleagues|kids|alle|todos|tout le monde"
    r"|my \w{1,20}|most people"
    r"|can|may|could|should|might|feel free to|just|please|usually|always|also|to|do|mostly) ?){1,5}$",
    re.IGNORECASE,
)


_OF_PLACE = re.compile(rf"{_SPACE}(?:de|von|van|da|di|del)(?:{_SPACE}(?:la|der|den))?{_SPACE}(\S+)$")
_TITLES = frozenset({"dr", "prof", "professor", "doctor", "mr", "mrs", "ms"})


class Introduction(NamedTuple):
    """A name that a speaker gives themselves, `start` to `end` in the text, and where its clause begins."""

    clause: int
    start: int
    end: int


def find_introductions(text: str, author: str | None = None) -> list[Introduction]:
    """Return the names by which the author of a text introduces themselves, in the order of the text.

    Not where the introduction is quoted, denied, supposed, asked or another's. Takes time in proportion to the text.
    """
    if next(_find_all(text), None) is None:
        return []
    own = mask_spans(text, find_unstated(text, author))
    found = {one.start: one for one in _find_all(own) if _is_own(own, one)}
    return [found[start] for start in sorted(found)]


def _find_all(text: str) -> Iterator[Introduction]:
    """Yield the names behind openings, for every speaker."""
    for match in _NAMED.finditer(text):
        if end := _end_of_name(text, match.end(), sure=True):
            yield Introduction(match.start(), match.end(), end)
    for match in _INTRODUCED.finditer(text):
        greeted = _GREETED.search(text[max(0, match.start() - 48) : match.start()]) is not None
        if end := _end_of_name(text, match.end(), sure=False, greeted=greeted):
            yield Introduction(match.start(), match.end(), end)
    for match in _FIRST_WORDS.finditer(text):
        if end := _end_of_name(text, match.end(), sure=False, greeted=True):
            yield Introduction(match.start(), match.end(), end)
    yield from _find_before(text)


def _find_before(text: str) -> Iterator[Introduction]:
    """Yield the names whose phrase ends behind them: "Kate here", "Du kannst mich Petra nennen"."""
    for match in _NAMED_LAST.finditer(text) if " nennen" in text or "hier " in text else ():
        if is_given_name(match["name"].lower()):
            yield Introduction(match.start(), *match.span("name"))
    for match in _ALONE.finditer(text) if _SAYS_HERE.search(text) else ():
        low = match["name"].lower()
        before = text[max(0, match.start() - 48) : match.start()]
        opens = not before[-3:].strip(" .!,\n") or _GREETED.search(before) is not None
        if opens and match["name"][0].isupper() and is_given_name(low) and not is_word(low):
            yield Introduction(match.start(), *match.span("name"))


def _is_own(text: str, one: Introduction) -> bool:
    """Return whether the author states an introduction of themselves."""
    clause, start, end = one
    before = text[max(0, clause - 48) : clause]
    callers = _CALLERS.search(before) if _CALLS.search(text[clause:start]) else None
    clause -= len(callers.group()) if callers else 0
    if _NEGATED.search(text[max(0, clause - 12) : clause]):
        return False
    return is_stated(text, clause, start, end)


def _end_of_name(text: str, start: int, *, sure: bool, greeted: bool = False) -> int:
    """Return where the name that begins at `start` ends, 0 where there is none."""
    match = _NAME.match(text, start, start + _LONGEST)
    if match is None:
        return 0
    name = _cut_place(match.group())
    words = name.lower().split()
    after = text[start + len(name) : start + len(name) + 16]
    if after[:1] in {"'", "\u2019"} or words[0] in word_list("called", "never") or name.endswith(("'s", "\u2019s")):
        return 0
    next_word = next(iter(after.split(maxsplit=1)), "").lower().rstrip(",.!")
    follows = _ENDS.match(after) is not None or next_word in word_list("called", "follows")
    if sure:
        fits = _may_be_given(name, words, follows=follows)
    else:
        fits = follows and _is_introduced(name, words, greeted=greeted)
    return start + len(name) if fits else 0


def _cut_place(name: str) -> str:
    """Return a name without the place behind it: "Paula" of "Paula de Madrid"."""
    match = _OF_PLACE.search(name)
    return name[: match.start()] if match and match[1].lower() in known_places() else name


def _may_be_given(name: str, words: list[str], *, follows: bool) -> bool:
    """Return whether the words behind "my name is" or "call me" may be a name."""
    first = words[0]
    if not name[0].isupper():
        return follows and is_given_name(first) and not is_word(first)
    return first.rstrip(".") in _TITLES or is_given_name(first) or not is_word(first)


def _is_introduced(name: str, words: list[str], *, greeted: bool) -> bool:
    """Return whether the words behind "I'm" are a name: a known given name or, in a greeting, any that is no word."""
    first, *others = words
    if first.rstrip(".") in _TITLES:
        return bool(others) and name.rsplit(maxsplit=1)[-1][0].isupper()
    if not is_given_name(first):
        told = greeted and name[0].isupper() and not first.endswith(_DEMONYMS)
        return told and not is_word(first) and " ".join(words) not in known_things()
    if others:
        return name[0].isupper() and (not is_word(first) or not is_word(words[-1]) or is_family_name(words[-1]))
    if first in word_list("called", "said"):
        return False
    if not name[0].isupper():
        return len(first) >= len("kate") and not is_word(first) and first not in known_places()
    return greeted or first not in everyday_words()


_DEMONYMS = ("ian", "ean", "ese", "ish", "isch", "ano", "ana", "ense", "ais", "aise", "ien", "ienne")
