"""The rules of redaction: the pattern of each kind of secret, and the test that its value passes."""

import re
from collections.abc import Callable
from typing import NamedTuple

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
    label: str,
    hint: str,
    pattern: str,
    is_one: Callable[[str], bool] = bool,
    flags: re.RegexFlag = re.NOFLAG,
    *,
    whole: bool = False,
) -> SecretRule:
    return SecretRule(label, hint, re.compile(pattern, flags | re.ASCII), is_one, whole)


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


def _assignment_rules(label: str, hint: str, names: str) -> tuple[SecretRule, SecretRule]:
    """Return the rules of `NAME=value` and of `"name": "value"`."""
    return (
        _build_rule(
            label, hint, rf"(?:{names})\\?[\"']?[ \t]{{0,8}}=(?!=)[ \t]{{0,8}}{_VALUE}", is_value, re.IGNORECASE
        ),
        _build_rule(
            label, hint, rf"(?:{names})\\?[\"']?[ \t]{{0,8}}:[ \t]{{0,8}}{_VALUE}", is_long_and_mixed, re.IGNORECASE
        ),
    )


def _form_rule(form: CredentialForm, pattern: str) -> SecretRule:
    is_one = is_mixed if form.mixed else bool
    return _build_rule(
        form.label, form.hint, rf"{_EDGE}(?:{pattern})", lambda value: is_no_filler(value) and is_one(value)
    )


def _password_rules(behind: str, is_one: Callable[[str], bool]) -> tuple[SecretRule, ...]:
    """Return the rules of what passwords are assigned to, by what two in a hundred texts hold, not by one letter."""
    names = {
        # Not `PASS: name of a test`.
        "pass": r"(?:password|passwd|passphrase|passcode|(?<![A-Za-z])(?!(?-i:PASS): )pass|_pass)",
        "pw": r"(?:(?<![A-Za-z])(?:pwd|pw)|_pwd)",
    }
    return tuple(
        _build_rule("PASSWORD", hint, rf"{name}{behind}", is_one, re.IGNORECASE) for hint, name in names.items()
    )


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


def _session_rule(hint: str, names: str) -> SecretRule:
    pattern = rf"(?<![A-Za-z])(?:{names})=(?P<secret>[^\s\"'`,;&]{{12,1024}})"
    return _build_rule("COOKIE", hint, pattern, is_mixed, re.IGNORECASE)


