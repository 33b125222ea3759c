r"""Replaces secrets in a text before the text is stored, logged or sent on. Pure, and linear in the text.

Rules are tried in order; a later one skips what an earlier one found. A redacted text stays the same when redacted
again. The name of an assignment is kept: `X_API_KEY=[REDACTED:API_KEY]`. A token is recognised by its form, so that
paths, hashes, UUIDs, identifiers and placeholders (`$TOKEN`, `<your key>`) stay readable. Full-width letters count as
their usual ones, and a token of known length that a line end broke counts as one. A text with escapes (`&quot;`,
`%3D`, `\u0022`), invisible characters or styled letters is searched as it reads without them, too.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice, pairwise
from typing import NamedTuple

from afterturn_client.text_views import INVISIBLE, read_views

from store.off_loop import give_way, iterate_giving_way
from store.text.credential_forms import CredentialForm, read_forms

#: Fewest characters of a caller's own key that is searched for; a shorter one would match ordinary words. No form of a
#: credential is shorter.
SHORTEST_OWN_KEY = 8
OWN_KEY = "OWN_KEY"
#: Characters of it that a line end does not break.
LEAST_OF_OWN_KEY = 4
#: Fewest characters of a run of base64 that may be a secret.
SHORTEST_BLOB = 33


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


class _Rule(NamedTuple):
    """The pattern of a secret; its group `secret`, else the whole match, is replaced where `is_one` agrees.

    Every text with such a secret contains `hint` in lower case, so most texts are searched no further. `whole`: it
    takes more than LONGEST characters to see that there is one.
    """

    label: str
    hint: str
    pattern: re.Pattern[str]
    is_one: Callable[[str], bool] = bool
    whole: bool = False


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
    tokens = _TOKENS if _TOKEN_LIKE.search(text) else ()
    for rule in (*_own_rules(held), *_KEYS, *tokens, *(_BLOBS if level is Redaction.ALL else ())):
        if rule.hint in lowered:
            found = _merge_secrets(found, _find_matches(text, rule))
    return found


#: Escapes of letters and marks: HTML's, a URL's, JSON's.
_ESCAPE = re.compile(r"&(?:#|quot;|apos;|amp;|shy;|equals;|colon;|lowbar;)|%[2-7][0-9A-Fa-f]|\\u00|\\x[2-7]")
_STYLED = re.compile("[\U0001d400-\U0001d7ff]")


def _may_hide(text: str) -> bool:
    """Return whether a text reads otherwise than it is written."""
    if _ESCAPE.search(text):
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


def _find_broken(text: str, lowered: str, own_keys: Iterable[str]) -> list[SecretSpan]:
    """Return the tokens of known length, and own keys, that a line end breaks in two or more behind their prefix."""
    begun = [one.rule for one in _EXACT if one.rule.hint in lowered and one.prefix.search(text)]
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


def _find_joined(text: str, spans: list[tuple[int, int]], rules: Sequence[_Rule]) -> list[SecretSpan]:
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


def _own_rules(own_keys: Iterable[str]) -> Iterator[_Rule]:
    for key in sorted({one for one in own_keys if len(one) >= SHORTEST_OWN_KEY}, key=len, reverse=True):
        yield _Rule(OWN_KEY, "", re.compile(re.escape(key)), whole=True)


def _find_matches(text: str, rule: _Rule) -> Iterator[SecretSpan]:
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


# -- what a value must be to be a secret

_PLACEHOLDER = re.compile(r"[$<{%*`]|\[REDACTED:|\.\.\.|x{3,}|(?:your|insert|replace|enter)[-_]", re.IGNORECASE)
_PATH = re.compile(r"[~.]{0,2}(?:/[a-z0-9_.-]+)+/?\Z")
_CODE = re.compile(r"[A-Za-z_][\w.]*[(\[]|[a-z_]+(?:\.[a-z_]+)+\Z")
_HARMLESS = frozenset(
    {"none", "null", "nil", "true", "false", "undefined", "changeme", "example", "required", "optional", "test"}
)


def _is_value(value: str) -> bool:
    """Return whether an assigned value may be a secret: no placeholder, no code, no small number."""
    bare = value.strip("\"'")
    return not (
        not bare
        or (bare == value and _CODE.match(bare))
        or _PLACEHOLDER.match(bare)
        or _PATH.match(bare)
        or bare.lower() in _HARMLESS
        or (bare.isdigit() and len(bare) <= _LONGEST_COUNT)
    )


#: Digits of a number that counts something: MAX_TOKEN=128000.
_LONGEST_COUNT = 9


def _is_mixed(value: str) -> bool:
    """Return whether a value has digits among its letters, or capitals behind small ones: words have neither."""
    return _is_value(value) and bool(_DIGIT.search(value) or _HUMP.search(value))


_DIGIT = re.compile(r"\d")
_HUMP = re.compile(r"[a-z][A-Z]")


def _is_password(value: str) -> bool:
    """Return whether what is assigned to a password is one: in quotes any word, else one with digits or signs."""
    bare = value.strip("\\\"'")
    if not _is_value(bare) or bare.lower().strip("*_- ") in _NAMES_OF_VALUES or len(bare) < _SHORTEST_PASSWORD:
        return False
    return (bare != value and not re.search(r"\s", bare)) or _SIGNED.search(bare) is not None


_SHORTEST_PASSWORD = 4
_SIGNED = re.compile(r"[^\W\d_].*[\d!#$%^&*@?+~]|[\d!#$%^&*@?+~].*[^\W\d_]|[a-z][A-Z]")
_VALUE_NAMES = """
    password passwd pwd pass passphrase secret token key string str text value values varchar password1 your_password
    yourpassword mypassword my_password new_password old_password confirm_password hash hashed label input field hidden
    redacted removed masked placeholder username user test
