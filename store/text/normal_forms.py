"""Unicode normal forms of texts that anybody may have written, and names folded for comparison. Pure.

The standard library sorts a run of combining marks by insertion, without letting any other thread run: a message of
nothing else would take minutes. No word of any language has more than a few of them in a row.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain
from typing import Literal

#: Combining marks in a row that are kept; Unicode's stream-safe format allows 30 (UAX #15).
MOST_MARKS = 30
#: Ligatures of whole phrases, whose compatibility forms are up to 18 characters and four words: they tell nothing.
_PHRASES = ("\ufdfa", "\ufdfb")


def _character_class(characters: Sequence[str]) -> str:
    """Return a regular expression's character class of these characters, in order."""
    found: list[list[str]] = []
    for one in characters:
        if found and ord(one) == ord(found[-1][-1]) + 1:
            found[-1][1:] = [one]
        else:
            found.append([one])
    return "".join("-".join(map(re.escape, ends)) for ends in found)


# The blocks of ideographs and Hangul, which have none, are left out: 11 -> 7 ms of each start.
_CODES = chain(range(0x300, 0x3400), range(0xA000, 0xAC00), range(0xFB00, 0x20000))
_MARKS = [sign for sign in map(chr, _CODES) if unicodedata.category(sign)[0] == "M"]
# The two half-width signs become marks by their compatibility forms.
_NEAR = _character_class([sign for sign in _MARKS if sign <= "\uffff"]) + "\uff9e\uff9f"
_FAR = _character_class([sign for sign in _MARKS if sign > "\uffff"])
_BEYOND = "\U00010000-\U0010ffff"
#: A combining mark. WHY two classes: characters beyond the first plane are compared one by one, and are rare.
MARK = rf"(?:[{_NEAR}]|(?=[{_BEYOND}])[{_FAR}])"
MARKS = rf"(?:[{_NEAR}]++|(?=[{_BEYOND}])[{_FAR}]++)"
_RUN = re.compile(rf"((?:{MARK}){{{MOST_MARKS}}}){MARKS}+")
_ACCENTS, _APOSTROPHES, _SPACES = re.compile("[\u0300-\u036f]"), re.compile("[\u2018\u2019\u02bc]"), re.compile(r"\s+")
# A cheap pre-check that matches every run, and some texts without one.
_PERHAPS_RUN = re.compile(rf"[{_NEAR}{_BEYOND}][{_NEAR}{_BEYOND}]{{{MOST_MARKS}}}")


def normalise_text(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Return a text in a normal form, at most a few times as long; of a run of marks the first MOST_MARKS are kept."""
    if text.isascii():
        return text
    for phrase in _PHRASES:
        text = text.replace(phrase, " ")
    return unicodedata.normalize(form, shorten_mark_runs(text))


def shorten_mark_runs(text: str) -> str:
    """Return a text whose runs of combining marks are no longer than a normal form can be made of quickly."""
    return _RUN.sub(r"\1", text) if _PERHAPS_RUN.search(text) else text


def fold_name(text: str) -> str:
    """Return a text without case and accents, with one kind of apostrophe and one blank between words.

    `afterturn.folded` does the same in the database.
    """
    plain = _ACCENTS.sub("", normalise_text("NFKD", text)).lower()
    return _SPACES.sub(" ", _APOSTROPHES.sub("'", plain)).strip()
