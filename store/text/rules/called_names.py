"""Extracts names from address ("Hey Kate!") and introduction ("I'm Kate").

A message's index terms hold both as marks beside its words: `to:kate`, `me:kate`. No word has a colon, so no question
finds them by itself. Whom a name means is decided when it is asked for (`store/derived/called_names.py`).
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from store.text.rules.canonical import canonical_name
from store.text.rules.gazetteer import word_list
from store.text.rules.introductions import find_introductions
from store.text.rules.tokens import tokenize_text
from store.text.rules.vocabulary import is_given_name, is_word
from store.text.terms import split_words

#: How the marks of a message begin: it addresses a person by this name, or its speaker has this name.
ADDRESSED, OWN = "to:", "me:"
#: Characters of a message that are read, and names of each kind that are kept.
MOST_CHARACTERS, MOST_NAMES = 4096, 8
#: Fewest and most letters of a name.
_SHORTEST, _LONGEST = 2, 24
#: Characters of a question that are read for names, and names that are looked up.
ASKED_CHARACTERS, MOST_ASKED = 1024, 6

_NAME = r"(?P<name>[^\W\d_a-z][^\W\d_]{0,31}+)(?![\w'\u2019-])"
_ENDS = r"(?=\s{0,3}+(?:$|[^\w\s'\u2019&]))"
_SENTENCE = re.compile(r"(?:^|[.!?\n\u2026][)\"\u201d]?[ \n]?)([^\W\d_]+)")


def _any_of(section: str) -> str:
    return "|".join(re.escape(word) for word in sorted(word_list("called", section), key=len, reverse=True))


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(" ", r"[ \t\u00a0]{1,3}+"))


_FIRST = frozenset({"good", "guten", "buenos", "bom"})
_GREETS, _EXCLAIMS = word_list("called", "greets") | _FIRST, word_list("called", "exclaims")
_OPENS = _GREETS | _EXCLAIMS
# The look-ahead keeps "Thanks Very Kate" from giving "Very" back as the name.
_AFTER = rf"(?i:(?: (?:{_any_of('after')})\b){{0,3}}(?! (?:{_any_of('after')})\b))"
# "Hey Kate how are you", "Thanks so much, Kate!": a greeting needs no mark behind the name, an exclamation does.
_GREETED = _compile_pattern(
    rf"(?i:(?:(?:{'|'.join(sorted(_FIRST))}) )?(?:{_any_of('greets')})){_AFTER}(?:, |,| )"
    rf"{_NAME}(?:{_ENDS}|(?= [^\W\d_A-Z]))"
)
_EXCLAIMED = _compile_pattern(rf"(?i:{_any_of('exclaims')}){_AFTER},(?: )?{_NAME}{_ENDS}")


def find_addressed(text: str) -> list[str]:
    """Return the folded names by which a message addresses others, each once, in order, without ordinary words."""
    read = text[:MOST_CHARACTERS]
    found = [
        address["name"]
        for match in _SENTENCE.finditer(read)
        if (word := match[1].lower()) in _OPENS and (address := _match_address(read, word, match.start(1))) is not None
    ]
    return _keep_distinct(_fold_name(name) for name in found if _may_be_name(name)) if found else []


def _match_address(text: str, word: str, start: int) -> re.Match[str] | None:
    """Match an address by name in the sentence that begins with this word, in lower case."""
    greeted = _GREETED.match(text, start) if word in _GREETS else None
    return _EXCLAIMED.match(text, start) if greeted is None and word in _EXCLAIMS else greeted


def find_own_names(text: str) -> list[str]:
    """Return the folded first names by which a speaker introduces themselves."""
    read = text[:MOST_CHARACTERS]
    names = (canonical_name(read[one.start : one.end]) for one in find_introductions(read))
    return _keep_distinct(_fold_name(name.partition(" ")[0]) for name in names)


def mark_names(text: str) -> list[str]:
    """Return the marks of a message's names, each once."""
    return [f"{ADDRESSED}{one}" for one in find_addressed(text)] + [f"{OWN}{one}" for one in find_own_names(text)]


def find_asked_names(text: str) -> list[str]:
    """Return the folded words of a question that may be a person's name; an ordinary word needs a capital."""
    found = (
        _fold_name(token.bare)
        for token in tokenize_text(text[:ASKED_CHARACTERS])
        if (token.capital and is_given_name(token.low)) or not is_word(token.low)
    )
    return list(islice(dict.fromkeys(name for name in found if name), MOST_ASKED))


def _may_be_name(name: str) -> bool:
    low = name.lower()
    return name[0].isupper() and (is_given_name(low) or not is_word(low))


def _fold_name(name: str) -> str:
    """Return a name folded for comparison with questions; empty unless it is one word of a name's length."""
    words = split_words(name) if name.isalpha() and _SHORTEST <= len(name) <= _LONGEST else ()
    return words[0] if len(words) == 1 and len(words[0]) >= _SHORTEST else ""


def _keep_distinct(names: Iterable[str]) -> list[str]:
    kept: Iterator[str] = (name for name in dict.fromkeys(names) if name)
    return list(islice(kept, MOST_NAMES))