"""
_NAMES_OF_VALUES = frozenset(_VALUE_NAMES.split())


def _is_cookie(value: str) -> bool:
    """Return whether a header's value holds cookies: names with values that are no words."""
    return "=" in value and _is_mixed(value.partition("=")[2])


def _is_dashed_token(value: str) -> bool:
    """Return whether a match that may hold dashes is a token: names of things with the same prefix have no digits."""
    return _is_no_filler(value) and _is_dashed_or_mixed(value)


def _is_dashed_or_mixed(value: str) -> bool:
    return _UNBROKEN.match(value) is not None or _is_mixed(value)


_UNBROKEN = re.compile(r"[A-Za-z]+-[A-Za-z0-9]{16}")


def _is_no_filler(value: str) -> bool:
    """Return whether the last characters of a token differ: a placeholder repeats one (`ghp_xxxxxxxxxxxxxxxx`)."""
    return len(set(value[-8:])) > 1


def _is_bearer(value: str) -> bool:
    """Return whether the word after `bearer` is a token: mixed, or longer than a word."""
    return _is_mixed(value) or _UNBROKEN_WORD.fullmatch(value) is not None


_UNBROKEN_WORD = re.compile(r"[A-Za-z0-9]{24,}")


def _is_jwt(value: str) -> bool:
    return value.count(".") > 1


# -- base64 that is no path, no hash and no name

_HEX = re.compile(r"[0-9a-fA-F-]+=*")
_DIGEST = re.compile(r"(?:sha(?:1|2|224|256|384|512)|md5)[-_=]", re.IGNORECASE)
_SYMBOLS = re.compile(r"[+/=_-]+")
_CLASSES = str.maketrans(
    {**dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "A"), **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", "a")}
    | dict.fromkeys("0123456789", "0")
)
_CHANGE = re.compile(r"(?:A(?=[a0])|a(?=[A0])|0(?=[aA]))")
#: Of neighbouring characters in random base64, 64 in 100 are of different classes; in names and paths, 10 to 35.
_RANDOM = 0.45
#: SSH's public keys begin with the name of their kind.
_PUBLIC_KEY = re.compile(r"AAAA[A-Z][1-3](?:NzaC1|VjZHNh)")
_IPFS = re.compile(r"Qm[1-9A-HJ-NP-Za-km-z]{44}")


def _is_blob(run: str) -> bool:
    if _DIGEST.match(run) or _IPFS.fullmatch(run) or _PUBLIC_KEY.match(run):
        return False
    # A hash may be a folder of a path.
    rest = "/".join(segment for segment in run.split("/") if not _HEX.fullmatch(segment))
    # Small letters and digits alone are base32, as hashes often are.
    return len(rest) >= SHORTEST_BLOB and not rest.islower() and _share_of_changes(rest) >= _RANDOM


