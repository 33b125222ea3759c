"""One name for one thing: how a surface becomes the normalised name that makes two mentions one entity."""

import re
from functools import lru_cache

from store.text.normal_forms import normalized
from store.text.rules.gazetteer import words

_APOSTROPHES = re.compile("[\u2018\u2019\u02bc]")
_POSSESSIVE = re.compile(r"(?:'s|(?<=s)')$")
_SPACES = re.compile(r"\s+")


@lru_cache(maxsize=4096)
def canonical(surface: str) -> str:
    """Return the normalised name of a surface: compatibility forms, no case, no title, no possessive.

    "Dr. Okonjo's" and "okonjo" are one name, "Zoë" in either Unicode form is one name, and a name that is
    nothing but a title stays what it is.
    """
    plain = _SPACES.sub(" ", folded(surface)).strip()
    return _untitled(_POSSESSIVE.sub("", plain))


def shown(surface: str) -> str:
    """Return a surface as people read it: title and possessive gone, case kept."""
    plain = _SPACES.sub(" ", _APOSTROPHES.sub("'", normalized("NFC", surface))).strip()
    return _untitled(_POSSESSIVE.sub("", plain))


def folded(text: str) -> str:
    """Return a text for comparison: compatibility forms, one kind of apostrophe, no case."""
    return _APOSTROPHES.sub("'", normalized("NFKC", text).casefold())


def _untitled(name: str) -> str:
    parts = name.split(" ")
    while len(parts) > 1 and parts[0].rstrip(".").casefold() in words("people", "title"):
        parts = parts[1:]
    return " ".join(parts)
