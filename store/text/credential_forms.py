"""The forms of credentials: those that services document (`data/credential_forms.toml`), and our own."""

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

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