def _share_of_changes(run: str) -> float:
    """Return the share of neighbours of different classes: capital, small letter, digit."""
    pieces = [piece.translate(_CLASSES) for piece in _SYMBOLS.split(run)]
    neighbours = sum(len(piece) - 1 for piece in pieces if piece)
    return sum(len(_CHANGE.findall(piece)) for piece in pieces) / neighbours if neighbours else 0.0


def _build_rule(
    label: str,
    hint: str,
    pattern: str,
    is_one: Callable[[str], bool] = bool,
    flags: re.RegexFlag = re.NOFLAG,
    *,
    whole: bool = False,
) -> _Rule:
    return _Rule(label, hint, re.compile(pattern, flags | re.ASCII), is_one, whole)


# WHY possessive and bounded repetitions: a text of nothing but beginnings must not be read to its end from each.
_LINES_OF_KEY = r"(?:[\s\u2028>|+*#]*+(?:(?:\\{1,2}[nr]|<br ?/?>|\d{1,6}[:|\t])\s*+){0,4}[A-Za-z0-9+/=]{16,}+)+"


def _match_key_block(kind: str) -> str:
    """Return the pattern of a key's block to its end, or, where that was cut off, as far as it looks like a key."""
    name = rf"{kind}(?:PRIVATE KEY(?: BLOCK)?|Static key V1)"
    header = r"(?:\s{0,4}|(?:\\{1,2}[nr]){1,4})[>|+]?[ \t]{0,8}[A-Z][A-Za-z-]{2,20}: [^\n\\]{1,200}"
    return (
        rf"-{{4,5}} ?BEGIN {name} ?-{{4,5}}"
        rf"(?:[^-]*+(?:-(?!---)[^-]*+)*-{{4,5}} ?END {name} ?-{{4,5}}|(?:{header})*{_LINES_OF_KEY})"
    )


_CREDENTIALS = r"://[^\s:@/'\"<>]{0,128}+:(?!\d{1,5}(?:[/?#]|$))[^\s@'\"<>]{1,256}+@[^\s'\"<>)\]]{1,512}"
_QUOTED = r"\"[^\"\n]{1,4096}\"|'[^'\n]{1,4096}'"
_VALUE = rf"(?P<secret>{_QUOTED}|[^\s\"'`,;&]{{1,4096}})"
_EDGE = r"(?<![A-Za-z0-9])"


def _assignment_rules(label: str, hint: str, names: str) -> tuple[_Rule, _Rule]:
    """Return the rules of `NAME=value` and of `"name": "value"`."""
    return (
        _build_rule(
            label, hint, rf"(?:{names})\\?[\"']?[ \t]{{0,8}}=(?!=)[ \t]{{0,8}}{_VALUE}", _is_value, re.IGNORECASE
        ),
        _build_rule(
            label, hint, rf"(?:{names})\\?[\"']?[ \t]{{0,8}}:[ \t]{{0,8}}{_VALUE}", _is_long_and_mixed, re.IGNORECASE
        ),
    )


def _is_long_and_mixed(value: str) -> bool:
    return len(value.strip("\"'")) >= SHORTEST_OWN_KEY and _is_mixed(value)


def _is_signed_password(value: str) -> bool:
    """Return whether a value after a colon, or in a sentence, is a password: no word of a sentence."""
    return len(value.strip("\"'")) >= _SHORTEST_SIGNED and _is_password(value) and _SIGNED.search(value) is not None


_SHORTEST_SIGNED = 6


def _form_rule(form: CredentialForm, pattern: str) -> _Rule:
    is_one = _is_mixed if form.mixed else bool
    return _build_rule(
        form.label, form.hint, rf"{_EDGE}(?:{pattern})", lambda value: _is_no_filler(value) and is_one(value)
    )


