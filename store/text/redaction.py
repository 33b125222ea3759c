r"""Replaces secrets in a text before the text is stored, logged or sent on. Pure, and linear in the text.

Rules are tried in order; a later one skips what an earlier one found. A redacted text stays the same when redacted
again. The name of an assignment is kept: `X_API_KEY=[REDACTED:API_KEY]`. A token is recognised by its form, so that
paths, hashes, UUIDs, identifiers and placeholders (`$TOKEN`, `<your key>`) stay readable. Full-width letters count as
their usual ones, and a token of known length that a line end broke counts as one. A text with escapes (`&quot;`,
`%3D`, `\u0022`), invisible characters or styled letters is searched as it reads without them, too.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice, pairwise
from typing import NamedTuple

from afterturn_client.text_views import INVISIBLE, read_views

from store.off_loop import give_way, iterate_giving_way
from store.text.secret_rules import BLOBS, EXACT, HINTS_OF_KEYS, KEYS, LONG_RUN, TOKENS, SecretRule

#: Fewest characters of a caller's own key that is searched for; a shorter one would match ordinary words. No form of a
#: credential is shorter.
SHORTEST_OWN_KEY = 8
OWN_KEY = "OWN_KEY"
#: Characters of it that a line end does not break.
LEAST_OF_OWN_KEY = 4


#: Characters that are searched at a time.
WINDOW = 65_536
#: Most characters that decide whether a secret begins at a place; it may be longer.
LONGEST = 8_192
#: Characters behind the end of a match that decide whether it goes on: a dot, and two of the next part of a JWT.
UNSURE = 3


class Redaction(StrEnum):
    """Which secrets are replaced."""

    #: Redact nothing.
    OFF = "off"
    #: Redact the caller's own key, and texts in forms that only credentials have.
    KEYS = "keys"
    #: Redact these, and long random runs of base64.
    ALL = "all"


class SecretSpan(NamedTuple):
    """The place of a secret in a text, and its kind."""

    label: str
    start: int
    end: int


def redact_secrets(text: str, level: Redaction = Redaction.KEYS, own_keys: Iterable[str] = ()) -> str:
    """Return the text with each secret replaced by `[REDACTED:LABEL]`; `own_keys`: the keys of the caller."""
    return _replace_secrets(text, find_secrets(text, level, own_keys))


def find_secrets(text: str, level: Redaction = Redaction.KEYS, own_keys: Iterable[str] = ()) -> list[SecretSpan]:
    """Return the secrets of a text, in their order; none overlaps another."""
    if level is Redaction.OFF or len(text) < SHORTEST_OWN_KEY:
        return []
    found = _find_plain(text.translate(_NARROW), level, own_keys)
    if _may_hide(text):
        found = _unite_secrets(found, _find_hidden(text, own_keys))
    return found


def _find_plain(text: str, level: Redaction, own_keys: Iterable[str]) -> list[SecretSpan]:
    lowered = text.lower()
    found = _find_broken(text, lowered, own_keys)
    held = [key for key in own_keys if key in text]
    keys = KEYS if any(hint in lowered for hint in HINTS_OF_KEYS) else ()
    blobs = BLOBS if level is Redaction.ALL else ()
    # The hints of 167 tokens are looked for in long runs alone: few texts have many.
    runs = " ".join(_find_long_runs(text)).lower()
    tokens = [rule for rule in TOKENS if rule.hint in runs] if runs else []
    for rule in (*_own_rules(held), *keys, *tokens, *blobs):
        if rule.hint in lowered:
            found = _merge_secrets(found, _find_matches(text, rule))
    return found


#: What ends a run.
_GAP = re.compile(r"[^!-~]")


def _find_long_runs(text: str) -> Iterator[str]:
    """Yield the runs that may hold a token; the text is searched in pieces, each to the end of a run."""
    at = 0
    while at < len(text):
        gap = _GAP.search(text, at + WINDOW)
        end = gap.start() if gap else len(text)
        yield from LONG_RUN.findall(text, at, end)
        give_way()
        at = end


#: Escapes of letters and marks: HTML's, a URL's, JSON's.
_ESCAPE = re.compile(r"&(?:#|quot;|apos;|amp;|shy;|equals;|colon;|lowbar;)|%[2-7][0-9A-Fa-f]|\\u00|\\x[2-7]")
_ESCAPE_SIGNS = "&%\\"
_STYLED = re.compile("[\U0001d400-\U0001d7ff]")


def _may_hide(text: str) -> bool:
    """Return whether a text reads otherwise than it is written."""
    if any(sign in text for sign in _ESCAPE_SIGNS) and _ESCAPE.search(text):
        return True
    return not text.isascii() and bool(INVISIBLE.search(text) or _STYLED.search(text))


#: Characters around an escape in which a secret may begin or end.
_AROUND = 1_024


def _find_hidden(text: str, own_keys: Iterable[str]) -> Iterator[SecretSpan]:
    """Yield the secrets around escapes and invisible characters, as the text reads without them."""
    for begin, end in _read_surroundings(text):
        *_, view = islice(read_views(text[begin:end]), 2)
        for one in _find_plain(view.text, Redaction.KEYS, own_keys):
            start, stop = view.locate(one.start, one.end)
            yield SecretSpan(one.label, begin + start, begin + stop)


def _read_surroundings(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of what stands around escapes and invisible characters, joined where they meet."""
    signs = [_ESCAPE] if text.isascii() else [_ESCAPE, INVISIBLE, _STYLED]
    places = sorted(found.start() for sign in signs for found in iterate_giving_way(sign.finditer(text)))
    begin, end = 0, -1
    for place in places:
        if place - _AROUND > end:
            if end > 0:
                yield begin, end
            begin = max(0, place - _AROUND)
        end = min(len(text), place + _AROUND)
    if end > 0:
        yield begin, end


