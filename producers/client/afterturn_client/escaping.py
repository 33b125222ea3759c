r"""Escapes recalled text for a model: nothing in it closes the frame around it, begins a line, or is hidden. Pure."""

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from afterturn_client.text_views import INVISIBLE

#: Between letters and marks these shape a word (Persian, Indic scripts).
_JOINERS = frozenset("\u034f\u200c\u200d")
#: Behind a character that is seen, one of these chooses its form.
_SELECTOR = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_JSON_ESCAPES = [(sign, f"\\u{ord(sign):04x}") for sign in "<>&\u2028\u2029"]
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_LINE_ENDS = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
#: Only where it begins an entity does `&` need an escape.
_ENTITY = re.compile("&(?=[#A-Za-z])")
#: A text of printable ASCII without these needs no escape: most texts.
_MARKS = re.compile("[<>&]")


def visible(text: str) -> str:
    r"""Return the text with invisible characters shown by number, as `\u{HEX}`.

    Joiners between letters stay, and so does a variation selector after a visible character.
    """
    return text if text.isascii() else INVISIBLE.sub(_show_sign, text)


def escape_line(text: str) -> str:
    r"""Return the text as one line without `<` and `>`: `&lt;` and `&gt;`, `\n` for a line's end.

    What is no Unicode (a lone surrogate) becomes a question mark: it could not be sent to a model.
    """
    if text.isascii() and text.isprintable() and not _MARKS.search(text):
        return text
    shown = _LINE_ENDS.sub(r"\\n", visible(text))
    shown = _CONTROLS.sub(lambda found: f"\\u{{{ord(found[0]):X}}}", shown)
    shown = _ENTITY.sub("&amp;", shown).replace("<", "&lt;").replace(">", "&gt;")
    return shown.encode(errors="replace").decode()


def escaped(value: object) -> str:
    r"""Return compact JSON that cannot close the tags around it, and hides nothing from a reader.

    Invisible characters are shown by number (`visible`); stored texts stay unchanged.
    """
    # What is no Unicode (a lone surrogate) could not be sent to a model.
    text = _ENCODER.encode(_show_value(value)).encode(errors="replace").decode()
    # `str.translate` looks at each character by itself: of a long answer it took longer than all the rest of framing.
    for sign, escape in _JSON_ESCAPES:
        text = text.replace(sign, escape)
    return text


def _show_sign(found: re.Match[str]) -> str:
    sign, text, at = found[0], found.string, found.start()
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if sign in _JOINERS and _is_of_a_word(before) and _is_of_a_word(after):
        return sign
    if _SELECTOR.match(sign) and before and not before.isspace() and not INVISIBLE.match(before):
        return sign
    return f"\\u{{{ord(sign):X}}}"


def _is_of_a_word(sign: str) -> bool:
    return bool(sign) and unicodedata.category(sign)[0] in "LM" and not INVISIBLE.match(sign)


def _show_value(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {name: _show_value(one) for name, one in value.items()}
    return [_show_value(one) for one in value] if isinstance(value, list | tuple) else value