def _password_rules(behind: str, is_one: Callable[[str], bool]) -> tuple[_Rule, ...]:
    """Return the rules of what passwords are assigned to, by what two in a hundred texts hold, not by one letter."""
    names = {
        # Not `PASS: name of a test`.
        "pass": r"(?:password|passwd|passphrase|passcode|(?<![A-Za-z])(?!(?-i:PASS): )pass|_pass)",
        "pw": r"(?:(?<![A-Za-z])(?:pwd|pw)|_pwd)",
    }
    return tuple(
        _build_rule("PASSWORD", hint, rf"{name}{behind}", is_one, re.IGNORECASE) for hint, name in names.items()
    )


def _is_of_a_login(value: str) -> bool:
    """Return whether what stands behind `-u name:` is a password: no word that names one, no number of a group."""
    return _is_value(value) and value.lower() not in _NAMES_OF_VALUES


def _is_command_password(value: str) -> bool:
    """Return whether an option's value is a password: no option, no file, no address with a port."""
    return not value.startswith(("-", "/", "@")) and _is_mixed(value) and not re.fullmatch(r"[\d.:/]+(?:/\w+)?", value)


#: Options that are followed by a password, of commands that have no long name for it.
_COMMAND_PASSWORDS = (
    ("curl", r" (?:-U ?|--proxy-user[ =])[\"']?[\w.@-]{1,64}:"),
    ("sshpass", r" -p ?"),
    ("mysql", r" -p(?! )"),
    ("mysqldump", r" -p(?! )"),
    ("redis-cli", r" -a "),
    ("valkey-cli", r" -a "),
    ("ldapsearch", r" -w "),
    ("docker login", r" -p "),
    ("podman login", r" -p "),
    ("az login", r" -p "),
    ("htpasswd", r" -\w{0,4}b\w{0,4} \S{1,128} \S{1,64} "),
    ("net use", r" /user:\S{1,64} "),
)
_NAME_OF_ONE = (
    r"[\"']?[\w.-]{0,64}?"
    r"(?:api[-_]?key|secret[-_]?key|access[-_]?key|password|passwd|[-_]token|secret)[\w.-]{0,16}[\"']?"
)


def _session_rule(hint: str, names: str) -> _Rule:
    pattern = rf"(?<![A-Za-z])(?:{names})=(?P<secret>[^\s\"'`,;&]{{12,1024}})"
    return _build_rule("COOKIE", hint, pattern, _is_mixed, re.IGNORECASE)


#: The rules, in the order in which they are applied.
_KEYS: tuple[_Rule, ...] = (
    _build_rule("OPENSSH_PRIVATE_KEY", "private key", _match_key_block("OPENSSH "), whole=True),
    _build_rule("PRIVATE_KEY", "private key", _match_key_block(r"(?:[A-Z0-9]{1,16} ){0,3}"), whole=True),
    _build_rule("PRIVATE_KEY", "static key v1", _match_key_block("OpenVPN "), whole=True),
    # One whose beginning was cut off.
    _build_rule(
        "PRIVATE_KEY",
        "private key",
        rf"(?<!END )(?<!END [A-Z]{{2}} )PRIVATE KEY(?: BLOCK)? ?-{{4,5}}{_LINES_OF_KEY}",
        whole=True,
    ),
    _build_rule(
        "PRIVATE_KEY",
        "private key",
        r"^(?<![A-Za-z0-9+/=]\n)(?<![A-Za-z0-9+/=]\r\n)(?:[A-Za-z0-9+/]{16,}+={0,2}\s{1,4})+"
        r"-{4,5} ?END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)? ?-{4,5}",
        flags=re.MULTILINE,
        whole=True,
    ),
    _build_rule("PRIVATE_KEY", "private-lines:", rf"Private-Lines: \d{{1,4}}(?P<secret>{_LINES_OF_KEY})", whole=True),
    _build_rule(
        "PRIVATE_KEY",
        "secret key",
        rf"secret key(?=[ \t\r]{{0,4}}(?:\n|\\{{1,2}}n))(?P<secret>{_LINES_OF_KEY})",
        whole=True,
    ),
    _build_rule(
        "PRIVATE_KEY", '"kty"', r'"(?:d|p|q|dp|dq|qi|k)"\s{0,4}:\s{0,4}"(?P<secret>[A-Za-z0-9_-]{40,4096}+)"', _is_mixed
    ),
    _build_rule(
        "MNEMONIC",
        "phrase",
        r"(?:seed|recovery|mnemonic|secret)[ _-]?phrase[\"']?[ \t]{0,4}(?:is|[:=])\s{0,4}[\"']?"
        r"(?P<secret>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})",
        flags=re.IGNORECASE,
    ),
    _build_rule(
        "DB_URL_WITH_CREDENTIALS",
        "://",
        rf"{_EDGE}(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|oracle|clickhouse)"
        rf"(?:\+[a-z0-9]{{1,16}})?{_CREDENTIALS}",
        flags=re.IGNORECASE,
    ),
    _build_rule(
        "URL_WITH_CREDENTIALS",
        "://",
        rf"{_EDGE}(?:https?|ftps?|sftp|ssh"
        rf"|smtps?)://[^\s:@/'\"<>]{{0,128}}+:[^\s:@/'\"<>]{{1,256}}+@[^\s'\"<>)\]]{{1,512}}",
        flags=re.IGNORECASE,
    ),
    # Of any other scheme, which stays.
    _build_rule(
        "URL_WITH_CREDENTIALS",
        "://",
        r"(?<=[A-Za-z0-9])://[^\s:@/'\"<>]{0,128}+:(?!\d{1,5}(?:[/?#]|$))[^\s:@/'\"<>]{1,256}+@[^\s'\"<>)\]]{1,512}",
    ),
    _build_rule(
        "URL_WITH_CREDENTIALS",
        "://",
        r"(?<=[A-Za-z0-9]://)(?P<secret>[A-Za-z0-9_-]{20,256}+@[^\s'\"<>)\]]{1,512})",
        _is_mixed,
    ),
    _build_rule(
        "PASSWORD", ":1521", r"(?<=[A-Za-z0-9_])/(?P<secret>[^\s@/\"']{4,128}+)@(?://)?[A-Za-z0-9.-]{1,128}+:1521"
    ),
    _build_rule("PASSWORD", ":5432:", r":5432:[\w*.-]{1,64}:[\w*.-]{1,64}:(?P<secret>[^\s:\"'\[]{4,256})", _is_value),
    *_assignment_rules("API_KEY", "key", r"api[-_ ]?key"),
    *_assignment_rules("TOKEN", "token", r"[-_]token|(?:access|auth|refresh|session|bearer|bot|id|csrf)token"),
    *_assignment_rules(
        "SECRET", "secret", r"[-_]secret(?:_access)?(?:_key)?|clientsecret|secret[-_]?(?:access[-_]?)?key|appsecret"
    ),
    *_assignment_rules(
        "SECRET", "key", r"(?:private|signing|encryption|master|shared|account)[-_]?(?:access[-_]?)?key"
    ),
    _build_rule(
        "SECRET",
        "key",
        r"(?:secret[-_]?key[-_]?base|(?:subscription|functions|access|app)[-_]?key)"
        rf"\\?[\"']?[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}",
        _is_long_and_mixed,
        re.IGNORECASE,
    ),
    # A name with a hump: `webhookSecret`.
    *(
        _build_rule(
            label,
            name.lower(),
            rf"(?-i:[a-z]{name})\\?[\"']?[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}",
            _is_long_and_mixed,
            re.IGNORECASE,
        )
        for label, name in (("TOKEN", "Token"), ("SECRET", "Secret"))
    ),
    _build_rule(
        "TOKEN", "_pat", rf"_pat\\?[\"']?[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}", _is_long_and_mixed, re.IGNORECASE
    ),
    _build_rule(
        "SECRET",
        "auth",
        rf"(?:_auth|\"auth\")[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}",
        _is_long_and_mixed,
        re.IGNORECASE,
    ),
    _build_rule("PRIVATE_KEY", "key-data:", r"key-data:[ \t]{0,8}(?P<secret>[A-Za-z0-9+/=]{40,}+)", whole=True),
    _build_rule("URL_SIGNATURE", "-signature=", r"(?i:x-(?:amz|goog)-signature)=(?P<secret>[A-Fa-f0-9]{40,1024})"),
    _build_rule("API_KEY", "key=", r"(?<=[?&]key=)(?P<secret>[A-Za-z0-9_-]{20,256}+)", _is_mixed),
    # A pair of a name and a value: `{"name": "DB_PASSWORD", "value": "..."}`, `define('API_KEY', '...')`.
    _build_rule(
        "SECRET",
        "value",
        rf"(?:name|key)[\"']?\s{{0,8}}[:=]\s{{0,8}}{_NAME_OF_ONE}[\s,]{{1,32}}"
        rf"[\"']?value[\"']?\s{{0,8}}[:=][ \t]{{0,8}}{_VALUE}",
        _is_long_and_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "SECRET",
        "define(",
        rf"define\({_NAME_OF_ONE},\s{{0,8}}(?P<secret>{_QUOTED})",
        _is_long_and_mixed,
        re.IGNORECASE,
    ),
    # "token" and "secret" alone are names of many things: what they name must be long and mixed.
    _build_rule(
        "TOKEN",
        "token",
        rf"(?<![A-Za-z])token\\?[\"']?[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}",
        _is_long_and_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "SECRET",
        "secret",
        rf"(?<![A-Za-z])secret\\?[\"']?[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}",
        _is_long_and_mixed,
        re.IGNORECASE,
    ),
    # {"password": "..."}, also within a text that is JSON itself.
    *_password_rules(
        r"(?:\\?[\"'][ \t]{0,8}:\s{0,16}|[\"']?[ \t]{0,8}(?:=>|:=)[ \t]{0,8})"
        r"(?P<secret>\\?[\"'][^\"'\\\n]{1,1024}\\?[\"'])",
        _is_password,
    ),
    *_password_rules(rf"[ \t]{{0,8}}=(?![=>])[ \t]{{0,8}}{_VALUE}", _is_password),
    _build_rule(
        "PASSWORD",
        " '",
        r"(?:with password|identified by|set password)[ =]{1,4}(?P<secret>'[^'\n]{4,256}')",
        _is_password,
        re.IGNORECASE,
    ),
    _build_rule("PASSWORD", "identified by", rf"identified by (?P<secret>{_QUOTED})", _is_password, re.IGNORECASE),
    _build_rule("PASSWORD", "login ", r"login \S{1,128} password (?P<secret>\S{4,256})", _is_value, re.IGNORECASE),
    # The value of YAML may begin on the next line.
    *_password_rules(
        rf"[ \t]{{0,8}}:[ \t]{{0,8}}(?:[|>][+-]?[ \t\r]{{0,8}}\n[ \t]{{1,32}})?{_VALUE}", _is_signed_password
    ),
    *_password_rules(rf" (?:is|was|=)[: ]{{1,3}}{_VALUE}", _is_signed_password),
    _build_rule(
        "PASSWORD",
        "--",
        rf"(?<![\w-])--?(?:password|passwd|pass|token|secret|api-key)[ =]{_VALUE}",
        _is_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "PASSWORD",
        "-u",
        r"(?<![\w-])(?:-u ?|--user[ =])[\"']?[\w.@-]{1,64}:(?P<secret>[^\s\"':@/\[]{4,256})",
        _is_of_a_login,
    ),
    *(
        _build_rule("PASSWORD", command, rf"\b{command}\b[^\n|;&]{{0,200}}?{option}{_VALUE}", _is_command_password)
        for command, option in _COMMAND_PASSWORDS
    ),
    _build_rule("PASSWORD", "chpasswd", r"[\w.-]{1,64}:(?P<secret>[^\s\"':\[\]]{4,256})[\"']? ?\| ?(?:sudo )?chpasswd"),
    *(
        _build_rule(
            "TOKEN",
            f"--{option}",
            rf"echo [\"']?(?P<secret>[^\s\"'|$]{{8,1024}})[\"']? ?\|[^\n|]{{0,100}}--{option}",
            _is_mixed,
        )
        for option in ("with-token", "password-stdin")
    ),
    _build_rule(
        "SECRET",
        "</",
        r"<(?:\w{1,20}:)?\w{0,20}(?:password|passwd|secret|token"
        r"|api-?key)>[ \t]{0,8}(?P<secret>[^<>\s]{4,1024})[ \t]{0,8}</",
        _is_value,
        re.IGNORECASE,
    ),
    _build_rule(
        "COOKIE",
        "cookie",
        r"(?<![A-Za-z])(?:set-)?cookie2?[\"']?[ \t]{0,8}:[ \t]{0,8}[\"']?(?P<secret>[^\n\"']{6,4096})",
        _is_cookie,
        re.IGNORECASE,
    ),
    _build_rule(
        "COOKIE",
        "session",
        r"(?<![A-Za-z])session(?:_?id)?\t(?P<secret>[^\s\"']{12,1024})",
        _is_mixed,
    ),
    _build_rule(
        "COOKIE", ".cookie", r"\.cookie[ \t]?=[ \t]?[\"'][\w.-]{1,64}=(?P<secret>[^\s\"';]{12,1024})", _is_mixed
    ),
    _session_rule("session", r"JSESSIONID|ASP\.NET_SessionId|session_?id"),
    _session_rule("sid", r"PHPSESSID|connect\.sid|sid|sessid"),
    _build_rule(
        "BEARER_TOKEN",
        "authorization",
        r"authorization[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?(?:bearer|basic|token)[ \t]{1,8}"
        r"(?P<secret>[^\s\"'`,;]{4,4096})",
        _is_value,
        re.IGNORECASE,
    ),
    # Any other scheme, or none.
    _build_rule(
        "AUTHORIZATION",
        "authorization",
        r"authorization\\?[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\?[\"']?(?:[A-Za-z][A-Za-z0-9-]{0,31}[ \t]{1,8})?"
        r"(?P<secret>[^\s\"'`,;]{16,4096})",
        _is_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "AUTHORIZATION",
        "authorization",
        r"authorization[\"']?[ \t]{0,8}[:=][^\n]{1,600}?(?:response|signature|mac)=[\"']?"
        r"(?P<secret>[A-Za-z0-9+/%=_-]{16,1024})",
        _is_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "BEARER_TOKEN",
        "bearer",
        rf"{_EDGE}bearer[ \t]{{1,8}}(?P<secret>[A-Za-z0-9._~+/=-]{{8,4096}})",
        _is_bearer,
        re.IGNORECASE,
    ),
)

