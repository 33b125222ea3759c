"""Finds runs of capitalised words: candidates for names."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from store.text.calendars import load_calendars
from store.text.rules.gazetteer import word_list
from store.text.rules.model import cues
from store.text.rules.tokens import Token
from store.text.rules.vocabulary import (
    everyday_words,
    is_family_name,
    is_given_name,
    is_word,
    known_lengths,
    known_things,
    people_nouns,
)

_LONGEST_RUN = 6
_LONGEST_WORD = 40
_MOST_LINKS = 2
#: Months that are given names, too.
_NAMING_MONTHS = frozenset({"april", "may", "june", "august"})
_PRONOUNS = frozenset({"i", "i'm", "i'll", "i'd", "i've"})
_PARTICLES = frozenset(
    {
        *("de", "la", "le", "van", "von", "der", "den", "del", "della", "da", "dos", "das"),
        *("di", "du", "el", "al", "bin", "ibn", "zu"),
    }
)
_OF = frozenset({"of", "for", "the", "and", "without"})
_OF_HEADS = frozenset(
    cues(
        "lord|isle|republic|kingdom|gulf|bay|house|city|king|queen|statue|duke|tower|sea|strait|cape"
        "|mount|port|county|province|mouth|ministry|order"
    )
)
_AND = " & "
_SPACES = frozenset({" ", "\u00a0", ". ", _AND})
_KNOWN_GAPS = frozenset({" ", "\u00a0", ". ", ".", "&", _AND, ": ", "/"})
_SHORTEST_SHOUTED = 4
_AMID = frozenset({"and", "but", "that", "if", "because", "think", "thinks", "when", "while", "so", "hope", "guess"})
_LEADS = frozenset({"the", "a", "an", "my", "our"})


@dataclass(frozen=True, slots=True)
class NameRun:
    """A run of capitalised words: those from `first` to `last` (exclusive) of a message, all of one name."""

    words: list[Token]
    first: int
    last: int

    @property
    def start(self) -> int:
        """Where the name begins in the text."""
        return self.words[self.first].start

    @property
    def end(self) -> int:
        """Where the name ends in the text, a possessive left out."""
        last = self.words[self.last - 1]
        return last.start + len(last.bare)

    @property
    def parts(self) -> list[Token]:
        """The words of the name."""
        return self.words[self.first : self.last]

    @property
    def lows(self) -> list[str]:
        """The words of the name, in lower case, for look-ups."""
        return [token.low for token in self.parts]

    @property
    def name(self) -> str:
        """The name as one text in lower case, for look-ups."""
        return " ".join(self.lows)

    @property
    def opens(self) -> bool:
        """Whether the name begins a sentence, where a capital proves nothing."""
        return self.words[self.first].opens

    def before(self, steps: int = 1) -> Token | None:
        """Return the word this many steps before the name."""
        place = self.first - steps
        return self.words[place] if place >= 0 else None

    def after(self, steps: int = 1) -> Token | None:
        """Return the word this many steps after the name."""
        place = self.last - 1 + steps
        return self.words[place] if place < len(self.words) else None


@cache
def _never_names() -> frozenset[str]:
    english = load_calendars()["en"]
    return frozenset((*english.weekdays, *(f"{day}s" for day in english.weekdays), *english.full_months)) | _PRONOUNS


def find_runs(found: list[Token]) -> Iterator[NameRun]:
    """Yield the runs of a message's words, each trimmed to what can be a name; none is empty."""
    place = 0
    while place < len(found):
        if not found[place].capital:
            place += 1
            continue
        whole = _known_end(found, place)
        begins = is_nameable(found[place]) or _named_as_month(found, place)
        end = _run_end(found, place) if begins else place
        if whole >= max(end, place + 1):
            yield NameRun(found, place, whole)
        elif end > place and (run := _trim_run(NameRun(found, place, end))):
            yield run
        place = max(end, whole, place + 1)


def _known_end(found: list[Token], first: int) -> int:
    """Return the end of the longest known name of several words that begins here, 0 if there is none."""
    lengths = known_lengths().get(found[first].low)
    if lengths is None:
        return 0
    for length in lengths:
        parts = found[first : first + length]
        whole = len(parts) == length and all(part.gap in _KNOWN_GAPS for part in parts[1:])
        if whole and _is_proper(parts[-1]) and " ".join(part.low for part in parts) in known_things():
            return first + length
    return 0


def _is_proper(token: Token) -> bool:
    return token.capital or token.text[0].isdigit()


