"""Folds names for comparison, as `afterturn.folded` does in the database. Pure."""

import re

from store.text.normal_forms import normalise_text

_ACCENTS = re.compile("[\u0300-\u036f]")
_APOSTROPHES = re.compile("[\u2018\u2019\u02bc]")
_SPACES = re.compile(r"\s+")


def fold_name(text: str) -> str:
    """Return a text without case and accents, with one kind of apostrophe and one blank between words."""
    plain = _ACCENTS.sub("", normalise_text("NFKD", text)).lower()
    return _SPACES.sub(" ", _APOSTROPHES.sub("'", plain)).strip()
