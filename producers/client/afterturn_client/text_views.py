"""Reads a text as it was before it was quoted, encoded or reformatted, and knows where each character came from. Pure.

What quotes a text changes its letters, not its words: invisible characters, look-alike letters, marks before each line
(Markdown, diffs, line numbers), and escapes of JSON, HTML, URLs and mail. A view undoes that one layer at a time.
"""

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, compress, count, islice
from urllib.parse import unquote

#: Invisible characters, which can carry text to a model unseen by a reader: Unicode's format characters (Cf:
#: directions, zero widths, tags) and all others that are drawn as nothing (Default_Ignorable_Code_Point).
INVISIBLE = re.compile(
    "[\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: How often a text may have been escaped: a string of JSON within a string of JSON, and one more.
LAYERS = 3

#: Letters of other scripts that are drawn like Latin ones, and other brackets than ASCII's.
_LOOK_ALIKES = dict(
    zip(
        "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u043c\u043a\u0442\u043d\u0432\u0456\u0458\u0455\u0501"
        "\u0410\u0415\u041e\u0420\u0421\u0423\u0425\u041c\u041a\u0422\u041d\u0412\u0406"
        "\u039c\u0395\u039f\u03a1\u03a5\u039d\u0399\u03a4\u0392\u03bf\u03c1\u03c5\u03bd\u03b9"
        "\u2039\u203a\u3008\u3009\u27e8\u27e9\u2329\u232a\u02c2\u02c3\u276e\u276f\u2215\u2044"
        "\u301a\u301b\u27e6\u27e7\u3010\u3011\u3014\u3015\u2045\u2046\ufe47\ufe48\u2016\u02cd",
        "aeopcyxmkthbijsdAEOPCYXMKTHBIMEOPYNITBopyvi<><><><><><>//[][][][][][]|_",
        strict=True,
    )
)
#: Blocks of Unicode with other forms of ASCII's characters: symbols, enclosed, ligatures, full width, mathematical.
_FORMS = ((0x2000, 0x2150), (0x2460, 0x2500), (0xFB00, 0xFB07), (0xFE50, 0xFE70), (0xFF01, 0xFF5F), (0x1D400, 0x1D800))
_LOOK_ALIKES |= {
    sign: plain
    for begin, end in _FORMS
    for sign in map(chr, range(begin, end))
    if (plain := unicodedata.normalize("NFKC", sign)).isascii()
}
#: Small capitals, raised letters, and those of Armenian that are drawn like Latin ones.
_LOOK_ALIKES |= dict(
    zip(
        "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\u0280\ua731\u1d1b\u1d1c\u1d20"
        "\u1d21\u028f\u1d22\u0570\u0578\u0585\u057d",
        "abcdefghijklmnoprstuvwyzhnou",
        strict=True,
    )
)
_ACCENTED = (
    *((0xC0, 0x180), (0x1E00, 0x1F00), (0x2B0, 0x2B9), (0x2E0, 0x2E5), (0x1D2C, 0x1D6B), (0x1D9B, 0x1DC0)),
    (0x2071, 0x2080),
)
#: Letters with an accent, and raised ones: only the letter counts.
_LOOK_ALIKES |= {
    sign: plain
    for begin, end in _ACCENTED
    for sign in map(chr, range(begin, end))
    if (plain := "".join(one for one in unicodedata.normalize("NFKD", sign) if one.isascii())).isalpha()
}
#: An accent of its own.
_ACCENT = re.compile("[\u0300-\u036f]")
#: What colours a terminal's text, and HTML's tags within a line of it.
_COLOUR = re.compile(
    r"\x1b\[[0-9;]{0,32}[A-Za-z]|</?(?:span|b|i|em|strong|mark|code|u|font|wbr)(?:[ \t][^<>]{0,256})?/?>", re.IGNORECASE
)
_TRANSLATED = str.maketrans(_LOOK_ALIKES)
_FOREIGN = re.compile(f"[{''.join(map(re.escape, _LOOK_ALIKES))}]")
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SMALL = bytes.maketrans(_LETTERS, _LETTERS.lower())
#: What a squeezed text is without; a character beyond ASCII is a question mark there.
_SQUEEZED = bytes(one for one in range(256) if chr(one) not in "<>/" and not bytes([one]).isalnum())
_KEPT = bytes(one not in _SQUEEZED for one in range(256))
#: Characters of a squeezed text that are counted together, so that finding a place costs a block and not the text.
_BLOCK = 1024
#: What stands before each line of a text that is quoted (Markdown, comments), compared (diffs) or numbered; not the
#: last sign of a frame's tag that was wrapped before it.
_LINE_MARK = re.compile(
    r"^(?!(?<=_reference\n|directives\n)>[ \t]*$)"
    r"(?:[ \t]*(?:[>+|#*;%\"'\u2502\u2503-]|//|--|\d{1,6}(?=[ \t]*[:|)\u2192\t])[ \t]*[:|)\u2192\t]))+[ \t]*",
    re.MULTILINE | re.IGNORECASE,
)
#: Each form begins with a letter of its own, outside of groups, so that a search skips all others at once (a text of
#: 250 KB without one: 3.7 -> .7 ms).
_ESCAPE = re.compile(
    r"\\u\{[0-9a-f]{1,6}\}|\\(?-i:U)[0-9a-f]{8}|\\u[0-9a-f]{4}|\\[01][0-7]{2}|\\x[0-9a-f]{2}|\\[\\\"'/nrtbf]"
    r"|&#x[0-9a-f]{1,6};?|&#[0-9]{1,7};?|&(?:[a-z][a-z0-9]{1,24});"
    r"|%[0-9a-f]{2}(?:%[0-9a-f]{2})*|=\r?\n|=[0-9A-F]{2}(?:=[0-9A-F]{2})*",
    re.IGNORECASE,
)
_SIGNS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_LAST = 0x10FFFF


@dataclass(frozen=True, slots=True)
class TextView:
    """A text made of another one, piece by piece: a copy of a piece, or what stands for the whole of it.

    A piece begins at `begins[n]` of the text. It copies the other text from `origins[n]` on, or, with an end in
    `ends[n]`, stands for the other text up to there. A view of pieces knows where its characters came from at the cost
    of its changes, not of its length.
    """

    text: str
    origin: "TextView | None" = None
    begins: Sequence[int] = ()
    origins: Sequence[int] = ()
    ends: Sequence[int | None] = ()

    def start_of(self, at: int) -> int:
        """Return where the part of the first text begins that a character of this view stands for."""
        view = self
        while view.origin is not None:
            piece = bisect_right(view.begins, at) - 1
            copied = view.ends[piece] is None
            view, at = view.origin, view.origins[piece] + (at - view.begins[piece] if copied else 0)
        return at

    def end_of(self, at: int) -> int:
        """Return where the part of the first text ends that a character of this view stands for."""
        view = self
        while view.origin is not None:
            piece = bisect_right(view.begins, at) - 1
            end = view.ends[piece]
            view, at = view.origin, view.origins[piece] + at - view.begins[piece] if end is None else end - 1
        return at + 1

    def locate(self, begin: int, end: int) -> tuple[int, int]:
        """Return where a piece of this view, of at least one character, stands in the first text."""
        return self.start_of(begin), self.end_of(end - 1)


class SqueezedText:
    """The letters and digits of ASCII, and the signs of tags, that a text consists of, in small letters."""

    def __init__(self, text: str) -> None:
        self._raw = text.encode("ascii", "replace")
        self.text = self._raw.translate(_SMALL, _SQUEEZED).decode()

    def locate(self, begin: int, end: int) -> tuple[int, int]:
        """Return where a piece, of at least one character, stands in the text."""
        return self._find_place(begin), self._find_place(end - 1) + 1

    def _find_place(self, at: int) -> int:
        block = bisect_right(self._kept_before, at) - 1
        begin = block * _BLOCK
        kept = self._raw[begin : begin + _BLOCK].translate(_KEPT)
        return begin + next(islice(compress(count(), kept), at - self._kept_before[block], None))

    @cached_property
    def _kept_before(self) -> list[int]:
        """How many characters are kept before each block of the text."""
        starts = range(0, len(self._raw), _BLOCK)
        kept = (len(self._raw[start : start + _BLOCK].translate(None, _SQUEEZED)) for start in starts)
        return list(accumulate(kept, initial=0))


def read_views(text: str) -> Iterator[TextView]:
    """Yield the text without marks and look-alikes, then with one layer of escapes undone after the other."""
    escaped = TextView(text)
    yield _clean(escaped)
    for _ in range(LAYERS):
        unescaped = _rewrite(escaped, _ESCAPE, _unescape)
        if unescaped is escaped:
            return
        escaped = unescaped
        yield _clean(escaped)


def fold_letters(text: str) -> str:
    """Return the text in ASCII's small letters, as far as its letters look like ASCII's, without invisible ones."""
    if text.isascii():
        return text.lower()
    return _ACCENT.sub("", INVISIBLE.sub("", text)).translate(_TRANSLATED).lower()


def _clean(view: TextView) -> TextView:
    """Return the view without line marks and invisible characters, its look-alikes as ASCII."""
    if "<" in view.text or "\x1b" in view.text:
        view = _rewrite(view, _COLOUR, lambda _: "")
    if not view.text.isascii():
        view = _rewrite(view, INVISIBLE, lambda _: "")
        view = _rewrite(view, _ACCENT, lambda _: "")
        view = _rewrite(view, _FOREIGN, lambda found: _LOOK_ALIKES[found[0]])
    return _rewrite(view, _LINE_MARK, lambda _: "")


def _rewrite(view: TextView, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str]) -> TextView:
    """Return the view with each match replaced; all that replaces a match stands for the whole of it."""
    texts, begins, origins, ends = list[str](), list[int](), list[int](), list[int | None]()
    at, length = 0, 0

    def add(piece: str, origin: int, end: int | None) -> None:
        nonlocal length
        if piece:
            texts.append(piece)
            begins.append(length)
            origins.append(origin)
            ends.append(end)
            length += len(piece)

    for found in pattern.finditer(view.text):
        new = replace(found)
        if not found[0] or new == found[0]:
            continue
        add(view.text[at : found.start()], at, None)
        add(new, found.start(), found.end())
        at = found.end()
    if not at:
        return view
    add(view.text[at:], at, None)
    return TextView("".join(texts), view, begins, origins, ends)


def _unescape(found: re.Match[str]) -> str:
    sign = found[0]
    if sign[0] == "&":
        return html.unescape(sign)
    if sign[0] == "%":
        return unquote(sign)
    if sign[0] == "=":
        return "" if sign[1] in "\r\n" else bytes.fromhex(sign.replace("=", "")).decode(errors="replace")
    if sign[1].isdigit():
        return chr(int(sign[1:], 8))
    if sign[1] not in "uUxX":
        return _SIGNS.get(sign[1], sign[1])
    number = int(sign[2:].strip("{}"), 16)
    return chr(number) if number <= _LAST else sign
