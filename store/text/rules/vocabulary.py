"""Vocabulary of the rules: known names, and common words that are no names even when capitalised."""

from functools import cache, lru_cache

from store.text.rules.gazetteer import name_list, word_list
from store.text.rules.rule import drop_accents

_SHORTEST_STEM = 3
_ENDINGS = (
    *(("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ied", "y")),
    *(("ing", ""), ("ing", "e"), ("ly", ""), ("er", ""), ("er", "e"), ("est", ""), ("ness", ""), ("iness", "y")),
)
# Endings that only ordinary words have, listed or not.
_WORDY = ("ness", "tion", "sion", "ment", "ism", "able", "ible", "less", "ship", "ology", "ically", "ingly", "ously")
_SHORTEST_WORDY = 7
_PLURALS = ("s", "es")


@cache
def known_places() -> frozenset[str]:
    """Return the places of the lists."""
    return _add_plain(name_list("countries", "places", "exonyms"))


@cache
def known_things() -> frozenset[str]:
    """Return every place, organisation and product of the lists."""
    return known_places() | name_list("organisations", "products")


@cache
def known_lengths() -> dict[str, tuple[int, ...]]:
    """Return the lengths in words of the known names of several words, by their first word, the longest first."""
    found: dict[str, set[int]] = {}
    for name in known_things():
        first, *rest = name.split(" ")
        if rest:
            found.setdefault(first, set()).add(1 + len(rest))
    return {first: tuple(sorted(lengths, reverse=True)) for first, lengths in found.items()}


@cache
def people_nouns() -> frozenset[str]:
    """Return nouns for people and animals that stand before a name."""
    return word_list("people", "person") | word_list("people", "animal")


@cache
def everyday_words() -> frozenset[str]:
    """Return the most common words, which begin sentences and fill headings."""
    return word_list("common_words") | people_nouns()


def is_given_name(low: str) -> bool:
    """Return whether the word is a given name, perhaps a word as well."""
    return low in _given_names()


@cache
def _given_names() -> frozenset[str]:
    return _add_plain(word_list("given_names"))


def _add_plain(names: frozenset[str]) -> frozenset[str]:
    """Return names and their forms without accents, as many people type them: "malaga", "joao"."""
    return names | {drop_accents(name) for name in names}


def is_family_name(low: str) -> bool:
    """Return whether the word is a family name, perhaps a word as well."""
    return low in word_list("family_names")


def is_family_plural(low: str) -> bool:
    """Return whether the word is a family name in the plural: "the Johnsons"."""
    return any(low.endswith(tail) and is_family_name(low[: -len(tail)]) for tail in _PLURALS)


@lru_cache(maxsize=8192)
def is_word(low: str) -> bool:
    """Return whether English has the word, in this or a simpler form."""
    listed = word_list("dictionary")
    if low in everyday_words() or low in listed or low in word_list("not_names") or _has_stem(low, listed):
        return True
    return len(low) >= _SHORTEST_WORDY and low.endswith(_WORDY)


def _has_stem(low: str, listed: frozenset[str]) -> bool:
    for ending, instead in _ENDINGS:
        if low.endswith(ending) and len(low) >= len(ending) + _SHORTEST_STEM:
            stem = low[: -len(ending)] + instead
            if stem in listed or stem in everyday_words():
                return True
    return False
