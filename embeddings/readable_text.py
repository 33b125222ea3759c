"""Makes texts readable for a local model, which takes neither everything nor of any length nor in any script."""

import re
import unicodedata

_LETTER = re.compile(r"[^\W\d_]")
#: Characters of a text, from its beginning, by which its script is judged.
_JUDGED = 1024


def clean_text(text: str, most: int) -> str:
    """Return the text cut to `most` characters, with lone surrogates, which cannot be encoded, replaced."""
    return text[:most].encode(errors="replace").decode()


def is_latin(text: str) -> bool:
    """Return whether most letters of a text are Latin; not if it has none."""
    letters = _LETTER.findall(text[:_JUDGED])
    latin = letters if text.isascii() else [one for one in letters if "LATIN" in unicodedata.name(one, "")]
    return 2 * len(latin) > len(letters)
