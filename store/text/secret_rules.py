"""The rules of redaction: the pattern of each kind of secret, and the test that its value passes.

Those of keys and passwords are a table, `data/secret_rules.toml`. The forms of credentials are those that services
document (`data/credential_forms.toml`), and our own. A value that is a secret is no placeholder, no code, no word, no
hash, no path.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from store.tenancy.tokens import BODY_CHARACTERS, KEY_PREFIXES, OPEN_TURN_CHARACTERS, OPEN_TURN_PREFIX

_TABLE = Path(__file__).parent / "data" / "credential_forms.toml"


class CredentialForm(NamedTuple):
    """A form: the label of its secrets, what each of them holds in lower case, its pattern, and where it is documented.

    `mixed`: only a match with digits or capitals among its letters is one. `exact`: the pattern of a whole token, where
    all have one length; else empty.
    """

    label: str
    hint: str
    pattern: str
    source: str
    mixed: bool = False
    exact: str = ""


@cache
def read_forms() -> tuple[CredentialForm, ...]:
    """Return our own forms and those of the table."""
    with _TABLE.open("rb") as file:
        return (*_own_forms(), *(CredentialForm(**one) for one in tomllib.load(file)["form"]))


def _own_forms() -> Iterator[CredentialForm]:
    """Yield the forms of our keys and of the tokens of open turns; a cut one counts as well."""
    for prefix, length in (*((one, BODY_CHARACTERS) for one in KEY_PREFIXES), (OPEN_TURN_PREFIX, OPEN_TURN_CHARACTERS)):
        pattern = rf"{prefix}[A-Za-z0-9_-]{{40,}}+"
        exact = rf"{prefix}[A-Za-z0-9_-]{{{length}}}"
        yield CredentialForm("AFTERTURN_KEY", prefix, pattern, "store/tenancy/tokens.py", mixed=True, exact=exact)


#: Fewest characters of a value behind a name and a colon.
SHORTEST_VALUE = 8
#: Fewest characters of a run of base64 that may be a secret.
SHORTEST_BLOB = 33

# Of values that are assigned.
_PLACEHOLDER = re.compile(r"[$<{%*`]|\[REDACTED:|\.\.\.|x{3,}|(?:your|insert|replace|enter)[-_]", re.IGNORECASE)
_PATH = re.compile(r"[~.]{0,2}(?:/[a-z0-9_.-]+)+/?\Z")
_CODE = re.compile(r"[A-Za-z_][\w.]*[(\[]|[a-z_]+(?:\.[a-z_]+)+\Z")
_HARMLESS = frozenset(
    {"none", "null", "nil", "true", "false", "undefined", "changeme", "example", "required", "optional", "test"}
)
#: Digits of a number that counts something: MAX_TOKEN=128000.
_LONGEST_COUNT = 9
_DIGIT = re.compile(r"\d")
_HUMP = re.compile(r"[a-z][A-Z]")
#: Fewest characters of a password in quotes or behind `=`, and of one behind a colon or in a sentence.
_SHORTEST_PASSWORD, _SHORTEST_SIGNED = 4, 6
_LETTER, _SIGN = re.compile(r"[^\W\d_]"), re.compile(r"[\d!#$%^&*@?+~]")
_VALUE_NAMES = """
    password passwd pwd pass passphrase secret token key string str text value values varchar password1 your_password
    yourpassword mypassword my_password new_password old_password confirm_password hash hashed label input field hidden
    redacted removed masked placeholder username user test
"""
_NAMES_OF_VALUES = frozenset(_VALUE_NAMES.split())
_UNBROKEN = re.compile(r"[A-Za-z]+-[A-Za-z0-9]{16}")
_UNBROKEN_WORD = re.compile(r"[A-Za-z0-9]{24,}")

# Of runs of base64.
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


def is_value(value: str) -> bool:
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


def is_mixed(value: str) -> bool:
    """Return whether a value has digits among its letters, or capitals behind small ones: words have neither."""
    return is_value(value) and bool(_DIGIT.search(value) or _HUMP.search(value))


def is_password(value: str) -> bool:
    """Return whether what is assigned to a password is one: in quotes any word, else one with digits or signs."""
    bare = value.strip("\\\"'")
    if not is_value(bare) or bare.lower().strip("*_- ") in _NAMES_OF_VALUES or len(bare) < _SHORTEST_PASSWORD:
        return False
    return (bare != value and not re.search(r"\s", bare)) or _is_signed(bare)


def is_cookie(value: str) -> bool:
    """Return whether a header's value holds cookies: names with values that are no words."""
    return "=" in value and is_mixed(value.partition("=")[2])


