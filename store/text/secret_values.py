"""What a value must be to be a secret: no placeholder, no code, no word, no hash, no path. Pure."""

import re

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