#: The rules of tokens, which are applied after the others.
_TOKENS: tuple[_Rule, ...] = (
    *(_form_rule(one, one.pattern) for one in read_forms()),
    _build_rule("SK_TOKEN", "sk-", rf"{_EDGE}sk-[A-Za-z0-9_-]{{16,}}+", _is_dashed_token),
    # A header alone matches, so that its length decides nothing: it may be longer than LONGEST, and is read once.
    _build_rule("JWT", "eyj", rf"{_EDGE}eyJ[A-Za-z0-9_-]{{10,}}+(?:\.[A-Za-z0-9_-]{{2,}}+)*", _is_jwt),
)


#: As many characters as the shortest token has; most texts have no run of them: 24 -> 11 us for a message.
SHORTEST_TOKEN = 13
_TOKEN_LIKE = re.compile(rf"(?<![!-~])[!-~]{{{SHORTEST_TOKEN}}}")


class _ExactForm(NamedTuple):
    """A form of one length: the rule of the whole, and what stands before its random characters."""

    prefix: re.Pattern[str]
    rule: _Rule


_EXACT = tuple(
    _ExactForm(re.compile(re.split(r"\[(?:A-Z|a-f)", one.exact)[0].replace("_", r"\\?_")), _form_rule(one, one.exact))
    for one in read_forms()
    if one.exact
)

#: A digest says of what kind it is: `sha256:...`.
_NO_DIGEST = r"(?<!sha1:)(?<!sha256:)(?<!sha384:)(?<!sha512:)(?<!SHA256:)(?<!md5:)"
_BLOBS: tuple[_Rule, ...] = (
    _build_rule(
        "BASE64_BLOB", "", rf"(?<![A-Za-z0-9+/_-]){_NO_DIGEST}[A-Za-z0-9+/_-]{{{SHORTEST_BLOB},}}+={{0,2}}", _is_blob
    ),
    # A token within a path or a URL.
    _build_rule("BASE64_BLOB", "", rf"(?<=/)[A-Za-z0-9+_-]{{{SHORTEST_BLOB},}}+={{0,2}}", _is_blob),
)