def is_dashed_token(value: str) -> bool:
    """Return whether a match that may hold dashes is a token: names of things with the same prefix have no digits."""
    return is_no_filler(value) and (_UNBROKEN.match(value) is not None or is_mixed(value))


def is_no_filler(value: str) -> bool:
    """Return whether the last characters of a token differ: a placeholder repeats one (`ghp_xxxxxxxxxxxxxxxx`)."""
    return len(set(value[-8:])) > 1


def is_bearer(value: str) -> bool:
    """Return whether the word after `bearer` is a token: mixed, or longer than a word."""
    return is_mixed(value) or _UNBROKEN_WORD.fullmatch(value) is not None


def is_jwt(value: str) -> bool:
    """Return whether a match has the three parts of a JSON Web Token."""
    return value.count(".") > 1


def is_blob(run: str) -> bool:
    """Return whether a run of base64 is random: no digest, no public key, no path of hashes or names."""
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


def is_long_and_mixed(value: str) -> bool:
    """Return whether a value behind a name and a colon may be a secret: long, and no word."""
    return len(value.strip("\"'")) >= SHORTEST_VALUE and is_mixed(value)


def _is_signed(value: str) -> bool:
    """Return whether a value has letters with digits or signs among them, or capitals behind small letters."""
    mixed = _LETTER.search(value) is not None and _SIGN.search(value) is not None
    return mixed or _HUMP.search(value) is not None


def is_signed_password(value: str) -> bool:
    """Return whether a value after a colon, or in a sentence, is a password: no word of a sentence."""
    return len(value.strip("\"'")) >= _SHORTEST_SIGNED and is_password(value) and _is_signed(value)


def is_of_a_login(value: str) -> bool:
    """Return whether what stands behind `-u name:` is a password: no word that names one, no number of a group."""
    return is_value(value) and value.lower() not in _NAMES_OF_VALUES


def is_command_password(value: str) -> bool:
    """Return whether an option's value is a password: no option, no file, no address with a port."""
    return not value.startswith(("-", "/", "@")) and is_mixed(value) and not re.fullmatch(r"[\d.:/]+(?:/\w+)?", value)


class SecretRule(NamedTuple):
    """The pattern of a secret; its group `secret`, else the whole match, is replaced where `is_one` agrees.

    Every text with such a secret contains `hint` in lower case, so most texts are searched no further. `whole`: the
    text is searched in one piece, since more than `redaction.LONGEST` characters decide whether there is one.
    """

    label: str
    hint: str
    pattern: re.Pattern[str]
    is_one: Callable[[str], bool] = bool
    whole: bool = False


def _build_rule(
    told: Mapping[str, Any],
    pattern: str,
    is_one: Callable[[str], bool] = bool,
    flags: re.RegexFlag = re.NOFLAG,
) -> SecretRule:
    compiled = re.compile(_fill_pieces(pattern), flags | re.ASCII)
    return SecretRule(told["label"], told["hint"], compiled, is_one, "whole" in told)


def _form_rule(form: CredentialForm, pattern: str) -> SecretRule:
    is_one = is_mixed if form.mixed else bool
    told = {"label": form.label, "hint": form.hint}
    return _build_rule(told, rf"@EDGE@(?:{pattern})", lambda value: is_no_filler(value) and is_one(value))


_TESTS: Mapping[str, Callable[[str], bool]] = {
    one.__name__: one
    for one in (
        *(bool, is_bearer, is_command_password, is_cookie, is_long_and_mixed, is_mixed),
        *(is_of_a_login, is_password, is_signed_password, is_value),
    )
}
_FILE = Path(__file__).parent / "data" / "secret_rules.toml"
_READ = tomllib.loads(_FILE.read_text(encoding="utf-8"))
#: What passwords are assigned to, by what two in a hundred texts hold, not by one letter.
_PASSWORDS = {
    # Not `PASS: name of a test`.
    "pass": r"(?:password|passwd|passphrase|passcode|(?<![A-Za-z])(?!(?-i:PASS): )pass|_pass)",
    "pw": r"(?:(?<![A-Za-z])(?:pwd|pw)|_pwd)",
}


def _fill_pieces(pattern: str) -> str:
    """Return a pattern with pieces in the place of their names, and of the names in them."""
    for name, piece in _READ["pieces"].items():
        pattern = pattern.replace(f"@{name}@", piece)
    return pattern


