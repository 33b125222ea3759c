"""A question taken apart before anything is searched. Pure rules."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice

from store.recall.languages import LANGUAGES, Language
from store.recall.terms import BIGRAM_PREFIX, analyse, words_of

#: A question's terms beyond so many are not looked up, words before pairs: a pasted document is not a question.
MAX_TERMS = 160

_WORD = re.compile(r"\w+(?:['\u2019]s\b)?")
#: A capitalised word that does not begin a sentence.
_PROPER = re.compile(r"(?<=[^.!?\s]\s)[^\W\d_a-z]\w*")


@dataclass(frozen=True, slots=True)
class Question:
    """A question's words and what kind of answer it wants; `words` and `pairs` are index terms and their counts.

    `proper` are those words that are written like names.
    """

    text: str = field(repr=False)
    words: dict[str, int] = field(repr=False)
    pairs: dict[str, int] = field(repr=False)
    wants_time: bool
    wants_number: bool
    wants_assistant: bool
    proper: frozenset[str] = field(default=frozenset(), repr=False)


def understand(text: str, languages: Iterable[Language] = LANGUAGES) -> Question:
    """Take a question apart; what no language's rules know is simply a bag of words."""
    counts = analyse(text).counts
    words = dict(islice((pair for pair in counts.items() if not pair[0].startswith(BIGRAM_PREFIX)), MAX_TERMS))
    pairs = (pair for pair in counts.items() if pair[0].startswith(BIGRAM_PREFIX))
    lower = text.lower()
    known = tuple(languages)
    return Question(
        text=text,
        words=words,
        pairs=dict(islice(pairs, MAX_TERMS - len(words))),
        wants_time=any(language.asks_time.search(lower) for language in known),
        wants_number=any(language.asks_number.search(lower) for language in known),
        wants_assistant=any(language.asks_assistant.search(lower) for language in known),
        proper=frozenset(term for word in _PROPER.findall(text) for term in analyse(word).counts),
    )


def named(question: Question, speakers: Iterable[str]) -> frozenset[str]:
    """Return those of the speakers whom the question names by at least one word of their name."""
    return frozenset(s for s in speakers if not question.words.keys().isdisjoint(analyse(s).counts))


def without_names(text: str, names: Iterable[str]) -> str:
    """Return a question without the words of these names, for the dense arm alone.

    Nearly every question names a speaker, and the name pulls its vector towards every text that carries it. A
    question that is nothing but names stays as it is.
    """
    words = {word for name in names for word in words_of(name)}
    bare = " ".join(_WORD.sub(lambda match: _unless(match.group(), words), text).split())
    return bare if words_of(bare) else text


def _unless(word: str, words: Collection[str]) -> str:
    bare = words_of(word.removesuffix("'s").removesuffix("\u2019s"))
    return " " if bare and all(part in words for part in bare) else word