def _named_as_month(found: list[Token], place: int) -> bool:
    """Return whether a month's name is a person's here: "Aunt May", "April told me"."""
    token = found[place]
    if token.low not in _NAMING_MONTHS or not token.text.istitle():
        return False
    before = found[place - 1] if place and token.gap == " " else None
    after = found[place + 1] if place + 1 < len(found) and found[place + 1].gap == " " else None
    if before is not None and (
        before.low in word_list("people", "person") or before.low in word_list("people", "title")
    ):
        return True
    if after is None:
        return False
    amid = before is not None and not token.opens and before.low in _AMID and after.low in word_list("people", "modal")
    return amid or after.low in word_list("people", "speaks") or is_family_name(after.low)


def is_nameable(token: Token) -> bool:
    """Return whether a word by itself may stand in a name: a capital, no digits, no shouting, not on the lists."""
    text, low = token.text, token.low
    if not token.capital or len(text) > _LONGEST_WORD:
        return False
    if low in known_things():
        return True
    if len(text) > 1 and token.bare.isupper():
        return len(text) >= _SHORTEST_SHOUTED and is_given_name(low) and not is_word(low)
    return low not in _never_names() and (text.isalpha() or not any(map(str.isdigit, text)))


def _run_end(found: list[Token], first: int) -> int:
    end = first + 1
    while end < len(found) and end - first < _LONGEST_RUN:
        step = _step_length(found, first, end)
        if not step:
            break
        end += step
    return end


def _step_length(found: list[Token], first: int, end: int) -> int:
    """Return how many words from `end` on belong to the name that began at `first`."""
    if end == len(found) or (found[end - 1].possessive and not _is_organisation_word(found[end])):
        return 0
    head = found[first + 1 if found[first].low in _LEADS else first]
    for width, token in enumerate(found[end : end + 1 + _MOST_LINKS], start=1):
        if not _is_closing(token) or (token.gap == _AND and is_given_name(found[end - 1].low)):
            return 0
        if is_nameable(token):
            return width
        if not _is_linking(head, token):
            return 0
    return 0


def _is_organisation_word(token: Token) -> bool:
    low = token.low
    tail = low in word_list("organisation", "tail") or low in word_list("place", "ends")
    return low in word_list("organisation", "any") or (token.capital and tail)


def _is_closing(token: Token) -> bool:
    if token.opens:
        return False
    return token.gap in _SPACES or (token.gap in {"' ", "\u2019 "} and _is_organisation_word(token))


def _is_linking(head: Token, token: Token) -> bool:
    """Return whether a small word may stand inside the name that begins with `head`."""
    if token.low in _PARTICLES:
        return True
    return token.low in _OF and (head.low in _OF_HEADS or head.low in word_list("organisation", "any"))


def _trim_run(run: NameRun) -> NameRun | None:
    """Return the run without words that only a sentence's beginning or an article added to it."""
    first, last = run.first, run.last
    while first < last and _is_leading_word(NameRun(run.words, first, last)):
        first += 1
    while last > first and _is_trailing_word(NameRun(run.words, first, last)):
        last -= 1
    return NameRun(run.words, first, last) if first < last else None


def _is_whole_name(run: NameRun) -> bool:
    """Return whether the run is a name as it stands: listed, titled, or ending like an organisation's."""
    first, last = run.words[run.first].low, run.words[run.last - 1].low
    organised = run.last - run.first > 1 and last in word_list("organisation", "any")
    return organised or first in word_list("people", "title") or run.name in known_things()


def _is_leading_word(run: NameRun) -> bool:
    """Return whether the first word of a run is no part of the name."""
    token = run.words[run.first]
    if token.low not in _may_lead():
        return _is_opener(run)
    if run.name in known_things():
        return token.opens and token.low in everyday_words() and not token.bare.isupper()
    if token.low in _LEADS:
        return True
    if _is_whole_name(run) or token.low in word_list("not_names"):
        return not _is_whole_name(run)
    if token.low in people_nouns():
        return len(run.parts) > 1 or not is_given_name(token.low)
    everyday_word = token.low in everyday_words() and not is_given_name(token.low)
    return everyday_word and (token.opens or len(run.parts) == 1)


def _is_opener(run: NameRun) -> bool:
    """Return whether a sentence only begins with its word, right before a name: "Forward Anna the mail"."""
    first, *rest = run.parts
    if (
        not rest
        or not first.opens
        or is_given_name(first.low)
        or is_family_name(first.low)
        or run.name in known_things()
    ):
        return False
    rest_of_name = NameRun(run.words, run.first + 1, run.last)
    named = (
        is_given_name(rest[0].low) or rest_of_name.name in known_things() or rest[0].low in word_list("people", "title")
    )
    return named and is_word(first.low)


def _is_trailing_word(run: NameRun) -> bool:
    """Return whether the last word of a run is no part of the name."""
    low = run.words[run.last - 1].low
    return (low in _PARTICLES or low in word_list("not_names")) and not _is_whole_name(run)


@cache
def _may_lead() -> frozenset[str]:
    return everyday_words() | word_list("not_names") | _LEADS
