"""Replaces secrets in a text before the text is stored, logged or sent on. Pure, and linear in the text.

Rules are tried in order; a later one skips what an earlier one found. A redacted text stays the same when redacted
again. The name of an assignment is kept: `X_API_KEY=[REDACTED:API_KEY]`. A token is recognised by its form, so that
paths, hashes, UUIDs, identifiers and placeholders (`$TOKEN`, `<your key>`) stay readable. Full-width letters count as
their usual ones, and a token of known length that a line end broke counts as one.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from store.off_loop import give_way, iterate_giving_way
from store.text.credential_forms import CredentialForm, read_forms

#: Fewest characters of a caller's own key that is searched for; a shorter one would match ordinary words. No form of a
#: credential is shorter.
SHORTEST_OWN_KEY = 8
OWN_KEY = "OWN_KEY"
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
    plain = text.translate(_NARROW)
    lowered = plain.lower()
    found = _find_broken(plain, own_keys)
    for rule in (*_own_rules(plain, own_keys), *_KEYS, *(_BLOBS if level is Redaction.ALL else ())):
        if rule.hint in lowered:
            found = _merge_secrets(found, _find_matches(plain, rule))
    return found


#: Full-width letters, digits and marks, as their usual forms; each is one character.
_NARROW = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
# A line end, with what wraps a line: a mark of continuation before, an indentation or a mark of quotation behind.
_LINE_END = r"(?<=[A-Za-z0-9_.+/=-])\\?(?:\r?\n|\\n)"
_BREAK = re.compile(_LINE_END + r"[ \t>|+*-]{0,8}(?=[A-Za-z0-9_.+/=-])")
_SIGN_KEPT = re.compile(_LINE_END + r"[ \t>|+*-]{0,8}?(?=[A-Za-z0-9_.+/=-])")


def _find_broken(text: str, own_keys: Iterable[str]) -> list[SecretSpan]:
    """Return the tokens of known length, and own keys, that a line end breaks in two or more."""
    if "\n" not in text and "\\n" not in text:
        return []
    breaks = [match.span() for match in iterate_giving_way(_BREAK.finditer(text))]
    found = _find_joined(text, breaks, own_keys)
    # A sign at the beginning of a line may be the token's own.
    if any(text[end - 1] in "+-" for _, end in breaks):
        kept = [match.span() for match in iterate_giving_way(_SIGN_KEPT.finditer(text))]
        found = _merge_secrets(found, _find_joined(text, kept, own_keys))
    return found


def _find_joined(text: str, spans: list[tuple[int, int]], own_keys: Iterable[str]) -> list[SecretSpan]:
    """Return such tokens of the text without these breaks."""
    if not spans:
        return []
    # Not by `sub`, during which no other thread runs.
    around = pairwise([(0, 0), *spans, (len(text), 0)])
    joined = "".join([text[end:start] for (_, end), (start, _) in iterate_giving_way(around)])
    lowered = joined.lower()
    rules = [*_own_rules(joined, own_keys), *(rule for rule in _EXACT if rule.hint in lowered)]
    places = _JoinedPlaces(spans)
    found = list[SecretSpan]()
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


def _own_rules(text: str, own_keys: Iterable[str]) -> Iterator[_Rule]:
    for key in sorted({one for one in own_keys if len(one) >= SHORTEST_OWN_KEY and one in text}, key=len, reverse=True):
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


def _replace_secrets(text: str, secrets: list[SecretSpan]) -> str:
    pieces, at = list[str](), 0
    for one in secrets:
        pieces += (text[at : one.start], f"[REDACTED:{one.label}]")
        at = one.end
    return "".join(pieces) + text[at:]


# -- what a value must be to be a secret

_PLACEHOLDER = re.compile(r"[$<{%*]|\[REDACTED:|\.\.\.|x{4,}", re.IGNORECASE)
_CODE = re.compile(r"[A-Za-z_][\w.]*[(\[]|[a-z_]+(?:\.[a-z_]+)+\Z")
_HARMLESS = frozenset(
    {"none", "null", "nil", "true", "false", "undefined", "changeme", "example", "required", "optional"}
)


def _is_value(value: str) -> bool:
    """Return whether an assigned value may be a secret: no placeholder, no code, no small number."""
    bare = value.strip("\"'")
    return not (
        not bare
        or (bare == value and _CODE.match(bare))
        or _PLACEHOLDER.match(bare)
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
    return _UNBROKEN.match(value) is not None or _is_mixed(value)


_UNBROKEN = re.compile(r"[A-Za-z]+-[A-Za-z0-9]{16}")


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
_IPFS = re.compile(r"Qm[1-9A-HJ-NP-Za-km-z]{44}")


def _is_blob(run: str) -> bool:
    if _DIGEST.match(run) or _IPFS.fullmatch(run):
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
_PEM = (
    r"-----BEGIN {name}PRIVATE KEY(?: BLOCK)?-----"
    # To its end, or, where that was cut off, as far as it looks like a key.
    r"(?:[^-]*+(?:-(?!----)[^-]*+)*-----END {name}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:\s*+(?:\\[nr]\s*+)*[A-Za-z0-9+/=]{{16,}}+)+)"
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
    return _build_rule(form.label, form.hint, rf"{_EDGE}(?:{pattern})", _is_mixed if form.mixed else bool)


def _password_rules(behind: str, is_one: Callable[[str], bool]) -> tuple[_Rule, ...]:
    """Return the rules of what passwords are assigned to, by what two in a hundred texts hold, not by one letter."""
    names = {
        "pass": r"(?:password|passwd|passphrase|passcode|(?<![A-Za-z])pass|_pass)",
        "pw": r"(?:(?<![A-Za-z])(?:pwd|pw)|_pwd)",
    }
    return tuple(
        _build_rule("PASSWORD", hint, rf"{name}{behind}", is_one, re.IGNORECASE) for hint, name in names.items()
    )


def _session_rule(hint: str, names: str) -> _Rule:
    pattern = rf"(?<![A-Za-z])(?:{names})=(?P<secret>[^\s\"'`,;&]{{12,1024}})"
    return _build_rule("COOKIE", hint, pattern, _is_mixed, re.IGNORECASE)


#: The rules, in the order in which they are applied.
_KEYS: tuple[_Rule, ...] = (
    _build_rule("OPENSSH_PRIVATE_KEY", "private key", _PEM.format(name="OPENSSH "), whole=True),
    _build_rule("PRIVATE_KEY", "private key", _PEM.format(name=r"(?:[A-Z0-9]{1,16} ){0,3}"), whole=True),
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
    *_assignment_rules("API_KEY", "key", r"api[-_]?key"),
    *_assignment_rules("TOKEN", "token", r"[-_]token|(?:access|auth|refresh|session|bearer|bot|id|csrf)token"),
    *_assignment_rules(
        "SECRET", "secret", r"[-_]secret(?:_access)?(?:_key)?|clientsecret|secret[-_]?(?:access[-_]?)?key|appsecret"
    ),
    *_assignment_rules(
        "SECRET", "key", r"(?:private|signing|encryption|master|shared|account)[-_]?(?:access[-_]?)?key"
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
    *_password_rules(r"\\?[\"'][ \t]{0,8}:[ \t]{0,8}(?P<secret>\\?[\"'][^\"'\\\n]{1,1024}\\?[\"'])", _is_password),
    *_password_rules(rf"[ \t]{{0,8}}=(?![=>])[ \t]{{0,8}}{_VALUE}", _is_password),
    *_password_rules(rf"[ \t]{{0,8}}:[ \t]{{0,8}}{_VALUE}", _is_signed_password),
    *_password_rules(rf" (?:is|was|=)[: ]{{1,3}}{_VALUE}", _is_signed_password),
    _build_rule(
        "PASSWORD",
        "--",
        rf"(?<![\w-])--?(?:password|passwd|pass|token|secret|api-key)[ =]{_VALUE}",
        _is_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "PASSWORD", "-u", r"(?<![\w-])(?:-u|--user)[ =][\"']?[\w.@-]{1,64}:(?P<secret>[^\s\"':@/\[]{4,256})", _is_value
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
    _build_rule(
        "BEARER_TOKEN",
        "bearer",
        rf"{_EDGE}bearer[ \t]{{1,8}}(?P<secret>[A-Za-z0-9._~+/=-]{{8,4096}})",
        _is_bearer,
        re.IGNORECASE,
    ),
    *(_form_rule(one, one.pattern) for one in read_forms()),
    _build_rule("SK_TOKEN", "sk-", rf"{_EDGE}sk-[A-Za-z0-9_-]{{16,}}+", _is_dashed_token),
    # A header alone matches, so that its length decides nothing: it may be longer than LONGEST, and is read once.
    _build_rule("JWT", "eyj", rf"{_EDGE}eyJ[A-Za-z0-9_-]{{8,}}+(?:\.[A-Za-z0-9_-]{{2,}}+)*", _is_jwt),
)

#: The forms of one length, whole.
_EXACT = tuple(_form_rule(one, one.exact) for one in read_forms() if one.exact)

#: A digest says of what kind it is: `sha256:...`.
_NO_DIGEST = r"(?<!sha1:)(?<!sha256:)(?<!sha384:)(?<!sha512:)(?<!SHA256:)(?<!md5:)"
_BLOBS: tuple[_Rule, ...] = (
    _build_rule(
        "BASE64_BLOB", "", rf"(?<![A-Za-z0-9+/_-]){_NO_DIGEST}[A-Za-z0-9+/_-]{{{SHORTEST_BLOB},}}+={{0,2}}", _is_blob
    ),
    # A token within a path or a URL.
    _build_rule("BASE64_BLOB", "", rf"(?<=/)[A-Za-z0-9+_-]{{{SHORTEST_BLOB},}}+={{0,2}}", _is_blob),
)