#: The rules, in the order in which they are applied.
KEYS: tuple[SecretRule, ...] = (
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
        "PRIVATE_KEY", '"kty"', r'"(?:d|p|q|dp|dq|qi|k)"\s{0,4}:\s{0,4}"(?P<secret>[A-Za-z0-9_-]{40,4096}+)"', is_mixed
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
        is_mixed,
    ),
    _build_rule(
        "PASSWORD", ":1521", r"(?<=[A-Za-z0-9_])/(?P<secret>[^\s@/\"']{4,128}+)@(?://)?[A-Za-z0-9.-]{1,128}+:1521"
    ),
    _build_rule("PASSWORD", ":5432:", r":5432:[\w*.-]{1,64}:[\w*.-]{1,64}:(?P<secret>[^\s:\"'\[]{4,256})", is_value),
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
        is_long_and_mixed,
        re.IGNORECASE,
    ),
    # A name with a hump: `webhookSecret`.
    *(
        _build_rule(
            label,
            name.lower(),
            rf"(?-i:[a-z]{name})\\?[\"']?[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}",
            is_long_and_mixed,
            re.IGNORECASE,
        )
        for label, name in (("TOKEN", "Token"), ("SECRET", "Secret"))
    ),
    _build_rule(
        "TOKEN", "_pat", rf"_pat\\?[\"']?[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}", is_long_and_mixed, re.IGNORECASE
    ),
    _build_rule(
        "SECRET",
        "auth",
        rf"(?:_auth|\"auth\")[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}",
        is_long_and_mixed,
        re.IGNORECASE,
    ),
    _build_rule("PRIVATE_KEY", "key-data:", r"key-data:[ \t]{0,8}(?P<secret>[A-Za-z0-9+/=]{40,}+)", whole=True),
    _build_rule("URL_SIGNATURE", "-signature=", r"(?i:x-(?:amz|goog)-signature)=(?P<secret>[A-Fa-f0-9]{40,1024})"),
    _build_rule("API_KEY", "key=", r"(?<=[?&]key=)(?P<secret>[A-Za-z0-9_-]{20,256}+)", is_mixed),
    # A pair of a name and a value: `{"name": "DB_PASSWORD", "value": "..."}`, `define('API_KEY', '...')`.
    _build_rule(
        "SECRET",
        "value",
        rf"(?:name|key)[\"']?\s{{0,8}}[:=]\s{{0,8}}{_NAME_OF_ONE}[\s,]{{1,32}}"
        rf"[\"']?value[\"']?\s{{0,8}}[:=][ \t]{{0,8}}{_VALUE}",
        is_long_and_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "SECRET",
        "define(",
        rf"define\({_NAME_OF_ONE},\s{{0,8}}(?P<secret>{_QUOTED})",
        is_long_and_mixed,
        re.IGNORECASE,
    ),
    # "token" and "secret" alone are names of many things: what they name must be long and mixed.
    _build_rule(
        "TOKEN",
        "token",
        rf"(?<![A-Za-z])token\\?[\"']?[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}",
        is_long_and_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "SECRET",
        "secret",
        rf"(?<![A-Za-z])secret\\?[\"']?[ \t]{{0,8}}[:=](?!=)[ \t]{{0,8}}{_VALUE}",
        is_long_and_mixed,
        re.IGNORECASE,
    ),
    # {"password": "..."}, also within a text that is JSON itself.
    *_password_rules(
        r"(?:\\?[\"'][ \t]{0,8}:\s{0,16}|[\"']?[ \t]{0,8}(?:=>|:=)[ \t]{0,8})"
        r"(?P<secret>\\?[\"'][^\"'\\\n]{1,1024}\\?[\"'])",
        is_password,
    ),
    *_password_rules(rf"[ \t]{{0,8}}=(?![=>])[ \t]{{0,8}}{_VALUE}", is_password),
    _build_rule(
        "PASSWORD",
        " '",
        r"(?:with password|identified by|set password)[ =]{1,4}(?P<secret>'[^'\n]{4,256}')",
        is_password,
        re.IGNORECASE,
    ),
    _build_rule("PASSWORD", "identified by", rf"identified by (?P<secret>{_QUOTED})", is_password, re.IGNORECASE),
    _build_rule("PASSWORD", "login ", r"login \S{1,128} password (?P<secret>\S{4,256})", is_value, re.IGNORECASE),
    # The value of YAML may begin on the next line.
    *_password_rules(
        rf"[ \t]{{0,8}}:[ \t]{{0,8}}(?:[|>][+-]?[ \t\r]{{0,8}}\n[ \t]{{1,32}})?{_VALUE}", is_signed_password
    ),
    *_password_rules(rf" (?:is|was|=)[: ]{{1,3}}{_VALUE}", is_signed_password),
    _build_rule(
        "PASSWORD",
        "--",
        rf"(?<![\w-])--?(?:password|passwd|pass|token|secret|api-key)[ =]{_VALUE}",
        is_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "PASSWORD",
        "-u",
        r"(?<![\w-])(?:-u ?|--user[ =])[\"']?[\w.@-]{1,64}:(?P<secret>[^\s\"':@/\[]{4,256})",
        is_of_a_login,
    ),
    *(
        _build_rule("PASSWORD", command, rf"\b{command}\b[^\n|;&]{{0,200}}?{option}{_VALUE}", is_command_password)
        for command, option in _COMMAND_PASSWORDS
    ),
    _build_rule("PASSWORD", "chpasswd", r"[\w.-]{1,64}:(?P<secret>[^\s\"':\[\]]{4,256})[\"']? ?\| ?(?:sudo )?chpasswd"),
    *(
        _build_rule(
            "TOKEN",
            f"--{option}",
            rf"echo [\"']?(?P<secret>[^\s\"'|$]{{8,1024}})[\"']? ?\|[^\n|]{{0,100}}--{option}",
            is_mixed,
        )
        for option in ("with-token", "password-stdin")
    ),
    _build_rule(
        "SECRET",
        "</",
        r"<(?:\w{1,20}:)?\w{0,20}(?:password|passwd|secret|token"
        r"|api-?key)>[ \t]{0,8}(?P<secret>[^<>\s]{4,1024})[ \t]{0,8}</",
        is_value,
        re.IGNORECASE,
    ),
    _build_rule(
        "COOKIE",
        "cookie",
        r"(?<![A-Za-z])(?:set-)?cookie2?[\"']?[ \t]{0,8}:[ \t]{0,8}[\"']?(?P<secret>[^\n\"']{6,4096})",
        is_cookie,
        re.IGNORECASE,
    ),
    _build_rule(
        "COOKIE",
        "session",
        r"(?<![A-Za-z])session(?:_?id)?\t(?P<secret>[^\s\"']{12,1024})",
        is_mixed,
    ),
    _build_rule(
        "COOKIE", ".cookie", r"\.cookie[ \t]?=[ \t]?[\"'][\w.-]{1,64}=(?P<secret>[^\s\"';]{12,1024})", is_mixed
    ),
    _session_rule("session", r"JSESSIONID|ASP\.NET_SessionId|session_?id"),
    _session_rule("sid", r"PHPSESSID|connect\.sid|sid|sessid"),
    _build_rule(
        "BEARER_TOKEN",
        "authorization",
        r"authorization[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?(?:bearer|basic|token)[ \t]{1,8}"
        r"(?P<secret>[^\s\"'`,;]{4,4096})",
        is_value,
        re.IGNORECASE,
    ),
    # Any other scheme, or none.
    _build_rule(
        "AUTHORIZATION",
        "authorization",
        r"authorization\\?[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\?[\"']?(?:[A-Za-z][A-Za-z0-9-]{0,31}[ \t]{1,8})?"
        r"(?P<secret>[^\s\"'`,;]{16,4096})",
        is_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "AUTHORIZATION",
        "authorization",
        r"authorization[\"']?[ \t]{0,8}[:=][^\n]{1,600}?(?:response|signature|mac)=[\"']?"
        r"(?P<secret>[A-Za-z0-9+/%=_-]{16,1024})",
        is_mixed,
        re.IGNORECASE,
    ),
    _build_rule(
        "BEARER_TOKEN",
        "bearer",
        rf"{_EDGE}bearer[ \t]{{1,8}}(?P<secret>[A-Za-z0-9._~+/=-]{{8,4096}})",
        is_bearer,
        re.IGNORECASE,
    ),
)
_HINTS = frozenset(rule.hint for rule in KEYS)
#: A text without any of these matches no rule of KEYS: each hint contains one of them. 15 -> 7 us for a message.
HINTS_OF_KEYS = tuple(sorted(hint for hint in _HINTS if not any(other in hint for other in _HINTS - {hint})))
#: The rules of tokens, which are applied after the others.
TOKENS: tuple[SecretRule, ...] = (
    *(_form_rule(one, one.pattern) for one in read_forms()),
    _build_rule("SK_TOKEN", "sk-", rf"{_EDGE}sk-[A-Za-z0-9_-]{{16,}}+", is_dashed_token),
    # A header alone matches, so that its length decides nothing: it may be longer than LONGEST, and is read once.
    _build_rule("JWT", "eyj", rf"{_EDGE}eyJ[A-Za-z0-9_-]{{10,}}+(?:\.[A-Za-z0-9_-]{{2,}}+)*", is_jwt),
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
BLOBS: tuple[SecretRule, ...] = (
    _build_rule(
        "BASE64_BLOB", "", rf"(?<![A-Za-z0-9+/_-]){_NO_DIGEST}[A-Za-z0-9+/_-]{{{SHORTEST_BLOB},}}+={{0,2}}", is_blob
    ),
    # A token within a path or a URL.
    _build_rule("BASE64_BLOB", "", rf"(?<=/)[A-Za-z0-9+_-]{{{SHORTEST_BLOB},}}+={{0,2}}", is_blob),
)