#: Full-width letters, digits and marks, as their usual forms; each is one character.
_NARROW = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
# A line end, with what wraps a line: a mark of continuation or a closing quote before, an indentation, a mark of
# quotation or of a comment, a line's number or an opening quote behind. Or what breaks a line in HTML, colours it, or
# joins strings.
_BEHIND_SIGN = r"(?<=[A-Za-z0-9_.+/=-])"
_LINE_END = r"(?:[\"'] ?[+.]?|[\\`]| _|{dropped})?(?:\r\n?|\n|\u2028|(?:\\{{1,2}}r)?\\{{1,2}}n)"
_MARKS = r"(?:[ \t]{{0,8}}\d{{1,6}}[:|\t]|[ \t>|+*#-]){{0,8}}{least}[\"']?(?=[A-Za-z0-9_.+/=-])"
_JOIN = r"|[\"'] ?[+.] ?[\"']|<w?br ?/?>\s{0,8}|\x1b\[[\d;]{0,16}m|\\(?=_)"
_BREAK, _SIGN_KEPT, _HYPHENATED = (
    re.compile(_BEHIND_SIGN + "(?:" + _LINE_END.format(dropped=dropped) + _MARKS.format(least=least) + _JOIN + ")")
    for dropped, least in (("(?!)", ""), ("(?!)", "?"), ("[=-]", ""))
)
_MAY_BREAK = re.compile(r"[\n\r\u2028\x1b]|\\[nr_]|[\"'] ?[+.] ?[\"']|<w?br")
#: Each break begins with one of these.
_BREAK_SIGNS = "\n\r\u2028\x1b\\\"'<"


def _find_broken(text: str, lowered: str, own_keys: Iterable[str]) -> list[SecretSpan]:
    """Return the tokens of known length, and own keys, that a line end breaks in two or more behind their prefix."""
    if not any(sign in text for sign in _BREAK_SIGNS):
        return []
    begun = [one.rule for one in EXACT if one.rule.hint in lowered and one.prefix.search(text)]
    keys = [key for key in own_keys if key[:LEAST_OF_OWN_KEY] in text]
    if not (begun or keys) or not _MAY_BREAK.search(text):
        return []

    def find(breaks: list[tuple[int, int]]) -> list[SecretSpan]:
        return _find_joined(text, breaks, [*_own_rules(keys), *begun])

    breaks = _find_breaks(_BREAK, text)
    found = find(breaks)
    # A sign at the beginning of a line may be the token's own, and one at its end a hyphen.
    if any(text[end - 1] in "+-" for _, end in breaks):
        found = _merge_secrets(found, find(_find_breaks(_SIGN_KEPT, text)))
    if "-\n" in text or "=\n" in text:
        found = _merge_secrets(found, find(_find_breaks(_HYPHENATED, text)))
    return found


