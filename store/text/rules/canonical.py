"""Normalises the surface form of a name, so that two mentions are one entity."""

import re
from functools import lru_cache

from store.text.normal_forms import normalise_text
from store.text.rules.gazetteer import word_list

_APOSTROPHES = re.compile("[\u2018\u2019\u02bc]")
_POSSESSIVE = re.compile(r"(?:'s|(?<=s)')$")
_SPACES = re.compile(r"\s+")


@lru_cache(maxsize=4096)
def canonical_name(surface: str) -> str:
    """Return the normalised name of a surface: compatibility forms, no case, no title, no possessive.

    "Dr. Okonjo's" and "okonjo" are one name, "Zoë" in either Unicode form is one name, and a name that is
    nothing but a title stays what it is.
    """
    plain = _SPACES.sub(" ", fold_text(surface)).strip()
    return _strip_title(_POSSESSIVE.sub("", plain))


def display_name(surface: str) -> str:
    """Return a surface as people read it: title and possessive gone, case kept."""
    plain = _SPACES.sub(" ", _APOSTROPHES.sub("'", normalise_text("NFC", surface))).strip()
    return _strip_title(_POSSESSIVE.sub("", plain))


def fold_text(text: str) -> str:
    """Return a text for comparison: compatibility forms, one kind of apostrophe, no case."""
    return _APOSTROPHES.sub("'", normalise_text("NFKC", text).casefold())


def _strip_title(name: str) -> str:
    parts = name.split(" ")
    while len(parts) > 1 and parts[0].rstrip(".").casefold() in word_list("people", "title"):
        parts = parts[1:]
    return " ".join(parts)
