"""The rules of redaction: the pattern of each kind of secret, and the test that its value passes.

Those of keys and passwords are a table, `data/secret_rules.toml`.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from store.text.credential_forms import CredentialForm, read_forms
from store.text.secret_values import (
    SHORTEST_BLOB,
    is_bearer,
    is_blob,
    is_command_password,
    is_cookie,
    is_dashed_token,
    is_jwt,
    is_long_and_mixed,
    is_mixed,
    is_no_filler,
    is_of_a_login,
    is_password,
    is_signed_password,
    is_value,
)


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