def _find_breaks(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    return [match.span() for match in iterate_giving_way(pattern.finditer(text))]


def _find_joined(text: str, spans: list[tuple[int, int]], rules: Sequence[SecretRule]) -> list[SecretSpan]:
    """Return such tokens of the text without these breaks."""
    if not spans:
        return []
    # Not by `sub`, during which no other thread runs.
    around = pairwise([(0, 0), *spans, (len(text), 0)])
    joined = "".join([text[end:start] for (_, end), (start, _) in iterate_giving_way(around)])
    places, found = _JoinedPlaces(spans), list[SecretSpan]()
    for rule in rules:
        located = (places.locate(one) for one in _find_matches(joined, rule))
        found = _merge_secrets(found, (one for one in located if places.is_broken(one)))
    return found


class _JoinedPlaces:
    """Maps places of a text without its breaks to those of the text."""

    def __init__(self, breaks: list[tuple[int, int]]) -> None:
        self._breaks = breaks
        self._at, self._gone = list[int](), [0]
        for start, end in breaks:
            self._at.append(start - self._gone[-1])
            self._gone.append(self._gone[-1] + end - start)

    def locate(self, one: SecretSpan) -> SecretSpan:
        """Return the span in the text of a span in the joined one."""
        start = one.start + self._gone[bisect_right(self._at, one.start)]
        last = one.end - 1
        return SecretSpan(one.label, start, last + self._gone[bisect_right(self._at, last)] + 1)

    def is_broken(self, one: SecretSpan) -> bool:
        """Return whether a break is within a span of the text."""
        return any(one.start < start < one.end for start, _ in self._breaks[self._first(one.start) :][:1])

    def _first(self, place: int) -> int:
        return bisect_right(self._breaks, (place, place))


def _own_rules(own_keys: Iterable[str]) -> Iterator[SecretRule]:
    for key in sorted({one for one in own_keys if len(one) >= SHORTEST_OWN_KEY}, key=len, reverse=True):
        yield SecretRule(OWN_KEY, "", re.compile(re.escape(key)), whole=True)


def _find_matches(text: str, rule: SecretRule) -> Iterator[SecretSpan]:
    group = "secret" if "secret" in rule.pattern.groupindex else 0
    for found in rule.pattern.finditer(text) if rule.whole else _iterate_matches(rule.pattern, text):
        if rule.is_one(found[group]):
            yield SecretSpan(rule.label, *found.span(group))


def _iterate_matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield what `pattern.finditer` does, by short searches: during one of them no other thread runs.

    A match counts if all of the text that decides it was in sight: LONGEST characters from its start, and its end with
    the UNSURE characters behind it.
    """
    at, sight = 0, WINDOW
    while at < len(text):
        give_way()
        end = min(at + sight, len(text))
        found = pattern.search(text, at, end)
        if end < len(text) and (found is None or found.start() > end - LONGEST):
            at, sight = end - LONGEST, WINDOW
        elif found is None:
            return
        elif found.end() > end - UNSURE and end < len(text):
            at, sight = found.start(), 2 * sight
        else:
            yield found
            at, sight = found.end(), WINDOW


def _merge_secrets(before: list[SecretSpan], new: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Return both lists in order of place, without new secrets that overlap known ones."""
    merged, n = list[SecretSpan](), 0
    for one in new:
        while n < len(before) and before[n].end <= one.start:
            merged.append(before[n])
            n += 1
        if n == len(before) or one.end <= before[n].start:
            merged.append(one)
    return merged + before[n:]


def _unite_secrets(before: list[SecretSpan], new: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Return both lists in order of place, those that overlap as one."""
    united = list[SecretSpan]()
    for one in sorted([*before, *new], key=lambda span: (span.start, -span.end)):
        if united and one.start < united[-1].end:
            united[-1] = united[-1]._replace(end=max(united[-1].end, one.end))
        else:
            united.append(one)
    return united


def _replace_secrets(text: str, secrets: list[SecretSpan]) -> str:
    pieces, at = list[str](), 0
    for one in secrets:
        pieces += (text[at : one.start], f"[REDACTED:{one.label}]")
        at = one.end
    return "".join(pieces) + text[at:]