def _match_key_block(kind: str) -> str:
    """Return the pattern of a key's block to its end, or, where that was cut off, as far as it looks like a key."""
    name = rf"{kind}(?:PRIVATE KEY(?: BLOCK)?|Static key V1)"
    header = r"(?:\s{0,4}|(?:\\{1,2}[nr]){1,4})[>|+]?[ \t]{0,8}[A-Z][A-Za-z-]{2,20}: [^\n\\]{1,200}"
    return (
        rf"-{{4,5}} ?BEGIN {name} ?-{{4,5}}"
        rf"(?:[^-]*+(?:-(?!---)[^-]*+)*-{{4,5}} ?END {name} ?-{{4,5}}|(?:{header})*@LINES_OF_KEY@)"
    )


def _read_rules(told: Mapping[str, Any]) -> Iterator[SecretRule]:
    """Yield the rules that an entry of the file stands for."""
    is_one = _TESTS[told.get("is_one", "bool")]
    match told:
        case {"names": names}:  # `NAME=value`, and `"name": "value"`
            name = rf"(?:{names})\\?[\"']?[ \t]{{0,8}}"
            yield _build_rule(told, rf"{name}=(?!=)[ \t]{{0,8}}@VALUE@", is_value, re.IGNORECASE)
            yield _build_rule(told, rf"{name}:[ \t]{{0,8}}@VALUE@", is_long_and_mixed, re.IGNORECASE)
        case {"behind": behind}:
            for hint, name in _PASSWORDS.items():
                yield _build_rule({"label": "PASSWORD", "hint": hint}, name + behind, is_one, re.IGNORECASE)
        case {"command": command, "option": option}:
            pattern = rf"\b{command}\b[^\n|;&]{{0,200}}?{option}@VALUE@"
            yield _build_rule({"label": "PASSWORD", "hint": command}, pattern, is_command_password)
        case {"block": kind}:
            yield _build_rule(told, _match_key_block(kind), is_one)
        case _:
            flags = re.IGNORECASE if "any_case" in told else re.MULTILINE if "lines" in told else re.NOFLAG
            yield _build_rule(told, told["pattern"], is_one, flags)


#: The rules, in the order in which they are applied.
KEYS: tuple[SecretRule, ...] = tuple(rule for told in _READ["keys"] for rule in _read_rules(told))
_HINTS = frozenset(rule.hint for rule in KEYS)
#: A text without any of these matches no rule of KEYS: each hint contains one of them. 15 -> 7 us for a message.
HINTS_OF_KEYS = tuple(sorted(hint for hint in _HINTS if not any(other in hint for other in _HINTS - {hint})))
#: The rules of tokens, which are applied after the others.
TOKENS: tuple[SecretRule, ...] = (
    *(_form_rule(one, one.pattern) for one in read_forms()),
    _build_rule({"label": "SK_TOKEN", "hint": "sk-"}, r"@EDGE@sk-[A-Za-z0-9_-]{16,}+", is_dashed_token),
    # A header alone matches, so that its length decides nothing: it may be longer than LONGEST, and is read once.
    _build_rule({"label": "JWT", "hint": "eyj"}, r"@EDGE@eyJ[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]{2,}+)*", is_jwt),
)
#: As many characters as the shortest token has, none of them a space: each token stands within a run of them.
SHORTEST_TOKEN = 13
LONG_RUN = re.compile(rf"(?<![!-~])[!-~]{{{SHORTEST_TOKEN},}}+")


class ExactForm(NamedTuple):
    """A form of one length: the rule of the whole, and what stands before its random characters."""

    prefix: re.Pattern[str]
    rule: SecretRule


EXACT = tuple(
    ExactForm(re.compile(re.split(r"\[(?:A-Z|a-f)", one.exact)[0].replace("_", r"\\?_")), _form_rule(one, one.exact))
    for one in read_forms()
    if one.exact
)
#: A digest says of what kind it is: `sha256:...`.
_NO_DIGEST = r"(?<!sha1:)(?<!sha256:)(?<!sha384:)(?<!sha512:)(?<!SHA256:)(?<!md5:)"
_BLOB = {"label": "BASE64_BLOB", "hint": ""}
BLOBS: tuple[SecretRule, ...] = (
    _build_rule(_BLOB, rf"(?<![A-Za-z0-9+/_-]){_NO_DIGEST}[A-Za-z0-9+/_-]{{{SHORTEST_BLOB},}}+={{0,2}}", is_blob),
    # A token within a path or a URL.
    _build_rule(_BLOB, rf"(?<=/)[A-Za-z0-9+_-]{{{SHORTEST_BLOB},}}+={{0,2}}", is_blob),
)
