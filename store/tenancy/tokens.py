"""The form of a key's token: a prefix, 256 random bits, and a checksum that tells a mistyped token without a query.

    at_, uk_, op_, cs_ or cl_ | 43 characters of base64url | 6 base62 digits: the CRC-32 of all that stands before them

The checksum is no secret and no proof: it only spares the database what cannot be a key.
"""

import re
import secrets
import string
import zlib

SECRET_BYTES = 32
#: Prefix of operators' keys.
OPERATOR_PREFIX = "op_"
#: Prefixes of a console session's half in the cookie, and of a one-time link into the console.
SESSION_PREFIX, LINK_PREFIX = "cs_", "cl_"
CHECKSUM_DIGITS = 6
DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
#: Prefixes of keys, of keys with a gateway user, of operators' keys and of the console's; characters behind a prefix.
KEY_PREFIXES = ("at_", "uk_", OPERATOR_PREFIX, SESSION_PREFIX, LINK_PREFIX)
BODY_CHARACTERS = 43 + CHECKSUM_DIGITS
#: Prefix of the token of an open turn, and the characters behind it (store/memory/open_turns.py).
OPEN_TURN_PREFIX, OPEN_TURN_CHARACTERS = "rt_", 64
FORM = re.compile(rf"(?:{'|'.join(KEY_PREFIXES)})[A-Za-z0-9_-]{{43}}[0-9A-Za-z]{{{CHECKSUM_DIGITS}}}", re.ASCII)


def new_token(prefix: str) -> str:
    """Return a token that was never made before; `prefix` is one of `KEY_PREFIXES`."""
    body = prefix + secrets.token_urlsafe(SECRET_BYTES)
    return body + token_checksum(body)


def is_well_formed(token: str) -> bool:
    """Return whether the form and the checksum are those of a token."""
    if FORM.fullmatch(token) is None:
        return False
    return token.endswith(token_checksum(token[:-CHECKSUM_DIGITS]))


def token_checksum(body: str) -> str:
    """Return the digits that end a token whose other characters are `body` (ASCII)."""
    rest, digits = zlib.crc32(body.encode("ascii")), ""
    for _ in range(CHECKSUM_DIGITS):
        rest, digit = divmod(rest, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits
